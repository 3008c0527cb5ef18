package supervised

import (
	"bytes"
	"fmt"
	"io"
	"os"
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
