package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/kcm-book/kcm-book/labs/process"
)

// modulePath is the module in whose directory bin/labcluster lives.
const modulePath = "github.com/kcm-book/kcm-book"

// Root returns the directory of this module's go.mod, looked for from the current directory upwards.
func Root() (string, error) {
	start, err := os.Getwd()
	for dir := start; err == nil; dir = filepath.Dir(dir) {
		content, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
		if bytes.HasPrefix(content, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = fmt.Errorf("%s is not inside a checkout of %s: run this from the repository", start, modulePath)
		}
	}
	return "", err
}

// Binary returns the path of an up-to-date program in bin: labcluster, kindcluster, or kube-controller-manager,
// the original. It has make build it if it is missing or older than its sources; only then make says on progress what
// is being built and how long it usually takes. Processes that ask at the same time build once.
func Binary(ctx context.Context, program string, progress io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	unlock, err := Lock(filepath.Join(root, "bin", "."+program+".lock"))
	if err != nil {
		return "", fmt.Errorf("lock the build of bin/%s: %w", program, err)
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "make", "--silent", "-C", root, "-f", "labs/cluster.mk", "bin/"+program)
	// The flags of a make that runs the tests are not for this one.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = progress, io.MultiWriter(progress, &said)
	if err := cmd.Run(); err != nil {
		why := process.LastLines(said.String(), 1)
		return "", fmt.Errorf("build bin/%[1]s: %[2]w: %[3]s: run 'make bin/%[1]s' to see why", program, err, why)
	}
	return filepath.Join(root, "bin", program), nil
}

// Lock takes an exclusive lock on a file, waiting for it, and returns what releases it. Processes that build the same
// thing hold it, so that one builds and the others find it built.
func Lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(path).Lock()
}
