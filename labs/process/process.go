// Package process runs the programs that tests are about, and keeps what they print.
package process

import (
	"bytes"
	"net"
	"os/exec"
	"sync"
)

// Process is a program that was started.
type Process struct {
	*exec.Cmd
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

// Kill ends the program at once, if it still runs, and returns when it has ended.
func (p *Process) Kill() {
	p.Process.Kill()
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

// FreePort returns a port of 127.0.0.1 that nobody listens on.
func FreePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
