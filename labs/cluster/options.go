package cluster

import "io"

// Option changes what Start does by default.
type Option func(*options)

type options struct {
	dir      string
	nodes    int
	progress io.Writer
}

// WithDir puts the cluster's files into dir, which must be empty or not exist, instead of a new temporary directory.
func WithDir(dir string) Option {
	return func(o *options) { o.dir = dir }
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
