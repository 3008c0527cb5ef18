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

// attach has the program run a cluster with its files in dir, which must be empty or not exist. It ends with the
// program's standard input, whose other end the kernel closes when this process ends, in whatever way.
func (c *Cluster) attach(ctx context.Context, dir string, o options) error {
	cmd := exec.CommandContext(ctx, c.program, "up", "--attach", "--dir", dir, "--nodes", fmt.Sprint(o.nodes))
	// A process group of its own: Ctrl-C in a terminal is for the test or lab, which then closes the cluster in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = closeTimeout
	var said bytes.Buffer
	cmd.Stderr = io.MultiWriter(o.progress, &said)
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
			return fmt.Errorf("the cluster in %s did not end within %v of being asked and was killed", dir, closeTimeout)
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
	if err := json.Unmarshal(line, &c.files); err != nil {
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

// disturb has the program kill, stop, continue or restart a component.
func (c *Cluster) disturb(ctx context.Context, command string, component Component) error {
	cmd := exec.CommandContext(ctx, c.program, command, component, "--dir", c.files.Dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", command, component, context.Cause(ctx))
	case cmd.ProcessState == nil:
		return fmt.Errorf("run %s: %w", c.program, err)
	}
	return errors.New(lastMessage(said.String()))
}
