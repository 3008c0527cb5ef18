package main

import (
	"bufio"
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
)

// play builds the chosen suites and runs them, one after the other: each has an API server and etcd of its own, and
// deadlines of seconds.
func (w workshop) play(ctx context.Context, manager string, chosen []selection, results *report) error {
	fmt.Fprintf(os.Stderr, "building etcd and %d suites with the loops of %s; cold that takes about 10 minutes on 2 cores\n", len(chosen), manager)
	if _, err := w.goTool(ctx, "build", tags, "-ldflags=-s -w", "-o", filepath.Join(w.dir, "bin", "etcd"), "go.etcd.io/etcd/server/v3"); err != nil {
		return err
	}
	for _, s := range chosen {
		program, err := w.build(ctx, s.suite, manager)
		if err != nil {
			return err
		}
		err = w.runSuite(ctx, s, manager, program, results)
		os.Remove(program) // 200 MB that are linked in seconds
		if err != nil {
			return err
		}
	}
	return nil
}

// suiteTimeout is what the longest suite has, also on a machine that has much else to do.
const suiteTimeout = 40 * time.Minute

// runSuite runs the tests of one suite, in a directory of their own, and takes down what becomes of each.
func (w workshop) runSuite(ctx context.Context, s selection, manager, program string, results *report) (err error) {
	dir, err := os.MkdirTemp("", s.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log, err := os.Create(w.log(s.suite, manager))
	if err != nil {
		return err
	}
	defer log.Close()
	// test2json cannot be killed together with what it runs but as a group.
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", program,
		"-test.v=test2json", "-test.timeout="+suiteTimeout.String(), "-test.run="+s.expression())
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
	readErr := results.follow(s, manager, out, log)
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
	return filepath.Join(w.dir, s.name+"-"+manager+".log")
}

// event is one line of go tool test2json.
type event struct {
	Action, Test, Output string
	Elapsed              float64 // seconds
}

// follow reads what a suite prints until it ends, keeps it in a log and tells of each test that has ended.
func (r *report) follow(s selection, manager string, from io.Reader, log io.Writer) error {
	ended := 0
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read what suite %s prints: %w: %s", s.name, err, line)
		}
		io.WriteString(log, e.Output)
		if e.Test == "" || e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
			continue
		}
		r.take(s.name+"/"+e.Test, manager, e)
		if !strings.Contains(e.Test, "/") {
			ended++
			fmt.Fprintf(os.Stderr, "%8s  %s %2d of %d: %s %5.1f s  %s\n", manager, s.name, ended, len(s.tests), marks[e.Action], e.Elapsed, e.Test)
		}
	}
}
