package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// kindFileKind is the signature of our kind clusters in cluster.json.
const kindFileKind = "labcluster-kind"

// Names in the directory that the node shares.
const (
	nextKeyName = "service-account-next.pub"
	policyName  = "audit-policy.yaml"
	auditName   = "audit.log"
	patchesName = "patches"
	holdName    = "hold"
)

// policySource is where the audit policy of all clusters is, in the repository.
var policySource = filepath.Join("labs", "controlplane", policyName)

// kindNames are all that a kind cluster's directory contains, in the order in which they are removed.
var kindNames = []string{sharedName, "pki", "kubeconfig", "kubectl-cache", stateFile}

// kindUsers are who the users of a kind cluster are, as kubeadm takes them.
var kindUsers = map[User]struct{ name, group string }{
	Admin:     {"kubernetes-admin", "system:masters"},
	KCM:       {"system:kube-controller-manager", "kcm-book:kcm"},
	Reference: {"system:kube-controller-manager", "kcm-book:reference"},
}

// kindFiles says where the files of a kind cluster are. They have the names that the embedded cluster's have.
func kindFiles(dir string) state {
	s := state{
		Kind:                  kindFileKind,
		Dir:                   dir,
		Kubeconfigs:           map[string]string{},
		RootCA:                filepath.Join(dir, "pki", "ca.crt"),
		ServiceAccountKey:     filepath.Join(dir, "pki", "service-account.key"),
		NextServiceAccountKey: filepath.Join(dir, "pki", "service-account-next.key"),
		AuditLog:              filepath.Join(dir, sharedName, auditName),
	}
	for user := range kindUsers {
		s.Kubeconfigs[string(user)] = filepath.Join(dir, "kubeconfig", string(user)+".kubeconfig")
	}
	return s
}

// writeFiles writes what there is before the cluster is: what the node shares, and a key.
func (c *kindCluster) writeFiles(ctx context.Context) error {
	root, err := Root()
	if err != nil {
		return err
	}
	policy, err := os.ReadFile(filepath.Join(root, policySource))
	if err != nil {
		return err
	}
	private, public, err := newServiceAccountKey()
	if err != nil {
		return err
	}
	shared := filepath.Join(c.Dir(), sharedName)
	contents := map[string][]byte{
		c.NextServiceAccountKeyFile():      private,
		filepath.Join(shared, nextKeyName): public,
		filepath.Join(shared, policyName):  policy,
		// The API server appends to it, as root; it is there before, so that it belongs to who reads it.
		c.AuditLog(): nil,
	}
	for name, patch := range podPatches() {
		contents[filepath.Join(shared, patchesName, name)] = []byte(patch)
	}
	for path, content := range contents {
		if err := writeSecret(path, content); err != nil {
			return err
		}
	}
	hold, err := c.build(ctx, filepath.Join("labs", "cluster", "hold"))
	if err != nil {
		return err
	}
	for component := range readyURLs {
		if err := writeProgram(filepath.Join(shared, holdName, string(component)), hold); err != nil {
			return err
		}
	}
	return nil
}

// writeSecret writes a file for the owner only, and makes its directory.
func writeSecret(path string, content []byte) error { return writeFile(path, content, 0o600) }

// writeProgram is writeSecret for a program.
func writeProgram(path string, content []byte) error { return writeFile(path, content, 0o700) }

func writeFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// save writes cluster.json.
func (c *kindCluster) save() error {
	content, err := json.MarshalIndent(struct {
		*state
		*kindState
	}{&c.state, &c.kindState}, "", "  ")
	if err != nil {
		return err
	}
	return writeSecret(filepath.Join(c.Dir(), stateFile), append(content, '\n'))
}

// newServiceAccountKey makes a key pair in PEM, of the kind that the embedded cluster has.
func newServiceAccountKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	privateDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	publicDER, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	private = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: privateDER})
	public = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	return private, public, nil
}

// fetchCredentials gets the keys and the kubeconfigs from the node, and makes the client.
func (c *kindCluster) fetchCredentials(ctx context.Context) error {
	for path, source := range map[string]string{
		c.RootCAFile():            "/etc/kubernetes/pki/ca.crt",
		c.ServiceAccountKeyFile(): "/etc/kubernetes/pki/sa.key",
	} {
		content, err := c.inNode(ctx, "cat", source)
		if err != nil {
			return err
		}
		if err := writeSecret(path, []byte(content)); err != nil {
			return err
		}
	}
	var err error
	if c.state.Server, err = c.hostServer(); err != nil {
		return err
	}
	for user := range kindUsers {
		if err := c.writeKubeconfig(ctx, user); err != nil {
			return err
		}
	}
	if err := c.save(); err != nil {
		return err
	}
	return c.read()
}

// hostServer is the URL at which the host reaches the API server. In the node it has another.
func (c *kindCluster) hostServer() (string, error) {
	content, err := c.engine.provider.KubeConfig(c.Name, false)
	if err != nil {
		return "", fmt.Errorf("ask kind for the API server's address: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content))
	if err != nil {
		return "", fmt.Errorf("read kind's kubeconfig: %w", err)
	}
	return config.Host, nil
}

// writeKubeconfig has kubeadm make a user's certificate.
func (c *kindCluster) writeKubeconfig(ctx context.Context, user User) error {
	who := kindUsers[user]
	content, err := c.inNode(ctx, "kubeadm", "kubeconfig", "user", "--config=/kind/kubeadm.conf", "--client-name="+who.name, "--org="+who.group)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load([]byte(content))
	if err != nil {
		return fmt.Errorf("read the kubeconfig that kubeadm has made for %s: %w", user, err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = c.Server()
	}
	return clientcmd.WriteToFile(*config, c.Kubeconfig(user))
}

// read takes the kubeconfigs from the cluster's files.
func (c *kindCluster) read() error {
	content, err := os.ReadFile(filepath.Join(c.Dir(), stateFile))
	if err != nil {
		return err
	}
	if err := c.load(content); err != nil {
		return err
	}
	c.client, err = kubernetes.NewForConfig(c.RESTConfig(Admin))
	return err
}

// errNotKind is returned, wrapped, by readKind if a directory is not one of ours.
var errNotKind = errors.New("not a kind cluster's directory")

// readKind reads which kind cluster is in dir.
func readKind(dir string) (kindState, error) {
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return kindState{}, err
	}
	var found struct {
		state
		kindState
	}
	if json.Unmarshal(bytes.TrimSpace(content), &found) != nil || found.Kind != kindFileKind {
		return kindState{}, fmt.Errorf("%s: %w", dir, errNotKind)
	}
	return found.kindState, nil
}

// removeKindFiles removes the files of the named cluster and its directory. What is not of that cluster stays.
func removeKindFiles(dir, name string) error {
	found, err := readKind(dir)
	if err != nil || found.Name != name {
		return nil
	}
	for _, name := range kindNames {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove the files of the kind cluster: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("the kind cluster is removed, but its directory stays: %w", err)
	}
	return nil
}
