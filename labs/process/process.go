// Package process runs the programs that tests and labs are about, and keeps what they print.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Main runs what a command does until it is done or interrupted, and says what went wrong. A second Ctrl-C ends it at
// once.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started is stopped")
		}
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Process is a program that was started.
type Process struct {
	Cmd *exec.Cmd
	// Log is what it has printed so far, on standard output and standard error.
	Log *Log
	// Exited is closed when it has ended.
	Exited chan struct{}
}

// Start starts a program. It runs until it ends by itself or is told to.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Log: &Log{}, Exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Exited)
		cmd.Wait() // how it has ended is in ProcessState
	}()
	return p, nil
}

// Running tells whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Kill ends the program at once, if it still runs, and returns when it has ended.
func (p *Process) Kill() {
	p.Cmd.Process.Kill()
	<-p.Exited
}

// Log is what a program has printed. It may be written and read at the same time.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// LastLines returns the last n lines of a log.
func LastLines(log string, n int) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// FreePort returns a port of 127.0.0.1 that nobody listens on. It is below those that Linux and macOS give to outgoing
// connections, so that none of them takes it before it is used.
func FreePort() (string, error) {
	for range 200 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, listener.Close()
		}
	}
	return "", errors.New("no free port on 127.0.0.1: end other programs that listen there")
}
