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
	c, exited := &Cluster{binary: binary}, make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // how it ended is told by what it did to its clients
	}()
	c.close = sync.OnceValue(func() error {
		stdin.Close() // ends labcluster
		select {
		case <-exited:
			return nil
		case <-time.After(closeTimeout):
			cmd.Process.Kill() // its children die with it
			<-exited
			return fmt.Errorf("the lab cluster in %s did not end within %v of being asked and was killed", dir, closeTimeout)
		}
	})
	if readErr != nil {
		err := c.Close() // then all is said
		return nil, errors.Join(fmt.Errorf("start lab cluster: %s", lastMessage(said.String())), err)
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

// Where says where the cluster's files are.
func (c *Cluster) Where() directory.Files { return c.Files }

// Disturb runs the labcluster command on a component: kill, stop, cont or restart.
func (c *Cluster) Disturb(ctx context.Context, command, component string) error {
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
