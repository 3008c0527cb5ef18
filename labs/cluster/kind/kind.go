package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// namePrefix begins the name of each kind cluster of ours.
const namePrefix = "kcm-book-"

type kindCluster struct {
	files  cluster.Files
	name   string // kind's
	engine engine
	node   nodes.Node           // that of the control plane, since createNode
	nodes  []nodes.Node         // all, since createNode
	client kubernetes.Interface // since fetchCredentials
	arch   string               // the node's, since waitUntilReady
}

// create creates a kind cluster, or nothing: when it fails, what it has created is removed. Its files are in dir, which
// must be empty or not exist.
func create(ctx context.Context, dir string) (*kindCluster, error) {
	engine, err := findEngine()
	if err != nil {
		return nil, err
	}
	if dir, err = prepareDir(dir); err != nil {
		return nil, err
	}
	c := &kindCluster{files: filesIn(dir), name: namePrefix + rand.String(8), engine: engine}
	if err := c.up(ctx); err != nil {
		left := c.remove()
		if ctx.Err() != nil && left == nil {
			return nil, errInterrupted
		}
		return nil, errors.Join(err, left)
	}
	return c, nil
}

// up is how a kind cluster becomes one of ours.
func (c *kindCluster) up(ctx context.Context) error {
	creating := fmt.Sprintf("creating the kind cluster %s from %s; this takes about half a minute, "+
		"and longer if the image is to be pulled", c.name, nodeImage())
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"", c.writeFiles},
		{creating, c.createNode},
		{"", c.fetchCredentials},
		{"waiting until the node is Ready and DNS works", c.waitUntilReady},
		{"loading the images web:1, web:2 and web:3", c.loadWeb},
	} {
		if step.what != "" {
			fmt.Fprintf(os.Stderr, "kind: %s\n", step.what)
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	if *joining {
		return nil // what kubeadm's controller manager does is to be seen
	}
	fmt.Fprintln(os.Stderr, "kind: taking kind's own controller manager away, so that none runs")
	return c.removeControllerManager(ctx)
}

// find returns the cluster whose files are in dir, or errNotRunning, wrapped, if there is none.
func find(dir string) (*kindCluster, error) {
	name, err := nameIn(dir)
	if err != nil {
		return nil, err
	}
	engine, err := findEngine()
	return &kindCluster{files: cluster.Files{Dir: dir}, name: name, engine: engine}, err
}

// remove removes the cluster, and its files if that worked.
func (c *kindCluster) remove() error {
	if err := c.removeNode(); err != nil {
		return err
	}
	return removeFiles(c.files.Dir, c.name)
}
