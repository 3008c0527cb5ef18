package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/labs/verdict"
)

// play builds the suites of the chosen tests and runs them, one after the other: each has an API server and etcd of its
// own, and deadlines of seconds.
func (w workshop) play(ctx context.Context, manager string, chosen []string, table *verdict.Table) error {
	fmt.Fprintf(os.Stderr, "building etcd and suites with the loops of %s; cold that takes 10 minutes\n", manager)
	etcd := filepath.Join(w.dir, "bin", "etcd")
	if _, err := w.goTool(ctx, "build", tags, "-ldflags=-s -w", "-o", etcd, "go.etcd.io/etcd/server/v3"); err != nil {
		return err
	}
	for _, s := range suites {
		tests := s.of(chosen)
		if len(tests) == 0 {
			continue
		}
		program, err := w.build(ctx, s, manager)
		if err != nil {
			return err
		}
		err = w.runSuite(ctx, s, tests, manager, program, table)
		os.Remove(program) // 200 MB that are linked in seconds
		if err != nil {
			return err
		}
	}
	return nil
}

// runSuite runs the tests of one suite, in a directory of their own, and takes down what becomes of each.
func (w workshop) runSuite(
	ctx context.Context, s suite, tests []string, manager, program string, table *verdict.Table,
) error {
	dir, err := os.MkdirTemp("", filepath.Base(s.name)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log, err := os.Create(w.log(s, manager))
	if err != nil {
		return err
	}
	defer log.Close()
	// test2json cannot be killed together with what it runs but as a group. The longest suite has time enough, also on
	// a machine that has much else to do.
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", program,
		"-test.v=test2json", "-test.timeout=40m", "-test.run=^("+strings.Join(tests, "|")+")$")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stderr = log
	cmd.Env = append(os.Environ(),
		"TMPDIR="+dir,
		"PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"),
		"KUBE_INTEGRATION_ETCD_URL=http://127.0.0.1:9", // nobody is there, so the suite starts etcd
	)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run suite %s: %w", s.name, err)
	}
	readErr := w.follow(s, manager, out, log, table)
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if waitErr != nil && readErr == nil { // of a suite that died, tests have no outcome
		fmt.Fprintf(os.Stderr, "%8s  %s: %v; see %s\n", manager, s.name, waitErr, log.Name())
	}
	return readErr
}

func (w workshop) log(s suite, manager string) string {
	return filepath.Join(w.dir, filepath.Base(s.name)+"-"+manager+".log")
}

// marks are what stands for how a test has ended.
var marks = map[string]string{"pass": verdict.Passed, "fail": verdict.Failed, "skip": verdict.Skipped}

// follow reads what a suite prints until it ends, keeps it in a log, and puts each test that has ended into the table.
func (w workshop) follow(s suite, manager string, from io.Reader, log io.Writer, table *verdict.Table) error {
	became := outcomes{}
	lines := json.NewDecoder(from)
	for {
		var event struct { // of go tool test2json
			Action, Test, Output string
			Elapsed              float64 // seconds
		}
		if err := lines.Decode(&event); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what suite %s prints: %w", s.name, err)
		}
		io.WriteString(log, event.Output)
		mark := marks[event.Action]
		if event.Test == "" || mark == "" {
			continue
		}
		test := s.name + "/" + event.Test
		became[test] = event.Action
		if manager == "kcm" && event.Action == "pass" && w.intended[test] != "" {
			table.Complain(test + " passes: take it out of labs/upstream/suites/differences.yaml")
		}
		if !strings.Contains(event.Test, "/") {
			table.Put(manager, test, verdict.Result{Mark: mark, Took: time.Duration(event.Elapsed * float64(time.Second)),
				Note: w.note(test, manager, became), Told: "see build/upstream/" + filepath.Base(w.log(s, manager)),
				Intended: manager == "kcm" && w.intends(test, became)})
		}
	}
}
