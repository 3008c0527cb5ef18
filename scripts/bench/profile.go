package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// profileTime is the part of a phase that its CPU profile covers, from its
// begin. A phase that is shorter adds idle time, which costs no samples.
const profileTime = 15 * time.Second

// profiler fetches profiles from a controller manager's own server.
type profiler struct {
	address string
	certs   string
	client  *http.Client
}

func newProfiler(t *trial) (*profiler, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	config := t.cluster.RESTConfig(cluster.Admin)
	// It signs its certificate itself.
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for profiles: %w", err)
	}
	return &profiler{
		address: listener.Addr().String(),
		certs:   filepath.Join(t.cluster.Dir(), "bench-certs"),
		client:  client,
	}, nil
}

// flags make a controller manager serve profiles.
func (p *profiler) flags() []string {
	_, port, _ := net.SplitHostPort(p.address)
	return []string{"--secure-port=" + port, "--cert-dir=" + p.certs, "--profiling=true"}
}

// profiled runs a phase, and in the profile round takes its profiles: CPU from
// its begin, heap at its end.
func (t *trial) profiled(ctx context.Context, phase string, run func() error) error {
	if t.profiler == nil {
		return run()
	}
	file := func(kind string) string {
		return filepath.Join(t.bench.profiles(), fmt.Sprintf("%s-%s-%s.pprof", t.subject.name, phase, kind))
	}
	cpu := make(chan error, 1)
	go func() {
		cpu <- t.profiler.fetch(ctx, fmt.Sprintf("profile?seconds=%.0f", profileTime.Seconds()), file("cpu"))
	}()
	if err := run(); err != nil {
		return err
	}
	if err := <-cpu; err != nil {
		return err
	}
	return t.profiler.fetch(ctx, "heap?gc=1", file("heap"))
}

func (p *profiler) fetch(ctx context.Context, what, file string) error {
	profile, err := p.get(ctx, what)
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o644)
}

// heap returns the bytes that are in use on the heap after a collection.
func (p *profiler) heap(ctx context.Context) (bytes float64, err error) {
	profile, err := p.get(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(string(profile), "\n# HeapAlloc = ")
	value, _, _ = strings.Cut(value, "\n")
	return strconv.ParseFloat(value, 64)
}

func (p *profiler) get(ctx context.Context, what string) ([]byte, error) {
	url := "https://" + p.address + "/debug/pprof/" + what
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch profile: %w", err)
	}
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("fetch profile: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch profile: %s answers %s: %s", url, response.Status, profile)
	}
	return profile, nil
}
