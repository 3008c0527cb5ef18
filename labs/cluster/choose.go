package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// clusterVariable in the environment says what Start starts, what Running attaches to, and what make's targets work on.
const clusterVariable = "CLUSTER"

// What it may be. Unset and empty mean embedded.
const (
	onEmbedded = "embedded"
	onKind     = "kind"
)

// ErrNotRunning is returned, wrapped, by Running and Attach when no cluster runs in the directory.
var ErrNotRunning = errors.New("no lab cluster is running")

// OnKind tells whether CLUSTER in the environment asks for kind, so that a test or lab can skip what only the embedded
// cluster can do, and the other way round.
func OnKind() bool { return os.Getenv(clusterVariable) == onKind }

// Start starts the cluster that CLUSTER in the environment names: embedded (also if it is empty or not set) or kind, see
// [StartEmbedded] and the package's documentation for what differs. Any other value is an error.
func Start(ctx context.Context, opts ...Option) (Cluster, error) {
	if err := checkChoice(); err != nil {
		return nil, err
	}
	if OnKind() {
		return startKind(ctx, newOptions(opts))
	}
	return StartEmbedded(ctx, opts...)
}

func checkChoice() error {
	switch choice := os.Getenv(clusterVariable); choice {
	case "", onEmbedded, onKind:
		return nil
	default:
		return fmt.Errorf("%s is %q: set it to %s or %s, or to nothing, which means %s",
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

// directoryVariable in the environment is where `make cluster` has its cluster, relative to the root of the repository.
const directoryVariable = "LABCLUSTER_DIR"

// Running returns the cluster that `make cluster` left running in the repository, or ErrNotRunning; with CLUSTER=kind in
// the environment it is a kind cluster, and never the embedded one. Like make, it looks in the directory that
// LABCLUSTER_DIR in the environment names, otherwise in .labcluster or .labcluster-kind. The cluster is shared with whoever
// started it and with whatever controller manager runs on it: fit for labs and demos, not for tests of loops. Close leaves
// it running.
func Running() (Cluster, error) {
	if err := checkChoice(); err != nil {
		return nil, err
	}
	if OnKind() {
		dir, err := sharedDir(".labcluster-kind")
		if err != nil {
			return nil, err
		}
		return AttachKind(dir)
	}
	dir, err := sharedDir(".labcluster")
	if err != nil {
		return nil, err
	}
	return Attach(dir)
}

func sharedDir(byDefault string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := os.Getenv(directoryVariable)
	if dir == "" {
		dir = byDefault
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	return dir, nil
}
