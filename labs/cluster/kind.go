package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
)

// kindPrefix begins the name of each kind cluster of ours.
const kindPrefix = "kcm-book-"

// kindCluster is a kind cluster with one node, in which the control plane runs and pods too.
type kindCluster struct {
	access
	kindState
	engine   engine
	progress io.Writer
	arch     string               // the image's, since ensureImage
	node     nodes.Node           // since create
	client   kubernetes.Interface // since fetchCredentials

	close func() error
}

// kindState is what cluster.json of a kind cluster says besides state.
type kindState struct {
	// Name is kind's name of the cluster.
	Name string `json:"name"`
}

// startKind starts a kind cluster that lives until Close is called or ctx ends.
func startKind(ctx context.Context, o options) (Cluster, error) {
	c, claim, err := upKind(ctx, o)
	if err != nil {
		return nil, err
	}
	end := sync.OnceValue(func() error { return c.remove(claim) })
	forget := context.AfterFunc(ctx, func() { _ = end() })
	c.close = func() error {
		forget()
		return end()
	}
	return c, nil
}

// KindUp starts a kind cluster in dir that goes on when this process ends. KindDown removes it.
func KindUp(ctx context.Context, dir string, progress io.Writer) (Cluster, error) {
	c, claim, err := upKind(ctx, options{dir: dir, progress: progress})
	if err != nil {
		return nil, err
	}
	return c, claim.release()
}

// upKind creates a kind cluster, or nothing: when it fails, what it has created is removed.
func upKind(ctx context.Context, o options) (*kindCluster, *claim, error) {
	engine, err := findEngine(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := removeOrphans(engine); err != nil {
		return nil, nil, err
	}
	dir, err := newKindDir(o.dir)
	if err != nil {
		return nil, nil, err
	}
	c := &kindCluster{engine: engine, progress: o.progress}
	c.Name = newKindName()
	c.state = kindFiles(dir)
	claim, err := claimKind(c.Name, dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.Remove(dir))
	}
	if err := c.up(ctx); err != nil {
		return nil, nil, c.giveUp(ctx, err, claim)
	}
	return c, claim, nil
}

func newKindName() string {
	suffix := make([]byte, 4)
	rand.Read(suffix)
	return kindPrefix + hex.EncodeToString(suffix)
}

// up is how a kind cluster becomes one of ours.
func (c *kindCluster) up(ctx context.Context) error {
	if err := c.save(); err != nil {
		return err
	}
	image := nodeImage()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"", func(ctx context.Context) error { return c.ensureImage(ctx, image) }},
		{"", c.writeFiles},
		{fmt.Sprintf("creating the kind cluster %s from %s; this takes about half a minute", c.Name, image), c.create},
		{"", c.fetchCredentials},
		{"waiting until the node is Ready and DNS works", c.waitUntilReady},
		{"taking kind's own controller manager away", c.removeControllerManager},
		{"loading the images web:1, web:2 and web:3", c.loadWeb},
	} {
		if step.what != "" {
			c.say("%s", step.what)
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *kindCluster) say(format string, args ...any) {
	fmt.Fprintf(c.progress, "kind: "+format+"\n", args...)
}

// giveUp removes what there is of a cluster that could not be started, and returns why it could not.
func (c *kindCluster) giveUp(ctx context.Context, err error, claim *claim) error {
	left := errors.Join(c.engine.remove(c.Name), removeKindFiles(c.Dir(), c.Name))
	if ctx.Err() == nil && left == nil {
		return errors.Join(err, claim.release())
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("start kind cluster: %w", context.Cause(ctx))
	}
	// Ctrl-C ends kind's commands too, and the engine may still be making the node that one has asked for. With the claim
	// there, the next Start removes what came too late.
	return errors.Join(err, left, claim.abandon())
}

// remove deletes the cluster and its files.
func (c *kindCluster) remove(claim *claim) error {
	if err := c.engine.remove(c.Name); err != nil {
		return err
	}
	return errors.Join(removeKindFiles(c.Dir(), c.Name), claim.release())
}

func (c *kindCluster) Reference(ctx context.Context, flags ...string) *exec.Cmd {
	binary, err := Binary(ctx, os.Stderr)
	cmd := reference(ctx, c, binary, flags)
	if err != nil {
		cmd.Err = err
	}
	return cmd
}

func (c *kindCluster) Close() error { return c.close() }

// newKindDir returns the directory of a new cluster: dir, which must be empty or not exist, or a temporary one.
func newKindDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "labcluster-kind-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the cluster's directory: %w: choose another", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("read the cluster's directory: %w: choose another", err)
	}
	if _, err := readKind(dir); err == nil {
		return "", fmt.Errorf("%s already holds a kind cluster: use it, or end it with 'make cluster-down CLUSTER=kind'", dir)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty, and not a kind cluster's directory: choose another", dir)
	}
	return dir, nil
}
