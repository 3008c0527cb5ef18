package cluster

import "k8s.io/client-go/rest"

// Cluster is a control plane with nodes: an embedded lab cluster or a kind cluster. All methods may be called
// concurrently.
type Cluster struct {
	Files
	program string // bin/labcluster or bin/kindcluster, which runs it
	configs map[User]*rest.Config
	close   func() error
}

// Files say where the files of a cluster are, and its API server. The program that runs the cluster prints them as a
// line of JSON when the cluster is ready.
type Files struct {
	// Dir holds all others, and Server is a URL.
	Dir    string `json:"dir"`
	Server string `json:"server"`
	// Kubeconfigs are self-contained, by user.
	Kubeconfigs map[User]string `json:"kubeconfigs"`
	// RootCA is the PEM certificate of the CA that signed the API server's certificate.
	RootCA string `json:"rootCA"`
	// ServiceAccountKey is the PEM private key with which the API server signs service-account tokens. It trusts the
	// next one, too, so that key rotation can be tried.
	ServiceAccountKey     string `json:"serviceAccountKey"`
	NextServiceAccountKey string `json:"nextServiceAccountKey"`
	// AuditLog has a line of JSON for each completed request, flushed at once.
	AuditLog string `json:"auditLog"`
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

// The components of a cluster, the processes of its control plane, by their names.
const (
	Etcd      = "etcd"
	APIServer = "kube-apiserver"
	Scheduler = "kube-scheduler"
	// Kwok plays the kubelets of all nodes. A kind cluster has none.
	Kwok = "kwok"
)

// Close ends the cluster and removes its files. Only the first call has an effect.
func (c *Cluster) Close() error { return c.close() }

// RESTConfig returns a new client configuration for the user, without client-side rate limits.
func (c *Cluster) RESTConfig(user User) *rest.Config { return rest.CopyConfig(c.configs[user]) }
