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
	arch     string               // the image's, since ensureImage
	node     nodes.Node           // since create
	client   kubernetes.Interface // since fetchCredentials

	close func() error
}

// Start starts a kind cluster that lives until Close is called or ctx ends. If this process ends before, the next Start or Up
// of the same user removes it. Root is that of the repository, and dir where the cluster's files are to be: it must be empty
// or not exist.
func Start(ctx context.Context, root, dir string, progress io.Writer) (*Cluster, error) {
	c, claim, err := up(ctx, root, dir, progress)
	if err != nil {
		return nil, err
	}
	end := sync.OnceValue(func() error {
		if err := c.remove(); err != nil {
			return err // the next Start tries again
		}
		return claim.release()
	})
	forget := context.AfterFunc(ctx, func() { _ = end() })
	c.close = func() error {
		forget()
		return end()
	}
	return c, nil
}

// Close removes the cluster and its files. Only the first call has an effect.
func (c *Cluster) Close() error { return c.close() }

// Up starts a kind cluster in dir, as Start does, that goes on when this process ends. Down removes it.
func Up(ctx context.Context, root, dir string, progress io.Writer) (directory.Files, error) {
	c, claim, err := up(ctx, root, dir, progress)
	if err != nil {
		return directory.Files{}, err
	}
	return c.Files, claim.release()
}

// up creates a kind cluster, or nothing: when it fails, what it has created is removed.
func up(ctx context.Context, root, dir string, progress io.Writer) (*Cluster, *claim, error) {
	engine, err := findEngine(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := removeOrphans(engine); err != nil {
		return nil, nil, err
	}
	if dir, err = prepareDir(dir); err != nil {
		return nil, nil, err
	}
	c := &Cluster{Files: filesIn(dir), name: newName(), root: root, engine: engine, progress: progress}
	claim, err := newClaim(c.name, dir)
	if err != nil {
		return nil, nil, err
	}
	if err := c.up(ctx); err != nil {
		return nil, nil, c.giveUp(ctx, err, claim)
	}
	return c, claim, nil
}

func newName() string {
	suffix := make([]byte, 4)
	rand.Read(suffix)
	return namePrefix + hex.EncodeToString(suffix)
}

// up is how a kind cluster becomes one of ours.
func (c *Cluster) up(ctx context.Context) error {
	image := nodeImage()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"", c.writeFiles},
		{"", func(ctx context.Context) error { return c.ensureImage(ctx, image) }},
		{fmt.Sprintf("creating the kind cluster %s from %s; this takes about half a minute", c.name, image), c.create},
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

func (c *Cluster) say(format string, args ...any) {
	fmt.Fprintf(c.progress, "kind: "+format+"\n", args...)
}

// giveUp removes what there is of a cluster that could not be started, and returns why it could not.
func (c *Cluster) giveUp(ctx context.Context, err error, claim *claim) error {
	left := c.remove()
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

// remove removes the cluster, and its files if that worked.
func (c *Cluster) remove() error { return remove(c.engine, c.name, c.Files.Dir) }

func remove(e engine, name, dir string) error {
	if err := e.remove(name); err != nil {
		return err
	}
	return removeFiles(dir, name)
}

// Kubeconfig is the admin's of the cluster that Up left running in dir. It returns ErrNotRunning, wrapped, if there is none.
func Kubeconfig(dir string) (string, error) {
	_, err := open(dir)
	return filesIn(dir).Kubeconfigs[admin], err
}

// Status writes what the cluster that Up left running in dir consists of, as kubectl in its node shows it. It returns
// ErrNotRunning, wrapped, if there is none.
func Status(ctx context.Context, dir string, w io.Writer) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	shown, err := c.inNode(ctx, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "nodes,pods", "--namespace=kube-system")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s in %s\n\n%s", c.name, dir, shown)
	return err
}

// open returns of the cluster that Up left running in dir what is needed to look into its node.
func open(dir string) (*Cluster, error) {
	c := &Cluster{}
	var err error
	if c.name, err = nameIn(dir); err != nil {
		return nil, err
	}
	if c.engine, err = findEngine(context.Background()); err != nil {
		return nil, err
	}
	if c.node, err = c.engine.findNode(c.name); err != nil {
		return nil, fmt.Errorf("%w; remove what is left with 'make cluster-down CLUSTER=kind'", err)
	}
	return c, nil
}

// Down removes the kind cluster that Up left running in dir, or what is left of it, and its files. It returns
// ErrNotRunning, wrapped, if there is none.
func Down(dir string) error {
	name, err := nameIn(dir)
	if err != nil {
		return err
	}
	engine, err := findEngine(context.Background())
	if err != nil {
		return err
	}
	return remove(engine, name, dir)
}
