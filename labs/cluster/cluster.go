package cluster

import (
	"context"
	"os/exec"

	"k8s.io/client-go/rest"
)

// Cluster is a control plane with nodes: an embedded lab cluster or a kind cluster.
// All methods may be called concurrently.
type Cluster interface {
	// Dir is the directory that holds all files of the cluster.
	Dir() string

	// Server is the URL of the API server.
	Server() string

	// Kubeconfig is the path of a self-contained kubeconfig of the user.
	Kubeconfig(User) string

	// RESTConfig returns a new client configuration for the user, without client-side rate limits.
	RESTConfig(User) *rest.Config

	// ServiceAccountKeyFile is the path of the PEM private key with which service-account tokens are to be signed.
	// The API server signs with it and trusts it.
	ServiceAccountKeyFile() string

	// NextServiceAccountKeyFile is the path of a second PEM private key. The API server trusts it too but does not sign
	// with it: with it, key rotation can be tried.
	NextServiceAccountKeyFile() string

	// RootCAFile is the path of the PEM certificate of the CA that signed the API server's certificate.
	RootCAFile() string

	// AuditLog is the path of the API server's audit log: JSON lines, one for each completed request, flushed at once.
	AuditLog() string

	// AuditEvents reads the audit log as far as it is written and returns the events for which keep returns true,
	// oldest first. A nil keep keeps all.
	AuditEvents(keep func(AuditEvent) bool) ([]AuditEvent, error)

	// Kill kills a component with SIGKILL. It stays dead until Restart. It is an error if it does not run.
	Kill(context.Context, Component) error

	// Stop freezes a component with SIGSTOP.
	Stop(context.Context, Component) error

	// Continue resumes a stopped component with SIGCONT.
	Continue(context.Context, Component) error

	// Restart ends a component if it still runs, starts it again with the same port and data, and returns when it is
	// ready.
	Restart(context.Context, Component) error

	// Reference returns the command that runs the original kube-controller-manager, that of bin/labcluster, on this
	// cluster as the user Reference, each loop with its own service account, and with no open port. The given flags come
	// last and win, so "--secure-port=12345" makes it serve. The caller starts it, leaves its standard input alone and
	// waits for it; the end of ctx sends it SIGTERM, and the end of the calling process, in whatever way, ends it too.
	Reference(ctx context.Context, flags ...string) *exec.Cmd

	// Close stops the cluster and removes its files, if Start made it; a cluster that was up before stays as it is.
	// Only the first call has an effect.
	Close() error
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

// Component is a process of the control plane.
type Component string

// The components of a cluster.
const (
	Etcd      Component = "etcd"
	APIServer Component = "kube-apiserver"
	Scheduler Component = "kube-scheduler"
	// Kwok plays the kubelets of all nodes. A kind cluster has none.
	Kwok Component = "kwok"
)
