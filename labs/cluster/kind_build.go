package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build returns a program of the repository, built for the node, that needs nothing but a kernel.
func (c *kindCluster) build(ctx context.Context, source string) ([]byte, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return buildStatic(ctx, root, source, c.arch, "-s -w")
}

// buildStatic builds a program of the module in dir for Linux, such that it needs nothing but a kernel.
func buildStatic(ctx context.Context, dir, source, arch, ldflags string) ([]byte, error) {
	program := filepath.Join(dir, "bin", filepath.Base(source)+"-linux-"+arch)
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return nil, err
	}
	unlock, err := Lock(filepath.Join(dir, "bin", ".kind.lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the build of %s: %w", source, err)
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+ldflags, "-o", program, "./"+filepath.ToSlash(source))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if _, err := outputOf(cmd); err != nil {
		return nil, fmt.Errorf("build %s: %w", source, err)
	}
	return os.ReadFile(program)
}
