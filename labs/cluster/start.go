package cluster

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/kcm-book/kcm-book/labs/cluster/embedded"
	"github.com/kcm-book/kcm-book/labs/cluster/kind"
)

// clusterVariable in the environment says what Start starts, and what make's targets work on.
const clusterVariable = "CLUSTER"

// What it may be. Unset and empty mean embedded.
const (
	onEmbedded = "embedded"
	onKind     = "kind"
)

// OnKind tells whether CLUSTER in the environment asks for kind, so that a test or lab can skip what only the embedded
// cluster can do, and the other way round.
func OnKind() bool { return os.Getenv(clusterVariable) == onKind }

// Option changes what Start does by default.
type Option func(*options)

type options struct {
	nodes    int
	progress io.Writer
}

// WithNodes sets the number of nodes. The default is 3. A kind cluster always has one, in which the control plane runs too:
// a second would cost as much memory again.
func WithNodes(n int) Option {
	return func(o *options) { o.nodes = n }
}

// WithProgress sets where a few lines about what is being done go, one Write for each. The default is nowhere, except that a
// build of bin/labcluster, which takes minutes when the build cache is cold, is announced on standard error.
func WithProgress(w io.Writer) Option {
	return func(o *options) { o.progress = w }
}

// Start starts the cluster that CLUSTER in the environment names: embedded (also if it is empty or not set) or kind, see
// the package's documentation for what differs. Any other value is an error. The cluster lives until Close is called, ctx
// ends or this process ends.
func Start(ctx context.Context, opts ...Option) (*Cluster, error) {
	switch choice := os.Getenv(clusterVariable); choice {
	case "", onEmbedded:
		return StartEmbedded(ctx, opts...)
	case onKind:
		root, err := Root()
		if err != nil {
			return nil, err
		}
		return begin("labcluster-kind-", func(dir string) (*kind.Cluster, error) {
			return kind.Start(ctx, root, dir, newOptions(opts).progress)
		})
	default:
		return nil, fmt.Errorf("%s is %q: set it to %s or %s, or to nothing, which means %s",
			clusterVariable, choice, onEmbedded, onKind, onEmbedded)
	}
}

func newOptions(opts []Option) options {
	o := options{nodes: 3, progress: io.Discard}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// StartEmbedded starts an embedded cluster, whatever CLUSTER in the environment says. It builds bin/labcluster first if
// that is missing or older than its sources.
func StartEmbedded(ctx context.Context, opts ...Option) (*Cluster, error) {
	o := newOptions(opts)
	building := o.progress
	if building == io.Discard {
		building = os.Stderr // who waits minutes for it must see why
	}
	binary, err := Binary(ctx, building)
	if err != nil {
		return nil, err
	}
	return begin("labcluster-", func(dir string) (*embedded.Cluster, error) {
		return embedded.Start(ctx, binary, dir, o.nodes, o.progress)
	})
}
