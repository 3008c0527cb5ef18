package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// How long a running cluster may take to answer.
const answerTimeout = 10 * time.Second

// AttachKind returns the kind cluster that KindUp left running in dir, or ErrNotRunning. It is shared, as with Running. Close
// leaves it running.
func AttachKind(dir string) (Cluster, error) {
	c, err := openKind(dir)
	if err != nil {
		return nil, err
	}
	if err := c.findNode(); err != nil {
		return nil, fmt.Errorf("%w; remove what is left with 'make cluster-down CLUSTER=kind'", err)
	}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("the kind cluster in %s cannot be used: %w", dir, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if _, err := c.client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return nil, fmt.Errorf("the kind cluster in %s cannot be used: %w", dir, err)
	}
	return c, nil
}

// openKind reads which kind cluster is in dir, running or not. It returns ErrNotRunning, wrapped, if there is none.
func openKind(dir string) (*kindCluster, error) {
	found, err := readKind(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: run 'make cluster CLUSTER=kind'", ErrNotRunning, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to a kind cluster: %w", err)
	}
	engine, err := findEngine(context.Background())
	if err != nil {
		return nil, err
	}
	c := &kindCluster{engine: engine, progress: io.Discard, kindState: found, close: func() error { return nil }}
	c.state.Dir, err = filepath.Abs(dir)
	return c, err
}

// KindDown removes the kind cluster that KindUp left running in dir, or what is left of it, and its files. It returns
// ErrNotRunning, wrapped, if there is none.
func KindDown(dir string) error {
	c, err := openKind(dir)
	if err != nil {
		return err
	}
	if err := c.engine.remove(c.Name); err != nil {
		return err
	}
	return removeKindFiles(c.Dir(), c.Name)
}
