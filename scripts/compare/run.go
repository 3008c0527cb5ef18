package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// results is what happened to the scenarios with one of the two.
type results struct {
	name      string
	scenarios map[string]*result
	order     []string // of names, as they began
	duration  time.Duration
}

// result is what happened to one scenario.
type result struct {
	verdict string // pass, fail or skip
	seconds float64
	output  strings.Builder
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// shutDownTimeout is how long the tests have to remove their cluster after
// Ctrl-C. Removing one of kind takes some seconds.
const shutDownTimeout = 30 * time.Second

// runScenarios runs the scenarios in their own go test and tells how it goes.
func runScenarios(ctx context.Context, name, pattern string, env ...string) (*results, error) {
	fmt.Fprintf(os.Stderr, "%s: building the scenarios and starting a cluster\n", name)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=30m", "-json", "-run", "TestScenarios/"+pattern, "./labs/scenarios")
	cmd.Env = append(os.Environ(), env...)
	// Ctrl-C is for this process, which tells the tests.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = shutDownTimeout
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run the scenarios: %w", err)
	}
	r := &results{name: name, scenarios: map[string]*result{}}
	rest := r.read(stdout)
	err = cmd.Wait()
	r.duration = time.Since(start)
	if ctx.Err() != nil {
		return nil, errors.New("interrupted; everything that was started is stopped")
	}
	if len(r.scenarios) == 0 && err == nil {
		return nil, fmt.Errorf("no scenario matches %q; they are the files in labs/scenarios, named as in deployment/recreate-goes-back-in-the-same-way", pattern)
	}
	if err != nil && r.count("fail") == 0 {
		return nil, fmt.Errorf("the scenarios did not run with %s (%v):\n%s", name, err, rest)
	}
	return r, nil
}

// read takes the events of a test run and returns what belongs to no scenario.
func (r *results) read(stdout io.Reader) string {
	var rest strings.Builder
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) != nil {
			rest.Write(line)
		} else if scenario, is := scenarioName(e.Test); is {
			r.take(scenario, e)
		} else {
			rest.WriteString(e.Output)
		}
		if err != nil {
			return rest.String()
		}
	}
}

// take takes one event of a scenario. Folders are tests too and begin like
// scenarios; they are dropped when something in them begins.
func (r *results) take(scenario string, e event) {
	if _, known := r.scenarios[scenario]; !known {
		r.scenarios[scenario] = &result{}
		r.order = append(r.order, scenario)
	}
	s := r.scenarios[scenario]
	switch e.Action {
	case "output":
		s.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		s.verdict, s.seconds = e.Action, e.Elapsed
		if r.isScenario(scenario) {
			fmt.Fprintf(os.Stderr, "%s: %s %5.1f s  %s\n", r.name, mark(s), s.seconds, sentence(scenario))
		}
	}
}
