package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long the processes of a cluster get to end after Close before they are killed.
const closeTimeout = 15 * time.Second

// StartEmbedded starts an embedded cluster, whatever CLUSTER in the environment says. It lives until Close is called, ctx
// ends or this process ends. It builds bin/labcluster first if that is missing or older than its sources.
func StartEmbedded(ctx context.Context, opts ...Option) (Cluster, error) {
	o := newOptions(opts)
	binary, err := Binary(ctx, buildProgress(o.progress))
	if err != nil {
		return nil, err
	}
	temporary := ""
	if o.dir == "" {
		if temporary, err = os.MkdirTemp("", "labcluster-"); err != nil {
			return nil, err
		}
		o.dir = temporary
	}
	c, err := start(ctx, binary, o)
	if err != nil && temporary != "" {
		os.Remove(temporary) // labcluster has emptied it
	}
	return c, err
}

// buildProgress is where a build is announced: a user who waits minutes for it must see why, progress or not.
func buildProgress(progress io.Writer) io.Writer {
	if progress == io.Discard {
		return os.Stderr
	}
	return progress
}

// embedded is a cluster of bin/labcluster.
type embedded struct {
	access
	binary string

	// The attached labcluster process: closing stdin ends it. Nil for a cluster that was up before.
	stdin  io.Closer
	exited chan struct{}
	cmd    *exec.Cmd

	close func() error
}

func start(ctx context.Context, binary string, o options) (*embedded, error) {
	cmd := exec.CommandContext(ctx, binary, "up", "--attach", "--dir", o.dir, "--nodes", fmt.Sprint(o.nodes))
	// A process group of its own: Ctrl-C in a terminal is for the test or lab, which then closes the cluster in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = closeTimeout
	var said bytes.Buffer
	cmd.Stderr = io.MultiWriter(o.progress, &said)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}

	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	c := &embedded{binary: binary, stdin: stdin, cmd: cmd, exited: make(chan struct{})}
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
	if err := c.load(line); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Attach returns the cluster that `bin/labcluster up --dir dir` left running, or ErrNotRunning. It is shared, as with
// Running. Close leaves it running.
func Attach(dir string) (Cluster, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: run 'make cluster'", ErrNotRunning, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to lab cluster: %w", err)
	}
	c := &embedded{binary: filepath.Join(root, "bin", "labcluster"), close: func() error { return nil }}
	c.state.Dir = dir
	if err := c.run(context.Background(), "status"); err != nil {
		if command := (*commandError)(nil); errors.As(err, &command) && command.exitCode == exitNotRunning {
			return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
		}
		return nil, fmt.Errorf("the lab cluster in %s cannot be used: %w", dir, err)
	}
	if err := c.load(content); err != nil {
		return nil, err
	}
	return c, nil
}

// exitNotRunning is the exit code of `labcluster status` when no cluster runs in the directory.
const exitNotRunning = 4

// commandError is what a labcluster command has said when it failed.
type commandError struct {
	exitCode int
	message  string
}

func (e *commandError) Error() string { return e.message }

// lastMessage returns the last thing that labcluster said, which may have several lines.
func lastMessage(text string) string {
	const prefix = "labcluster: "
	text = strings.TrimSpace(text)
	if i := strings.LastIndex("\n"+text, "\n"+prefix); i >= 0 {
		return text[i+len(prefix):]
	}
	return text
}

func (c *embedded) Kill(ctx context.Context, component Component) error {
	return c.run(ctx, "kill", string(component))
}

func (c *embedded) Stop(ctx context.Context, component Component) error {
	return c.run(ctx, "stop", string(component))
}

func (c *embedded) Continue(ctx context.Context, component Component) error {
	return c.run(ctx, "cont", string(component))
}

func (c *embedded) Restart(ctx context.Context, component Component) error {
	return c.run(ctx, "restart", string(component))
}

// run runs a labcluster command on this cluster.
func (c *embedded) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.binary, append(args, "--dir", c.state.Dir)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		return fmt.Errorf("run labcluster: %w", err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("labcluster %s: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return &commandError{exitCode: cmd.ProcessState.ExitCode(), message: lastMessage(stderr.String())}
	}
	return nil
}

func (c *embedded) Reference(ctx context.Context, flags ...string) *exec.Cmd {
	return reference(ctx, c, c.binary, flags)
}

func (c *embedded) Close() error { return c.close() }

// end tells the attached process to end the cluster and waits for it.
func (c *embedded) end() error {
	c.stdin.Close()
	select {
	case <-c.exited:
		return nil
	case <-time.After(closeTimeout):
		c.cmd.Process.Kill() // its children die with it
		<-c.exited
		return fmt.Errorf("the lab cluster in %s did not end within %v of being asked and was killed", c.state.Dir, closeTimeout)
	}
}
