package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a component may take to end by itself before it is killed. What it would still write is not kept anyway, or
// etcd has it already.
const graceTime = 2 * time.Second

// How many of a component's last log lines tell of its end.
const tailLines = 5

// traceBegin matches the line with which a Go program begins to print why it dies.
var traceBegin = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`)

// process is a component under supervision. It can end and be started again.
type process struct {
	name   string
	args   []string
	env    []string
	log    string
	onExit func(*process) // called once for each end that nobody asked for

	mu      sync.Mutex
	cmd     *exec.Cmd
	started time.Time
	logFrom int64         // where in the log this run begins
	asked   bool          // its end was asked for
	done    chan struct{} // closed when it has ended
}

// spawned starts processes on one thread that lives as long as this process. On Linux the kernel kills a child when the
// thread that started it ends, and Go ends threads as it likes.
var spawned = func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
}()

// start starts the process. Its output goes to the end of its log.
func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{p.name}, p.args...)...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()

	result := make(chan error)
	spawned <- func() { result <- cmd.Start() }
	if err := <-result; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.started, p.logFrom, p.asked, p.done = cmd, time.Now(), info.Size(), false, make(chan struct{})
	go p.wait(cmd, p.done)
	return nil
}

// wait waits for the end of one run of the process.
func (p *process) wait(cmd *exec.Cmd, done chan struct{}) {
	_ = cmd.Wait() // how it ended is in cmd.ProcessState
	p.mu.Lock()
	asked := p.asked
	close(done)
	p.mu.Unlock()
	if !asked {
		p.onExit(p)
	}
}

// signal sends a signal, if the process runs.
func (p *process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil || isClosed(p.done) {
		return fmt.Errorf("%s does not run: start it with 'labcluster restart %s'", p.name, p.name)
	}
	if signal == syscall.SIGKILL || signal == syscall.SIGTERM {
		p.asked = true
	}
	return p.cmd.Process.Signal(signal)
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended()
	return nil
}

// stop ends the process with SIGTERM, or SIGKILL when it takes longer than graceTime. It may have ended already.
func (p *process) stop() {
	if p.signal(syscall.SIGTERM) != nil {
		return
	}
	_ = p.signal(syscall.SIGCONT) // a frozen process does not see SIGTERM
	select {
	case <-p.ended():
	case <-time.After(graceTime):
		_ = p.kill()
	}
}

// ended returns what is closed when this run of the process has ended.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// pid returns the process id, 0 if it never ran.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// status is a component as `labcluster status` shows it.
type status struct {
	Name    string   `json:"name"`
	Pid     int      `json:"pid"`
	State   string   `json:"state"`
	Running bool     `json:"running"`
	Memory  int64    `json:"memory"`        // bytes; what processes share is divided among them
	Log     []string `json:"log,omitempty"` // the last lines, if it has crashed
}

func (p *process) status() status {
	pid := p.pid()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := status{Name: p.name, Pid: pid}
	switch {
	case p.cmd == nil:
		s.State = "not started"
	case isClosed(p.done):
		s.State = ending(p.cmd.ProcessState)
		if p.asked {
			s.State += " as asked"
		} else {
			s.Log = tail(p.log, p.logFrom)
		}
	default:
		frozen, memory := processStat(pid)
		s.State, s.Running, s.Memory = "running", !frozen, memory
		if frozen {
			s.State = "stopped (SIGSTOP)"
		}
	}
	return s
}

// crash describes an end that nobody asked for.
func (p *process) crash() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	message := fmt.Sprintf("%s %s", p.name, ending(p.cmd.ProcessState))
	lines := tail(p.log, p.logFrom)
	if len(lines) == 0 {
		return errors.New(message)
	}
	return fmt.Errorf("%s; its last words in %s:\n    %s", message, p.log, strings.Join(lines, "\n    "))
}

// ending says how a process ended.
func ending(state *os.ProcessState) string {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("was ended by signal %d (%s)", ws.Signal(), ws.Signal())
	}
	return fmt.Sprintf("exited with code %d", state.ExitCode())
}

// tail returns the last lines of a log after an offset, or, if it ends with a Go program's stack traces, the lines that
// say why. It returns none if the log cannot be read.
func tail(path string, from int64) []string {
	const most = 1 << 20
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		from = max(from, info.Size()-most)
	}
	content, _ := io.ReadAll(io.NewSectionReader(file, from, most))
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return nil
	}
	lines := strings.Split(string(content), "\n")
	for i, line := range slices.Backward(lines) {
		if traceBegin.MatchString(line) {
			return lines[i:min(i+tailLines, len(lines))]
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// poll calls done until it returns nil, and gives up with its last error when ctx ends.
func poll(ctx context.Context, what string, done func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return cause
			}
			return fmt.Errorf("%s: not within %v: %w", what, startTimeout, err)
		case <-ticker.C:
		}
	}
}
