package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/kcm-book/kcm-book/labs/process"
)

// modulePath is the module in whose directory bin/labcluster lives.
const modulePath = "github.com/kcm-book/kcm-book"

// Root returns the directory of this module's go.mod, looked for from the current directory upwards.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if declaresModule(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of %s: run this from the repository", start, modulePath)
		}
	}
}

func declaresModule(gomod string) bool {
	content, err := os.ReadFile(gomod)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if strings.TrimSpace(line) == "module "+modulePath {
			return true
		}
	}
	return false
}

// Binary returns the path of an up-to-date bin/labcluster. It asks make, which builds it if it is missing or older than
// its sources, and only then says so on progress. Processes that ask at the same time build once.
func Binary(ctx context.Context, progress io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	unlock, err := Lock(filepath.Join(root, "bin", ".labcluster.lock"))
	if err != nil {
		return "", fmt.Errorf("lock the build of bin/labcluster: %w", err)
	}
	defer unlock()

	binary := filepath.Join(root, "bin", "labcluster")
	if err := makeTarget(ctx, root, progress, "--question", "bin/labcluster"); err == nil {
		return binary, nil
	}
	// Make's own output says what is being built and how long it usually takes.
	if err := makeTarget(ctx, root, progress, "bin/labcluster"); err != nil {
		return "", fmt.Errorf("build bin/labcluster: %w: run 'make bin/labcluster' to see why", err)
	}
	return binary, nil
}

// makeTarget runs make with the fragment that knows bin/labcluster.
func makeTarget(ctx context.Context, root string, progress io.Writer, args ...string) error {
	args = append([]string{"--no-print-directory", "-C", root, "-f", filepath.Join("labs", "cluster.mk")}, args...)
	cmd := exec.CommandContext(ctx, "make", args...)
	// The flags of a make that runs the tests are not for this one.
	cmd.Env = withoutMakeVariables(os.Environ())
	var last bytes.Buffer
	cmd.Stdout = progress
	cmd.Stderr = io.MultiWriter(progress, &last)
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("make is not installed")
	}
	if err != nil && last.Len() > 0 {
		return fmt.Errorf("%w: %s", err, process.LastLines(last.String(), 1))
	}
	return err
}

func withoutMakeVariables(env []string) []string {
	return slices.DeleteFunc(env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}, name)
	})
}

// Lock takes an exclusive lock on a file, waiting for it, and returns what releases it. Processes that build the same thing
// hold it, so that one builds and the others find it built.
func Lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(path).Lock()
}
