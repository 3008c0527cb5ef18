package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// machine is what the figures depend on besides the programs.
type machine struct {
	Date      time.Time `json:"date"`
	Cores     int       `json:"cores"`
	CPU       string    `json:"cpu"`
	MemoryGiB float64   `json:"memoryGiB"`
	Platform  string    `json:"platform"`
	KCM       program   `json:"kcm"`
	Original  program   `json:"original"`
}

// program is what a program says about itself.
type program struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	// Revision is the commit that it was built from, if the build knew.
	Revision string `json:"revision,omitempty"`
	// Modified says that the tree was not as committed.
	Modified bool `json:"modified,omitempty"`
}

// describeMachine also runs both programs once, which brings them into the
// page cache: the first one measured is not to pay for the disk.
func describeMachine(ctx context.Context, b *bench) (machine, error) {
	m := machine{
		Date:     time.Now().UTC().Truncate(time.Second),
		Cores:    runtime.NumCPU(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	var err error
	if m.KCM, err = describeProgram(ctx, b.programs.kcm); err != nil {
		return m, err
	}
	if m.Original, err = describeProgram(ctx, b.programs.original); err != nil {
		return m, err
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m, err
	}
	memory, err := fs.Meminfo()
	if err != nil {
		return m, err
	}
	m.MemoryGiB = float64(*memory.MemTotal) / (1 << 20)
	m.CPU, err = processorModel()
	return m, err
}

// processorModel returns what the first processor calls itself, or nothing
// where processors do not say. The library reads this on Linux only, and this
// has to compile elsewhere.
func processorModel() (string, error) {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

func describeProgram(ctx context.Context, path string) (program, error) {
	said, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return program{}, fmt.Errorf("%s --version: %w; 'make bench' builds what it measures", path, err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("%s: %w", path, err)
	}
	p := program{Version: strings.TrimSpace(string(said)), Go: info.GoVersion}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			p.Revision = setting.Value
		case "vcs.modified":
			p.Modified = setting.Value == "true"
		}
	}
	return p, nil
}
