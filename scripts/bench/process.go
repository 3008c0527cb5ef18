package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// stopTime is how long a process may take to end after SIGTERM.
const stopTime = 30 * time.Second

// process is a running controller manager.
type process struct {
	cmd     *exec.Cmd
	log     string
	started time.Time
	// exited is closed when the process has ended.
	exited chan struct{}
	// asked says that it was asked to end.
	asked atomic.Bool
}

// startProcess starts a program with its output in the file log. It calls died
// if the program ends without having been asked to.
func startProcess(program string, flags []string, log string, died func(error)) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own
	p := &process{cmd: exec.Command(program, flags...), log: log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		err := p.cmd.Wait()
		close(p.exited)
		if !p.asked.Load() {
			died(fmt.Errorf("%s has ended (%v), and nobody has asked it to; the end of %s:\n%s", program, err, log, p.endOfLog()))
		}
	}()
	return p, nil
}

// end sends a signal and waits until the process has ended.
func (p *process) end(signal syscall.Signal) {
	p.asked.Store(true)
	kill := time.AfterFunc(stopTime, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	p.cmd.Process.Signal(signal) // one that has ended needs none
	<-p.exited
}

func (p *process) endOfLog() string {
	const lines = 20
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// waitsForLease tells whether the process has begun to take part in the
// election. The line is client-go's, so both write it.
func (p *process) waitsForLease() bool {
	content, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(content, []byte("Attempting to acquire leader lease"))
}

// usage is what a process has taken from the machine so far.
type usage struct {
	// resident and peak are in MiB; anonymous is the part of resident that is
	// no file, such as the heap.
	resident, anonymous, peak float64
	// cpu is user and system time in seconds.
	cpu float64
}

func (p *process) usage() (usage, error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return usage{}, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return usage{}, err
	}
	status, err := proc.NewStatus()
	if err != nil {
		return usage{}, err
	}
	const mib = 1 << 20
	return usage{
		resident:  float64(status.VmRSS) / mib,
		anonymous: float64(status.RssAnon) / mib,
		peak:      float64(status.VmHWM) / mib,
		cpu:       stat.CPUTime(),
	}, nil
}

// loadAverage is the machine's load over the last minute, which tells whether
// something else was going on. It is -1 where the machine does not say.
func loadAverage() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return -1
	}
	load, err := fs.LoadAvg()
	if err != nil {
		return -1
	}
	return load.Load1
}
