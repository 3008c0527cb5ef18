package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// OnKind tells whether CLUSTER in the environment asks for kind, so that a test or lab can skip what only the embedded
// cluster can do, and the other way round.
func OnKind() bool { return os.Getenv("CLUSTER") == "kind" }

// Options are what may be otherwise than it is by default.
type Options struct {
	// Nodes is the number of nodes. The default is 3. A kind cluster always has one, in which the control plane runs too:
	// a second would cost as much memory again.
	Nodes int
	// Dir is the directory of the cluster's files, which must be empty or not exist. The default is a new one.
	Dir string
	// Progress is where a few lines about what is being done go, one Write for each. The default is nowhere, except that
	// a build of bin/labcluster, which takes minutes when the build cache is cold, is announced on standard error.
	Progress io.Writer
}

// Start starts the cluster that CLUSTER in the environment names: embedded (also if it is empty or not set) or kind,
// see the package's documentation for what differs. Any other value is an error. The cluster lives until Close is
// called, ctx ends or this process ends.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	switch choice := os.Getenv("CLUSTER"); choice {
	case "", "embedded":
		return StartEmbedded(ctx, o)
	case "kind":
		return start(ctx, "kindcluster", o)
	default:
		return nil, fmt.Errorf("CLUSTER is %q: set it to embedded or kind, or to nothing, which means embedded", choice)
	}
}

// StartEmbedded starts an embedded cluster, whatever CLUSTER in the environment says.
func StartEmbedded(ctx context.Context, o Options) (*Cluster, error) {
	return start(ctx, "labcluster", o)
}

// start has a program start a cluster, which is built first if it is missing or older than its sources.
func start(ctx context.Context, program string, o Options) (*Cluster, error) {
	o.Nodes = cmp.Or(o.Nodes, 3)
	building := cmp.Or[io.Writer](o.Progress, os.Stderr) // who waits minutes for it must see why
	o.Progress = cmp.Or(o.Progress, io.Discard)
	binary, err := Binary(ctx, program, building)
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "labcluster-"); err != nil {
			return nil, err
		}
		defer os.Remove(o.Dir) // it is empty if there is no cluster, unless what is left has been told
	}
	c := &Cluster{program: binary, configs: map[User]*rest.Config{}}
	if err := c.attach(ctx, o); err != nil {
		return nil, err
	}
	for user, path := range c.Kubeconfigs {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read kubeconfig of %s: %w", user, err), c.close())
		}
		config.QPS = -1
		c.configs[user] = config
	}
	return c, nil
}
