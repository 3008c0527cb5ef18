// Package embedded runs the clusters of bin/labcluster: etcd, kube-apiserver, kube-scheduler and kwok as processes of this
// machine.
package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/labs/cluster/directory"
)

// How long the processes of a cluster get to end after Close before they are killed.
const closeTimeout = 15 * time.Second

// Cluster is a cluster of bin/labcluster, attached to this process.
type Cluster struct {
	Files  directory.Files
	binary string
	cmd    *exec.Cmd
	stdin  io.Closer // closing it ends labcluster
	exited chan struct{}
	close  func() error
}

// Start starts a cluster with that binary, whose files are in dir, which must be empty or not exist. It lives until Close is
// called, ctx ends or this process ends.
func Start(ctx context.Context, binary, dir string, nodes int, progress io.Writer) (*Cluster, error) {
	cmd := exec.CommandContext(ctx, binary, "up", "--attach", "--dir", dir, "--nodes", fmt.Sprint(nodes))
	// A process group of its own: Ctrl-C in a terminal is for the test or lab, which then closes the cluster in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = closeTimeout
	var said bytes.Buffer
	cmd.Stderr = io.MultiWriter(progress, &said)
	stdin, stdinErr := cmd.StdinPipe()
	stdout, stdoutErr := cmd.StdoutPipe()
	if err := errors.Join(stdinErr, stdoutErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}

	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	c := &Cluster{binary: binary, stdin: stdin, cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(c.exited)
		cmd.Wait() // how it ended is told by what it did to its clients
	}()
	c.close = sync.OnceValue(c.end)
	if readErr != nil {
		stdin.Close()
		<-c.exited
		return nil, fmt.Errorf("start lab cluster: %s", lastMessage(said.String()))
	}
	if err := json.Unmarshal(line, &c.Files); err != nil {
		return nil, errors.Join(fmt.Errorf("read where the files of the lab cluster are: %w", err), c.Close())
	}
	return c, nil
}

// lastMessage returns the last thing that labcluster said, which may have several lines.
func lastMessage(text string) string {
	const prefix = "labcluster: "
	text = strings.TrimSpace(text)
	if i := strings.LastIndex("\n"+text, "\n"+prefix); i >= 0 {
		return text[i+len(prefix):]
	}
	return text
}

// Kill kills a component with SIGKILL.
func (c *Cluster) Kill(ctx context.Context, component string) error {
	return c.run(ctx, "kill", component)
}

// Stop freezes a component with SIGSTOP.
func (c *Cluster) Stop(ctx context.Context, component string) error {
	return c.run(ctx, "stop", component)
}

// Continue resumes a stopped component with SIGCONT.
func (c *Cluster) Continue(ctx context.Context, component string) error {
	return c.run(ctx, "cont", component)
}

// Restart ends a component if it runs, and starts it again.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	return c.run(ctx, "restart", component)
}

// run runs a labcluster command on a component.
func (c *Cluster) run(ctx context.Context, command, component string) error {
	cmd := exec.CommandContext(ctx, c.binary, command, component, "--dir", c.Files.Dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("labcluster %s: %w", command, context.Cause(ctx))
	case cmd.ProcessState == nil:
		return fmt.Errorf("run labcluster: %w", err)
	default:
		return errors.New(lastMessage(stderr.String()))
	}
}

// Close ends the cluster and removes its files. Only the first call has an effect.
func (c *Cluster) Close() error { return c.close() }

// end tells the attached process to end the cluster and waits for it.
func (c *Cluster) end() error {
	c.stdin.Close()
	select {
	case <-c.exited:
		return nil
	case <-time.After(closeTimeout):
		c.cmd.Process.Kill() // its children die with it
		<-c.exited
		return fmt.Errorf("the lab cluster in %s did not end within %v of being asked and was killed", c.Files.Dir, closeTimeout)
	}
}
