// Package kind runs clusters of kind, with one node, in which the control plane runs and pods too. It needs Docker or Podman.
//
// A cluster is kubeadm's, without its controller manager, and with what the embedded cluster has: the audit log, a second
// key for service accounts, and components that can be frozen and killed.
package kind

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/kcm-book/kcm-book/labs/cluster/directory"
)

// namePrefix begins the name of each kind cluster of ours.
const namePrefix = "kcm-book-"

// Cluster is a kind cluster.
type Cluster struct {
	Files    directory.Files
	name     string // kind's
	root     string // of the repository: some of its programs run in the node
	engine   engine
	progress io.Writer
	claim    claim
	node     nodes.Node           // since create
	client   kubernetes.Interface // since fetchCredentials
	arch     string               // the node's, since waitUntilReady
	close    func() error
}

// Start starts a kind cluster that lives until Close is called or ctx ends. If this process ends before, the next Start or Up
// of the same user removes it. Root is that of the repository, and dir where the cluster's files are to be: it must be empty
// or not exist.
func Start(ctx context.Context, root, dir string, progress io.Writer) (*Cluster, error) {
	c, err := up(ctx, root, dir, progress)
	if err != nil {
		return nil, err
	}
	c.close = sync.OnceValue(func() error {
		if err := remove(c.engine, c.name, c.Files.Dir); err != nil {
			return err // the next Start tries again
		}
		return c.claim.release(c.name)
	})
	context.AfterFunc(ctx, func() { _ = c.close() })
	return c, nil
}

// Close removes the cluster and its files. Only the first call has an effect.
func (c *Cluster) Close() error { return c.close() }

// Where says where the cluster's files are.
func (c *Cluster) Where() directory.Files { return c.Files }

// Up starts a kind cluster in dir, as Start does, that goes on when this process ends. Down removes it.
func Up(ctx context.Context, root, dir string, progress io.Writer) (directory.Files, error) {
	c, err := up(ctx, root, dir, progress)
	if err != nil {
		return directory.Files{}, err
	}
	return c.Files, c.claim.release(c.name)
}

// up creates a kind cluster, or nothing: when it fails, what it has created is removed.
func up(ctx context.Context, root, dir string, progress io.Writer) (*Cluster, error) {
	engine, err := findEngine()
	if err != nil {
		return nil, err
	}
	if err := removeOrphans(engine); err != nil {
		return nil, err
	}
	if dir, err = prepareDir(dir); err != nil {
		return nil, err
	}
	c := &Cluster{Files: filesIn(dir), name: newName(), root: root, engine: engine, progress: progress}
	if c.claim, err = newClaim(c.name, dir); err != nil {
		return nil, err
	}
	if err := c.up(ctx); err != nil {
		return nil, c.giveUp(ctx, err)
	}
	return c, nil
}

func newName() string {
	suffix := make([]byte, 4)
	rand.Read(suffix)
	return namePrefix + hex.EncodeToString(suffix)
}

// up is how a kind cluster becomes one of ours.
func (c *Cluster) up(ctx context.Context) error {
	creating := fmt.Sprintf("creating the kind cluster %s from %s; this takes about half a minute, "+
		"and longer if the image is to be pulled", c.name, nodeImage())
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"", c.writeFiles},
		{creating, c.create},
		{"", c.fetchCredentials},
		{"waiting until the node is Ready and DNS works", c.waitUntilReady},
		{"taking kind's own controller manager away", c.removeControllerManager},
		{"loading the images web:1, web:2 and web:3", c.loadWeb},
	} {
		if step.what != "" {
			fmt.Fprintf(c.progress, "kind: %s\n", step.what)
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// giveUp removes what there is of a cluster that could not be started, and returns why it could not.
func (c *Cluster) giveUp(ctx context.Context, err error) error {
	left := remove(c.engine, c.name, c.Files.Dir)
	if ctx.Err() == nil && left == nil {
		return errors.Join(err, c.claim.release(c.name))
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("start kind cluster: %w", context.Cause(ctx))
	}
	// Ctrl-C ends kind's commands too, and the engine may still be making the node that one has asked for. With the claim
	// there, the next Start removes what came too late.
	return errors.Join(err, left, c.claim.Close())
}

// remove removes a cluster, and its files if that worked.
func remove(e engine, name, dir string) error {
	if err := e.remove(name); err != nil {
		return err
	}
	return removeFiles(dir, name)
}

// Down removes the kind cluster that Up left running in dir, or what is left of it, and its files. It returns
// ErrNotRunning, wrapped, if there is none.
func Down(dir string) error {
	name, err := nameIn(dir)
	if err != nil {
		return err
	}
	engine, err := findEngine()
	if err != nil {
		return err
	}
	return remove(engine, name, dir)
}
