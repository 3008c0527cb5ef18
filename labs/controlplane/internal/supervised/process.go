// Package supervised supervises the components of a lab cluster, which are this same binary under another name.
//
// A component can end and be started again. Nothing here starts it anew by itself: in a lab, what has failed is to be
// seen. On Linux a component dies with the process that started it.
package supervised

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a component may take to end by itself before it is killed. What it would still write is not kept anyway, or
// etcd has it already.
const graceTime = 2 * time.Second

// Process is a component under supervision.
type Process struct {
	Name string // the first argument of the binary
	Args []string
	Env  []string // besides this process's own
	Log  string   // path of the file that its output is appended to
	// OnExit is called once for each end that nobody asked for, with how it ended.
	OnExit func(error)

	mu  sync.Mutex
	run *run // the last one, nil if it was never started
}

// run is one run of a process.
type run struct {
	cmd     *exec.Cmd
	started time.Time
	logFrom int64         // where in the log it begins
	ended   chan struct{} // closed when it has ended; how is in cmd.ProcessState then
	asked   bool          // its end was asked for; the process's mutex guards it
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

// Start starts the process. Its output goes to the end of its log. It must not run already.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
	cmd := exec.Command(self, append([]string{p.Name}, p.Args...)...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()

	result := make(chan error)
	spawned <- func() { result <- cmd.Start() }
	if err := <-result; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	r := &run{cmd: cmd, started: time.Now(), logFrom: info.Size(), ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = r
	go p.await(r)
	return nil
}

// await waits for the end of a run. Another run may have begun when it calls OnExit.
func (p *Process) await(r *run) {
	_ = r.cmd.Wait() // how it ended is in cmd.ProcessState
	p.mu.Lock()
	asked := r.asked
	close(r.ended)
	p.mu.Unlock()
	if !asked {
		p.OnExit(p.end(r))
	}
}

// end says how a run ended, with the last lines of its log.
func (p *Process) end(r *run) error {
	message := p.Name + " " + ending(r.cmd.ProcessState)
	lines := tail(p.Log, r.logFrom)
	if len(lines) == 0 {
		return errors.New(message)
	}
	return fmt.Errorf("%s; its last words:\n    %s", message, strings.Join(lines, "\n    "))
}

// Wait returns how the run that is under way has ended, or nil when ctx ends before.
func (p *Process) Wait(ctx context.Context) error {
	r := p.last()
	if r == nil {
		return fmt.Errorf("%s was never started", p.Name)
	}
	select {
	case <-r.ended:
		return p.end(r)
	case <-ctx.Done():
		return nil
	}
}

func (p *Process) last() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
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
	if signal == syscall.SIGKILL || signal == syscall.SIGTERM {
		p.run.asked = true
	}
	return p.run, p.run.cmd.Process.Signal(signal)
}

// Kill ends the process with SIGKILL and waits for its end. It is an error if it does not run.
func (p *Process) Kill() error {
	r, err := p.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-r.ended
	return nil
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

// Pid returns the process id of the last run, 0 if there was none.
func (p *Process) Pid() int {
	if r := p.last(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

// Started returns when the last run began.
func (p *Process) Started() time.Time {
	if r := p.last(); r != nil {
		return r.started
	}
	return time.Time{}
}

// LastWords returns the last lines that the last run has written to the log.
func (p *Process) LastWords() []string {
	if r := p.last(); r != nil {
		return tail(p.Log, r.logFrom)
	}
	return nil
}
