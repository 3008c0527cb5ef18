package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// nodes is how many the cluster has.
const nodes = 10

// trial is one run of the specs: who runs the loops, and where logs and reports go.
type trial struct {
	manager, root, dir string
}

// outcome is what became of a spec: passed, failed, or another word of ginkgo's.
type outcome struct {
	state   string
	took    time.Duration
	message string // of the failure
}

// run starts a cluster and the managers, runs the specs that can be run, those alone that must be, and returns what became of
// them, by name. At the end nothing of it runs any more.
func (t trial) run(ctx context.Context, chosen []spec, processes int) (outcomes map[string]outcome, err error) {
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return nil, err
	}
	c, err := cluster.StartEmbedded(ctx, cluster.WithNodes(nodes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	end, err := t.startManagers(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()

	var together, alone []spec
	for _, s := range chosen {
		switch {
		case s.why != "":
		case s.serial():
			alone = append(alone, s)
		default:
			together = append(together, s)
		}
	}
	outcomes = map[string]outcome{}
	told := progress{manager: t.manager, all: len(together) + len(alone)}
	if err := t.specs(ctx, c, "parallel", together, processes, &told, outcomes); err != nil {
		return nil, err
	}
	return outcomes, t.specs(ctx, c, "serial", alone, 1, &told, outcomes)
}

// startManagers starts the original, and kcm for the loops that it has, unless the trial is of the original alone. It is an
// error of end if one of them has ended before.
func (t trial) startManagers(ctx context.Context, c *cluster.Cluster) (end func() error, err error) {
	flags := []string{"--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400"}
	others := "--controllers=*"
	var running []*process.Process
	end = func() error {
		var errs []error
		for _, p := range running {
			if !p.Running() {
				errs = append(errs, fmt.Errorf("%s has ended too early; its log ends:\n%s", p.Cmd.Args[0], process.LastLines(p.Log.String(), 20)))
			}
			p.Kill()
			log := filepath.Join(t.dir, fmt.Sprintf("manager-%d.log", p.Cmd.Process.Pid))
			errs = append(errs, os.WriteFile(log, []byte(p.Log.String()), 0o644))
		}
		return errors.Join(errs...)
	}
	if t.manager == "kcm" {
		loops, err := loopsOf(ctx, t.kcm())
		if err != nil {
			return nil, err
		}
		for _, loop := range loops {
			others += ",-" + loop
		}
		own := append(cluster.ManagerFlags(c, cluster.KCM), "--use-service-account-credentials=true", "--secure-port=0")
		kcm, err := process.Start(exec.CommandContext(ctx, t.kcm(), append(own, flags...)...))
		if err != nil {
			return nil, err
		}
		running = append(running, kcm)
	}
	original, err := process.Start(c.Reference(ctx, append(flags, others)...))
	if err != nil {
		return nil, errors.Join(err, end())
	}
	running = append(running, original)
	return end, nil
}

func (t trial) kcm() string { return filepath.Join(t.root, "bin", "kcm") }

// loopsOf asks a manager which controllers it has.
func loopsOf(ctx context.Context, program string) ([]string, error) {
	help, err := exec.CommandContext(ctx, program, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its controllers: %w", program, err)
	}
	found := regexp.MustCompile(`All controllers: (.+)`).FindSubmatch(help)
	if found == nil {
		return nil, fmt.Errorf("%s --help does not say which controllers there are", program)
	}
	return strings.Split(string(found[1]), ", "), nil
}

// specs runs specs and adds what became of each.
func (t trial) specs(ctx context.Context, c *cluster.Cluster, name string, specs []spec, processes int, told *progress, outcomes map[string]outcome) error {
	if len(specs) == 0 {
		return nil
	}
	server := httptest.NewServer(told)
	defer server.Close()
	bin := filepath.Join(t.root, "build", "upstream", "bin")
	report := filepath.Join(t.dir, name+".json")
	log, err := os.Create(filepath.Join(t.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "ginkgo"),
		"--procs="+strconv.Itoa(processes), "--timeout=3h", "--no-color", "--keep-going",
		"--focus="+focus(specs), "--output-dir="+t.dir, "--json-report="+filepath.Base(report),
		filepath.Join(bin, "e2e.test"), "--",
		"--kubeconfig="+c.Kubeconfig(cluster.Admin), "--provider=skeleton", "--num-nodes="+strconv.Itoa(nodes),
		"--allowed-not-ready-nodes=-1", "--disable-log-dump", "--progress-report-url="+server.URL)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := read(report, outcomes); err != nil {
		return fmt.Errorf("%w: see %s", errors.Join(runErr, err), log.Name())
	}
	return nil
}

// read takes from ginkgo's report what became of the specs that were run.
func read(path string, outcomes map[string]outcome) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var reports []types.Report
	if err := json.Unmarshal(content, &reports); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, report := range reports {
		for _, s := range report.SpecReports {
			switch {
			case s.State == types.SpecStateSkipped && s.Failure.Message == "": // not asked for
			case s.LeafNodeType == types.NodeTypeIt:
				outcomes[s.FullText()] = outcome{s.State.String(), s.RunTime, s.FailureMessage()}
			case s.Failed():
				return fmt.Errorf("before or after the specs: %s", s.FailureMessage())
			}
		}
	}
	return nil
}

// progress tells of each spec that has ended, which the specs post to it.
type progress struct {
	manager string
	all     int
	mu      sync.Mutex
	ended   int
}

var endOfSpec = regexp.MustCompile(`^(PASSED|FAILED) (.*)`)

// ServeHTTP implements [http.Handler].
func (p *progress) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // nothing depends on it
	}
	var update struct{ Msg string }
	if json.Unmarshal(content, &update) != nil {
		return
	}
	found := endOfSpec.FindStringSubmatch(update.Msg)
	if found == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	fmt.Fprintf(os.Stderr, "%8s %3d of %d: %s  %s\n", p.manager, p.ended, p.all, marks[strings.ToLower(found[1])], found[2])
}
