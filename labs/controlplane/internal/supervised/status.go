package supervised

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// How many of a component's last log lines tell of its end.
const tailLines = 5

// traceBegin matches the line with which a Go program begins to print why it dies.
var traceBegin = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`)

// Status is a component as `labcluster status` shows it.
type Status struct {
	Name    string   `json:"name"`
	Pid     int      `json:"pid"`
	State   string   `json:"state"`
	Running bool     `json:"running"`
	Frozen  bool     `json:"frozen"`        // by SIGSTOP; it does not count as running
	Memory  int64    `json:"memory"`        // bytes; what processes share is divided among them
	Log     []string `json:"log,omitempty"` // the last lines, if it has crashed
}

// Self is the status of this process.
func Self(name string) Status {
	_, memory := stat(os.Getpid())
	return Status{Name: name, Pid: os.Getpid(), State: "running", Running: true, Memory: memory}
}

// Status says how the process is.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Name: p.Name}
	if p.run == nil {
		s.State = "not started"
		return s
	}
	s.Pid = p.run.cmd.Process.Pid
	switch {
	case p.run.running():
		s.State = "running"
		if s.Frozen, s.Memory = stat(s.Pid); s.Frozen {
			s.State = "stopped (SIGSTOP)"
		}
		s.Running = !s.Frozen
	case p.run.asked:
		s.State = ending(p.run.cmd.ProcessState) + " as asked"
	default:
		s.State = ending(p.run.cmd.ProcessState)
		s.Log = tail(p.Log, p.run.logFrom)
	}
	return s
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

// Belongs says whether a command line is that of the component of the cluster whose files are in dir.
func Belongs(commandLine []string, component, dir string) bool {
	if len(commandLine) < 3 || filepath.Base(commandLine[0]) != "labcluster" || commandLine[1] != component {
		return false
	}
	return slices.ContainsFunc(commandLine[2:], func(arg string) bool { return strings.Contains(arg, "="+dir+"/") })
}
