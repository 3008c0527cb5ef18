// Package supervised supervises the components of a lab cluster, which are this same binary under another name.
//
// A component can end and be started again. Nothing here starts it anew by itself: in a lab, what has failed is to be
// seen. A component ends with the process that started it, in whatever way that ends.
package supervised

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Attached is the first argument of a component, before its name: it is to end with its standard input, whose other end
// the kernel closes when the supervisor dies. The kernel also wakes a component that is frozen then, with SIGHUP and
// SIGCONT, because its process group has become an orphan.
const Attached = "attached"

// How long a component may take to end by itself before it is killed. What it would still write is not kept anyway, or
// etcd has it already.
var graceTime = 2 * time.Second

// Process is a component under supervision.
type Process struct {
	Name string // the second argument of the binary
	Args []string
	Log  string // path of the file that its output is appended to

	mu  sync.Mutex
	run *run // the last one, nil if it was never started
}

type run struct {
	cmd     *exec.Cmd
	logFrom int64         // where in the log it begins
	ended   chan struct{} // closed when it has ended; how is in cmd.ProcessState then
	// The process's mutex guards these.
	asked  bool // its end was asked for
	frozen bool // by SIGSTOP
}

// Start starts the process. Its output goes to the end of its log. It must not run already. If it ends and nobody has
// asked for it, crashed is called with how it ended.
func (p *Process) Start(crashed func(error)) error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	info, infoErr := log.Stat()
	self, selfErr := os.Executable()
	cmd := exec.Command(self, append([]string{Attached, p.Name}, p.Args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the supervisor
	_, pipeErr := cmd.StdinPipe()
	if err := cmp.Or(infoErr, selfErr, pipeErr); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	r := &run{cmd: cmd, logFrom: info.Size(), ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = r
	go p.await(r, crashed)
	return nil
}

// await waits for the end of a run. Another run may have begun when it calls crashed.
func (p *Process) await(r *run, crashed func(error)) {
	_ = r.cmd.Wait() // how it ended is in cmd.ProcessState
	p.mu.Lock()
	asked := r.asked
	close(r.ended)
	p.mu.Unlock()
	if asked {
		return
	}
	message := p.Name + " " + ending(r.cmd.ProcessState)
	if lines := tail(p.Log, r.logFrom); len(lines) > 0 {
		message += "; its last words:\n    " + strings.Join(lines, "\n    ")
	}
	crashed(errors.New(message))
}

func (r *run) running() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process. It is an error if it does not run.
func (p *Process) Signal(signal syscall.Signal) error {
	_, err := p.signal(signal)
	return err
}

func (p *Process) signal(signal syscall.Signal) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.run.running() {
		return nil, fmt.Errorf("%s does not run: start it with 'bin/labcluster restart %s'", p.Name, p.Name)
	}
	switch signal {
	case syscall.SIGKILL, syscall.SIGTERM:
		p.run.asked = true
	case syscall.SIGSTOP, syscall.SIGCONT:
		p.run.frozen = signal == syscall.SIGSTOP
	}
	return p.run, p.run.cmd.Process.Signal(signal)
}

// Kill ends the process with SIGKILL and waits for its end. It is an error if it does not run.
func (p *Process) Kill() error {
	r, err := p.signal(syscall.SIGKILL)
	if err == nil {
		<-r.ended
	}
	return err
}

// Stop ends the process with SIGTERM, or SIGKILL when it takes longer than two seconds. It may have ended already.
func (p *Process) Stop() {
	r, err := p.signal(syscall.SIGTERM)
	if err != nil {
		return
	}
	_ = p.Signal(syscall.SIGCONT) // a frozen process does not see SIGTERM
	select {
	case <-r.ended:
	case <-time.After(graceTime):
		_ = p.Kill()
	}
}

// How many of a component's last log lines tell of its end.
const tailLines = 5

// traceBegin matches the line with which a Go program begins to print why it dies.
var traceBegin = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`)

// Status is a component as `labcluster status` shows it.
type Status struct {
	Name  string
	Pid   int // of the last run, 0 if there was none
	State string
	Cure  string   // the command that makes it run again, empty if it runs
	Log   []string // the last lines that the last run has written
}

// Status says how the process is.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Name: p.Name, State: "not started", Cure: "restart"}
	if p.run == nil {
		return s
	}
	s.Pid, s.Log = p.run.cmd.Process.Pid, tail(p.Log, p.run.logFrom)
	switch {
	case !p.run.running() && p.run.asked:
		s.State = ending(p.run.cmd.ProcessState) + " as asked"
	case !p.run.running():
		s.State = ending(p.run.cmd.ProcessState)
	case p.run.frozen:
		s.State, s.Cure = "stopped (SIGSTOP)", "cont"
	default:
		s.State, s.Cure = "running", ""
	}
	return s
}

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
