package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcm-book/kcm-book/labs/cluster/directory"
)

// Cluster is a control plane with nodes: an embedded lab cluster or a kind cluster.
// All methods may be called concurrently.
type Cluster struct {
	Platform
	files   directory.Files
	configs map[User]*rest.Config
}

// Platform is what a cluster runs on, and what breaks and ends it.
type Platform interface {
	// Where says where the cluster's files are.
	Where() directory.Files
	// Disturb does to a component what a command says: kill, stop, cont or restart.
	Disturb(ctx context.Context, command, component string) error
	// Close ends the cluster and removes its files. Only the first call has an effect.
	Close() error
}

// Kill kills a component with SIGKILL. It stays dead until Restart. It is an error if it does not run.
func (c *Cluster) Kill(ctx context.Context, component Component) error {
	return c.Disturb(ctx, "kill", component)
}

// Stop freezes a component with SIGSTOP.
func (c *Cluster) Stop(ctx context.Context, component Component) error {
	return c.Disturb(ctx, "stop", component)
}

// Continue resumes a stopped component with SIGCONT.
func (c *Cluster) Continue(ctx context.Context, component Component) error {
	return c.Disturb(ctx, "cont", component)
}

// Restart ends a component if it still runs, starts it again with the same port and data, and returns when it is ready.
func (c *Cluster) Restart(ctx context.Context, component Component) error {
	return c.Disturb(ctx, "restart", component)
}

// User is an identity that the cluster has a kubeconfig for.
type User string

const (
	// Admin may do everything (group system:masters).
	Admin User = "admin"

	// KCM is system:kube-controller-manager, the user that RBAC's bootstrap policy knows, for the controller manager
	// under test. Its certificate's organisation puts it in group kcm-book:kcm.
	KCM User = "kcm"

	// Reference is system:kube-controller-manager too, for the original; in group kcm-book:reference.
	Reference User = "reference"
)

// Component is the name of a process of the control plane.
type Component = string

// The components of a cluster.
const (
	Etcd      Component = "etcd"
	APIServer Component = "kube-apiserver"
	Scheduler Component = "kube-scheduler"
	// Kwok plays the kubelets of all nodes. A kind cluster has none.
	Kwok Component = "kwok"
)

// begin starts a cluster in a directory of its own, and reads its kubeconfigs.
func begin[P Platform](pattern string, start func(dir string) (P, error)) (*Cluster, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return nil, err
	}
	platform, err := start(dir)
	if err != nil {
		os.Remove(dir) // it is empty, unless what is left has been told
		return nil, err
	}
	c := &Cluster{Platform: platform, files: platform.Where(), configs: map[User]*rest.Config{}}
	for user, path := range c.files.Kubeconfigs {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read kubeconfig of %s: %w", user, err), c.Close())
		}
		config.QPS = -1
		c.configs[User(user)] = config
	}
	return c, nil
}

// Dir is the directory that holds all files of the cluster.
func (c *Cluster) Dir() string { return c.files.Dir }

// Server is the URL of the API server.
func (c *Cluster) Server() string { return c.files.Server }

// Kubeconfig is the path of a self-contained kubeconfig of the user.
func (c *Cluster) Kubeconfig(user User) string { return c.files.Kubeconfigs[string(user)] }

// RESTConfig returns a new client configuration for the user, without client-side rate limits.
func (c *Cluster) RESTConfig(user User) *rest.Config { return rest.CopyConfig(c.configs[user]) }

// ServiceAccountKeyFile is the path of the PEM private key with which service-account tokens are to be signed.
// The API server signs with it and trusts it.
func (c *Cluster) ServiceAccountKeyFile() string { return c.files.ServiceAccountKey }

// NextServiceAccountKeyFile is the path of a second PEM private key. The API server trusts it too but does not sign
// with it: with it, key rotation can be tried.
func (c *Cluster) NextServiceAccountKeyFile() string { return c.files.NextServiceAccountKey }

// RootCAFile is the path of the PEM certificate of the CA that signed the API server's certificate.
func (c *Cluster) RootCAFile() string { return c.files.RootCA }

// AuditLog is the path of the API server's audit log: JSON lines, one for each completed request, flushed at once.
func (c *Cluster) AuditLog() string { return c.files.AuditLog }

// AuditEvents reads the audit log as far as it is written and returns the events for which keep returns true,
// oldest first. A nil keep keeps all.
func (c *Cluster) AuditEvents(keep func(AuditEvent) bool) ([]AuditEvent, error) {
	return readAuditLog(c.files.AuditLog, keep)
}
