package kind

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	kind "sigs.k8s.io/kind/pkg/cluster"

	"github.com/kcm-book/kcm-book/labs/process"
)

// ErrNoEngine is returned, wrapped, with CLUSTER=kind when there is no container engine that answers.
var ErrNoEngine = errors.New("CLUSTER=kind needs a container engine")

// engine is what runs kind's nodes.
type engine struct {
	program  string
	provider *kind.Provider
	// log has what kind says from here on.
	log *kindLog
}

// engines are the programs that kind can use, each with the beginning of what it says about its version: Podman may go by
// Docker's name.
var engines = []struct {
	program, version string
	option           func() kind.ProviderOption
}{
	{"docker", "Docker version", kind.ProviderWithDocker},
	{"podman", "podman version", kind.ProviderWithPodman},
}

// findEngine returns the first engine that is installed. It returns an error that wraps ErrNoEngine if none is, or if that
// one does not answer.
func findEngine(ctx context.Context) (engine, error) {
	for _, e := range engines {
		version, err := runEngine(ctx, e.program, "-v")
		if err != nil || !strings.HasPrefix(version, e.version) {
			continue
		}
		if _, err := runEngine(ctx, e.program, "info"); err != nil {
			return engine{}, fmt.Errorf("%w, and %s does not answer: start it, or unset CLUSTER to use the embedded cluster: %w", ErrNoEngine, e.program, err)
		}
		log := &kindLog{}
		return engine{e.program, kind.NewProvider(e.option(), kind.ProviderWithLogger(log)), log}, nil
	}
	return engine{}, fmt.Errorf("%w, and neither Docker nor Podman is installed: install one, or unset CLUSTER to use the embedded cluster", ErrNoEngine)
}

// How long an engine may take to say that it is there.
const engineTimeout = 15 * time.Second

// runEngine runs a command of the engine that is quick.
func runEngine(ctx context.Context, program string, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	return outputOf(exec.CommandContext(ctx, program, args...))
}

// outputOf returns what a command prints, or an error with the last line of what it says.
func outputOf(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.New(cmp.Or(process.LastLines(stderr.String(), 1), err.Error()))
	}
	return stdout.String(), nil
}

// pinnedImage is the node image, of the minor release that bin/labcluster is built from, that kind v0.33.0 came with.
const pinnedImage = "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"

// imageVariable in the environment names another node image.
const imageVariable = "KIND_NODE_IMAGE"

func nodeImage() string { return cmp.Or(os.Getenv(imageVariable), pinnedImage) }

// ensureImage pulls the node image if the engine does not have it, and finds out for which processor it is. Kind would
// pull it itself, but could not be interrupted.
func (c *Cluster) ensureImage(ctx context.Context, image string) error {
	if err := c.inspectImage(ctx, image); err == nil {
		return nil
	}
	c.say("pulling the node image %s", image)
	cmd := exec.CommandContext(ctx, c.engine.program, "pull", "--quiet", image)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the caller, who ends ctx
	if _, err := outputOf(cmd); err != nil {
		return errPull(image, err)
	}
	return c.inspectImage(ctx, image)
}

func (c *Cluster) inspectImage(ctx context.Context, image string) error {
	arch, err := runEngine(ctx, c.engine.program, "image", "inspect", "--format={{.Architecture}}", image)
	c.arch = strings.TrimSpace(arch)
	return err
}

func errPull(image string, err error) error {
	return fmt.Errorf("the node image %s cannot be pulled: set %s to a node image that the engine has, if it cannot reach the registry: %w", image, imageVariable, err)
}
