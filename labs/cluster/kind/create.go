package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	kindcmd "sigs.k8s.io/kind/pkg/cmd"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/kcm-book/kcm-book/labs/process"
)

// ErrNoEngine is returned, wrapped, with CLUSTER=kind when there is no container engine that answers.
var ErrNoEngine = errors.New("CLUSTER=kind needs a container engine")

// engine is what runs kind's nodes.
type engine struct {
	*kind.Provider
	// log has what kind says from here on.
	log *process.Log
}

// findEngine returns the engine that kind finds. It returns an error that wraps ErrNoEngine if there is none, or if that one
// does not answer.
func findEngine() (engine, error) {
	found, err := kind.DetectNodeProvider()
	if err != nil {
		return engine{}, fmt.Errorf("%w, and neither Docker nor Podman is installed: install one, or unset CLUSTER to use the embedded cluster", ErrNoEngine)
	}
	log, logger := &process.Log{}, kindcmd.NewLogger()
	logger.(interface{ SetWriter(io.Writer) }).SetWriter(log)
	e := engine{kind.NewProvider(found, kind.ProviderWithLogger(logger)), log}
	if _, err := e.List(); err != nil {
		return engine{}, fmt.Errorf("%w, and the one here does not answer: start it, or unset CLUSTER to use the embedded cluster: %w", ErrNoEngine, saidBy(err))
	}
	return e, nil
}

// pinnedImage is the node image, of the minor release that bin/labcluster is built from, that kind v0.33.0 came with.
const pinnedImage = "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"

// imageVariable in the environment names another node image.
const imageVariable = "KIND_NODE_IMAGE"

func nodeImage() string { return cmp.Or(os.Getenv(imageVariable), pinnedImage) }

// create has kind create the cluster.
func (c *Cluster) create(ctx context.Context) error {
	created := make(chan error, 1)
	go func() {
		created <- c.engine.Create(c.name,
			kind.CreateWithV1Alpha4Config(config(c.name, nodeImage(), filepath.Join(c.Files.Dir, sharedName))),
			// Not the one that the user has.
			kind.CreateWithKubeconfigPath(c.Files.Kubeconfigs[admin]),
			// Its log is wanted if it fails.
			kind.CreateWithRetain(true),
		)
	}()
	select {
	case err := <-created:
		node, findErr := c.engine.findNode(c.name)
		c.node = node
		return c.withLog(ctx, cmp.Or(err, findErr))
	case <-ctx.Done():
		return c.interrupt(created)
	}
}

// interrupt ends a creation. Kind takes no context, but it fails when its node is gone.
func (c *Cluster) interrupt(created <-chan error) error {
	for {
		if err := c.engine.remove(c.name); err != nil {
			return err
		}
		select {
		case err := <-created:
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// remove removes the named cluster, if there is one, and none of its files.
func (e engine) remove(name string) error {
	// Kind takes the cluster out of a kubeconfig, too: an empty one, because ours are removed anyway.
	scratch, err := os.MkdirTemp("", "kind-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := e.Delete(name, filepath.Join(scratch, "kubeconfig")); err != nil {
		return fmt.Errorf("remove kind cluster %s: %w", name, saidBy(err))
	}
	return nil
}

// findNode finds the node of the named cluster.
func (e engine) findNode(name string) (nodes.Node, error) {
	found, err := e.ListNodes(name)
	if err != nil {
		return nil, fmt.Errorf("look for the node of kind cluster %s: %w", name, saidBy(err))
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: kind cluster %s has no node", ErrNotRunning, name)
	}
	return found[0], nil
}

// inNode runs a command in the node and returns what it prints. Errors have the last line of what it says.
func (c *Cluster) inNode(ctx context.Context, command string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	err := c.node.CommandContext(ctx, command, args...).SetStdout(&stdout).SetStderr(&stderr).Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("run %s in node %s: %s", command, c.node, cmp.Or(process.LastLines(stderr.String(), 1), err.Error()))
	}
	return stdout.String(), nil
}

// errorLine is a line in which Docker or kubeadm says why it fails. More may follow: advice, or where in its source.
var errorLine = regexp.MustCompile(`(?mi)^(\w+: )?error\b.*`)

// saidBy returns an error with the line in which the failed command says why, instead of the whole command.
func saidBy(err error) error {
	if run := (*kindexec.RunError)(nil); errors.As(err, &run) {
		said := string(run.Output)
		return errors.New(cmp.Or(errorLine.FindString(said), process.LastLines(said, 1), run.Error()))
	}
	return err
}

// withLog keeps the log of a node that does not come up, and says where it is.
func (c *Cluster) withLog(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	file, fileErr := os.CreateTemp("", c.name+"-*.log")
	if fileErr != nil {
		return errors.Join(err, fileErr)
	}
	defer file.Close()
	io.WriteString(file, c.engine.log.String())
	if c.node != nil {
		fmt.Fprintf(file, "\n--- the node says\n")
		c.node.SerialLogs(file)
		fmt.Fprintf(file, "\n--- its kubelet says\n")
		c.node.CommandContext(ctx, "journalctl", "--no-pager", "--lines=200", "--unit=kubelet").SetStdout(file).SetStderr(file).Run()
	}
	return fmt.Errorf("the node of the kind cluster does not come up: %w: see %s, and try %s if it is the image's fault", saidBy(err), file.Name(), imageVariable)
}
