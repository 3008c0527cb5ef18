// Package conformance runs upstream's end-to-end specs about controllers, those that every cluster has to pass, on a
// lab cluster: with kcm for the loops that it has and the original for all others, or with the original alone.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/verdict"
)

// Run runs the specs that a regular expression matches with each manager, as many at the same time as there are
// processes, and returns what became of them.
func Run(ctx context.Context, root, pattern string, managers []string, processes int) (*verdict.Table, error) {
	chosen, err := choose(pattern, cluster.OnKind())
	if err != nil {
		return nil, err
	}
	table := verdict.New(managers, verdict.Names(chosen, func(s spec) string { return s.name }))
	table.Beside = true
	for _, manager := range managers {
		t := trial{manager: manager, root: root, dir: filepath.Join(root, "build", "upstream", "conformance-"+manager)}
		results, err := t.run(ctx, chosen, processes)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", manager, err)
		}
		for _, s := range chosen {
			if s.why != "" {
				results[s.name] = verdict.Result{Mark: verdict.Skipped, Note: "left out: " + s.why}
			}
			table.Put(manager, s.name, results[s.name])
		}
	}
	return table, nil
}

// nodes is how many nodes the cluster has.
var nodes = map[bool]int{true: 1, false: 10}[cluster.OnKind()]

// trial is one run of the specs: who runs the loops, and where logs and reports go.
type trial struct {
	manager, root, dir string
}

// run starts a cluster and the managers, runs the specs that can be run and returns what became of them, by name. At
// the end nothing of it runs any more.
func (t trial) run(ctx context.Context, chosen []spec, processes int) (results map[string]verdict.Result, err error) {
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Nodes: nodes, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil) // which ends the managers
	for i, cmd := range t.managers(ctx, c) {
		p, err := process.Start(cmd)
		if err != nil {
			return nil, err
		}
		watching.Go(func() { t.watch(p, fmt.Sprintf("manager-%d.log", i+1), giveUp) })
	}
	possible := slices.DeleteFunc(slices.Clone(chosen), func(s spec) bool { return s.why != "" })
	return t.specs(ctx, c, possible, processes)
}

// managers are the original, and kcm for the loops that it has, unless the trial is of the original alone.
func (t trial) managers(ctx context.Context, c *cluster.Cluster) []*exec.Cmd {
	limits := []string{"--kube-api-qps=200", "--kube-api-burst=400"}
	others := "--controllers=*"
	var commands []*exec.Cmd
	if t.manager == "kcm" {
		others += ",-" + strings.Join(app.KnownControllers(), ",-")
		flags := slices.Concat(cluster.ManagerFlags(c, cluster.KCM), limits, []string{
			"--use-service-account-credentials=true", "--secure-port=0",
			// With a Lease that is its own and runs for long no busy machine stops it, and yet it ends when its cluster has,
			// also if we were killed.
			"--leader-elect-resource-name=kcm", "--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m",
		})
		commands = append(commands, exec.CommandContext(ctx, filepath.Join(t.root, "bin", "kcm"), flags...))
	}
	return append(commands, c.Reference(ctx, append(limits, "--leader-elect=false", others)...))
}

// watch keeps what a manager has said when it has ended, and gives up: nothing would happen any more, and each spec
// would wait for that. At the end that does nothing.
func (t trial) watch(p *process.Process, log string, giveUp func(error)) {
	<-p.Exited
	path := filepath.Join(t.dir, log)
	err := os.WriteFile(path, []byte(p.Log.String()), 0o644)
	giveUp(errors.Join(fmt.Errorf("%s has ended: see %s", filepath.Base(p.Cmd.Path), path), err))
}

// specs runs specs, as many at the same time as there are processes, and then one by one those that must be alone, as
// ginkgo does it by itself. It returns what became of each.
func (t trial) specs(
	ctx context.Context, c *cluster.Cluster, specs []spec, processes int,
) (map[string]verdict.Result, error) {
	bin := filepath.Join(t.root, "build", "upstream", "bin")
	log, err := os.Create(filepath.Join(t.dir, "specs.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "ginkgo"), "--silence-skips",
		"--procs="+strconv.Itoa(processes), "--timeout=3h", "--no-color", "--keep-going",
		"--focus="+focus(specs), "--output-dir="+t.dir, "--json-report=report.json",
		filepath.Join(bin, "e2e.test"), "--",
		"--kubeconfig="+c.Kubeconfigs[cluster.Admin], "--provider=skeleton", "--num-nodes="+strconv.Itoa(nodes),
		"--allowed-not-ready-nodes=-1", "--disable-log-dump")
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stderr, log), log // a dot for each spec that passes, and what others say
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}        // Ctrl-C is for us, who end all of them
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	ended := cmd.Run() // with an error, too, if a spec has failed
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	results, err := read(filepath.Join(t.dir, "report.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: see %s", errors.Join(ended, err), log.Name())
	}
	return results, nil
}

// read takes from ginkgo's report what became of the specs that were run.
func read(path string) (map[string]verdict.Result, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var reports []types.Report
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	results := map[string]verdict.Result{}
	for _, report := range reports {
		for _, s := range report.SpecReports {
			switch {
			case s.State == types.SpecStateSkipped && s.Failure.Message == "": // not asked for
			case s.LeafNodeType == types.NodeTypeIt:
				told := s.FailureMessage() + "\nlogs are in " + filepath.Dir(path)
				r := verdict.Result{Mark: verdict.Failed, Took: s.RunTime, Told: told}
				if s.State.Is(types.SpecStatePassed) {
					r.Mark = verdict.Passed
				} else if s.State.Is(types.SpecStateSkipped) {
					r.Mark = verdict.Skipped
				}
				results[s.FullText()] = r
			case s.Failed():
				return nil, fmt.Errorf("before or after the specs: %s", s.FailureMessage())
			}
		}
	}
	return results, nil
}
