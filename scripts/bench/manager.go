package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// subject is what a trial measures: a program, whose kubeconfig it gets, the loops that it runs, and
// flags of its own. The limit, which is measured without a controller manager, has a name alone.
type subject struct {
	name, program     string
	user              cluster.User
	controllers, more []string
}

const (
	limitName    = "limit"
	kcmName      = "kcm"
	originalName = "original"
	allLoopsName = "original with all its loops"
	releasesName = "original that releases its Lease"
)

// sharedFlags are the flags that do not depend on the cluster.
func (s subject) sharedFlags() []string {
	return []string{"--controllers=" + strings.Join(s.controllers, ","), "--use-service-account-credentials=true",
		"--leader-elect=true", "--bind-address=127.0.0.1"}
}

// wideLimits keep the rate limits of both out of what is measured.
var wideLimits = []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}

// manager is a controller manager that was started.
type manager struct {
	*process.Process
	// asked says that it was asked to end.
	asked atomic.Bool
	// ended is closed when it has ended and its log is written.
	ended chan struct{}
}

// startManager starts a program, and writes its output to a file when it has ended. It calls died if the
// program ends without having been asked to.
func startManager(program string, flags []string, log string, died func(error)) (*manager, error) {
	cmd := exec.Command(program, flags...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	p, err := process.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	m := &manager{Process: p, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		<-p.Exited
		said := p.Log.String()
		if err := os.WriteFile(log, []byte(said), 0o644); err != nil {
			died(err)
		}
		if !m.asked.Load() {
			died(fmt.Errorf("%s has ended (%v), and nobody has asked it to; the end of %s:\n%s",
				program, cmd.ProcessState, log, process.LastLines(said, 20)))
		}
	}()
	return m, nil
}

// end sends a signal and waits until the manager has ended, for which it has half a minute.
func (m *manager) end(signal syscall.Signal) {
	m.asked.Store(true)
	kill := time.AfterFunc(30*time.Second, func() { m.Cmd.Process.Kill() })
	defer kill.Stop()
	m.Cmd.Process.Signal(signal) // one that has ended needs none
	<-m.ended
}

// usage is what a manager has taken from the machine so far: user and system time in seconds, and memory in bytes.
type usage struct{ cpu, resident, peak float64 }

// usage is nothing where there is no manager.
func (m *manager) usage() usage {
	if m == nil {
		return usage{}
	}
	proc, err := procfs.NewProc(m.Cmd.Process.Pid)
	must(err)
	stat, err := proc.Stat()
	must(err)
	status, err := proc.NewStatus()
	must(err)
	return usage{stat.CPUTime(), float64(status.VmRSS), float64(status.VmHWM)}
}

// server is a manager's own, which has profiles and the trace.
type server struct {
	port, certs string
	client      *http.Client
}

func newServer(c *cluster.Cluster) *server {
	port, err := process.FreePort()
	must(err)
	config := c.RESTConfig(cluster.Admin)
	config.Insecure, config.CAData, config.CAFile = true, nil, "" // it signs its certificate itself
	client, err := rest.HTTPClientFor(config)
	must(err)
	return &server{port, filepath.Join(c.Dir(), "bench-certs"), client}
}

// flags make a manager serve, or not where there is no server.
func (s *server) flags() []string {
	if s == nil {
		return []string{"--secure-port=0"}
	}
	return []string{"--secure-port=" + s.port, "--cert-dir=" + s.certs, "--profiling=true"}
}

// get returns what the leader serves, as it comes.
func (t *trial) get(path string) io.ReadCloser {
	request, err := http.NewRequestWithContext(t.ctx, http.MethodGet, "https://127.0.0.1:"+t.server.port+path, nil)
	must(err)
	response, err := t.server.client.Do(request)
	must(err)
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		must(fmt.Errorf("%s answers %s", request.URL, response.Status))
	}
	return response.Body
}

// profile returns a profile of the leader.
func (t *trial) profile(what string) []byte {
	body := t.get("/debug/pprof/" + what)
	defer body.Close()
	profile, err := io.ReadAll(body)
	must(err)
	return profile
}

// profiled runs a phase, and in the round of profiles takes them when there is a leader: CPU from its
// begin for 15 seconds, heap at its end. A phase that is shorter adds idle time, which costs no samples.
func (t *trial) profiled(p phase) {
	if t.Round > 0 || t.leader == nil || p.name == "" {
		p.run(t)
		return
	}
	take := func(kind, what string) {
		name := fmt.Sprintf("%s-%s-%s.pprof", t.name, p.name, kind)
		must(os.WriteFile(filepath.Join(t.bench.out, "profiles", name), t.profile(what), 0o644))
	}
	var cpu errgroup.Group
	cpu.Go(func() (err error) {
		defer catch(&err)
		take("cpu", "profile?seconds=15")
		return nil
	})
	p.run(t)
	must(cpu.Wait())
	take("heap", "heap?gc=1")
}
