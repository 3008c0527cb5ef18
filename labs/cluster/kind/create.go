package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	kindcmd "sigs.k8s.io/kind/pkg/cmd"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	ours "github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// errNoEngine is returned, wrapped, with CLUSTER=kind when there is no container engine that answers.
var errNoEngine = errors.New("CLUSTER=kind needs a container engine")

// engine is what runs kind's nodes.
type engine struct {
	*kind.Provider
	// log has what kind says from here on.
	log *process.Log
}

// findEngine returns the engine that kind finds. It returns an error that wraps errNoEngine if there is none, or if
// that one does not answer.
func findEngine() (engine, error) {
	found, err := kind.DetectNodeProvider()
	if err != nil {
		return engine{}, fmt.Errorf("%w, and neither Docker nor Podman is installed: install one, "+
			"or unset CLUSTER to use the embedded cluster", errNoEngine)
	}
	log, logger := &process.Log{}, kindcmd.NewLogger()
	logger.(interface{ SetWriter(io.Writer) }).SetWriter(log)
	e := engine{kind.NewProvider(found, kind.ProviderWithLogger(logger)), log}
	if _, err := e.List(); err != nil {
		return engine{}, fmt.Errorf("%w, and the one here does not answer: start it, "+
			"or unset CLUSTER to use the embedded cluster: %w", errNoEngine, saidBy(err))
	}
	return e, nil
}

// pinnedImage is the node image, of the minor release that bin/labcluster is built from, that kind v0.33.0 came with.
const pinnedImage = "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"

// imageVariable in the environment names another node image.
const imageVariable = "KIND_NODE_IMAGE"

func nodeImage() string { return cmp.Or(os.Getenv(imageVariable), pinnedImage) }

func (c *kindCluster) createNode(ctx context.Context) error {
	created := make(chan error, 1)
	go func() {
		created <- c.engine.Create(c.name,
			kind.CreateWithV1Alpha4Config(config(c.name, nodeImage(), filepath.Join(c.files.Dir, sharedName))),
			// Not the one that the user has.
			kind.CreateWithKubeconfigPath(c.files.Kubeconfigs[ours.Admin]),
			// Its log is wanted if it fails.
			kind.CreateWithRetain(true),
		)
	}()
	select {
	case err := <-created:
		return c.withLog(ctx, cmp.Or(err, c.findNode()))
	case <-ctx.Done():
		c.interrupt(created)
		return context.Cause(ctx)
	}
}

// interrupt ends a creation, and returns when its node can be removed. Kind takes no context, but it fails when its
// node is gone.
func (c *kindCluster) interrupt(created <-chan error) {
	for {
		_ = c.removeNode() // who removes the cluster in the end says why that fails
		select {
		case <-created:
			// Ctrl-C ends kind's commands, too, and the engine may still be making the node that one has asked for.
			time.Sleep(2 * time.Second)
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// removeNode removes the cluster, if there is one, and none of its files.
func (c *kindCluster) removeNode() error {
	// Kind takes the cluster out of a kubeconfig, too: an empty one, because ours are removed anyway.
	scratch, err := os.MkdirTemp("", "kind-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := c.engine.Delete(c.name, filepath.Join(scratch, "kubeconfig")); err != nil {
		return fmt.Errorf("remove kind cluster %s: %w", c.name, saidBy(err))
	}
	return nil
}

// findNode finds the cluster's node, of several that of the control plane.
func (c *kindCluster) findNode() error {
	found, err := c.engine.ListNodes(c.name)
	if err != nil {
		return fmt.Errorf("look for the node of kind cluster %s: %w", c.name, saidBy(err))
	}
	i := slices.IndexFunc(found, func(n nodes.Node) bool { return strings.HasSuffix(n.String(), "-control-plane") })
	if i < 0 {
		return fmt.Errorf("%w: kind cluster %s has no node", errNotRunning, c.name)
	}
	c.node, c.nodes = found[i], found
	return nil
}

// inNode runs a command in the node and returns what it prints. Errors have the last line of what it says.
func (c *kindCluster) inNode(ctx context.Context, command string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	err := c.node.CommandContext(ctx, command, args...).SetStdout(&stdout).SetStderr(&stderr).Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		why := cmp.Or(process.LastLines(stderr.String(), 1), err.Error())
		return "", fmt.Errorf("run %s in node %s: %s", command, c.node, why)
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
func (c *kindCluster) withLog(ctx context.Context, err error) error {
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
		journal := c.node.CommandContext(ctx, "journalctl", "--no-pager", "--lines=200", "--unit=kubelet")
		journal.SetStdout(file).SetStderr(file).Run()
	}
	return fmt.Errorf("the node of the kind cluster does not come up: %w: see %s, and try %s if it is the image's fault",
		saidBy(err), file.Name(), imageVariable)
}
