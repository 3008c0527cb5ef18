package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a cluster gets to end after Close before it is killed.
const closeTimeout = time.Minute

// interrupted is the exit code of a program that was asked to end while it started a cluster, and has left nothing.
const interrupted = 130

// attach has the program run a cluster. It ends with the program's standard input, whose other end the kernel closes
// when this process ends, in whatever way.
func (c *Cluster) attach(ctx context.Context, o Options) error {
	cmd := exec.CommandContext(ctx, c.program, "up", "--attach", "--dir", o.Dir, "--nodes", fmt.Sprint(o.Nodes))
	// A process group of its own: Ctrl-C in a terminal is for the test or lab, which then closes the cluster in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = closeTimeout
	var said bytes.Buffer
	cmd.Stderr = io.MultiWriter(o.Progress, &said)
	stdin, stdinErr := cmd.StdinPipe()
	stdout, stdoutErr := cmd.StdoutPipe()
	if err := errors.Join(stdinErr, stdoutErr); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.program, err)
	}

	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // how it ended is in ProcessState
	}()
	c.close = sync.OnceValue(func() error {
		stdin.Close() // ends the program
		select {
		case <-exited:
		case <-time.After(closeTimeout):
			cmd.Process.Kill()
			<-exited
			return fmt.Errorf("the cluster in %s did not end within %v of being asked and was killed", o.Dir, closeTimeout)
		}
		if code := cmd.ProcessState.ExitCode(); code > 0 && code != interrupted {
			return errors.New(lastMessage(said.String()))
		}
		return nil
	})
	if readErr != nil {
		err := c.close() // then all is said
		return fmt.Errorf("start a cluster: %w", cmp.Or(errors.Join(context.Cause(ctx), err), readErr))
	}
	if err := json.Unmarshal(line, &c.Files); err != nil {
		return errors.Join(fmt.Errorf("read where the files of the cluster are: %w", err), c.close())
	}
	return nil
}

// message is how a line begins in which a program of clusters says something. More lines may follow.
var message = regexp.MustCompile(`(?m)^(labcluster|kind): `)

// lastMessage returns the last thing that the program of a cluster said.
func lastMessage(text string) string {
	messages := message.Split(strings.TrimSpace(text), -1)
	return messages[len(messages)-1]
}

// Disturb does something to a component, which has to run: "kill" kills it, "stop" freezes it, "cont" lets it go on.
// "restart" ends it if it runs, starts it again with the same port and data, and returns when it is ready.
func (c *Cluster) Disturb(ctx context.Context, command, component string) error {
	_, err := exec.CommandContext(ctx, c.program, command, component, "--dir", c.Dir).Output()
	switch ended := (*exec.ExitError)(nil); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", command, component, context.Cause(ctx))
	case errors.As(err, &ended):
		return errors.New(lastMessage(string(ended.Stderr)))
	}
	return fmt.Errorf("run %s: %w", c.program, err)
}
