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
	program := filepath.Join(root, "bin", filepath.Base(source)+"-linux-"+c.arch)
	unlock, err := lock(filepath.Join(root, "bin", ".kind.lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the build of %s: %w", source, err)
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./"+filepath.ToSlash(source))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+c.arch)
	if _, err := outputOf(cmd); err != nil {
		return nil, fmt.Errorf("build %s: %w", source, err)
	}
	return os.ReadFile(program)
}
