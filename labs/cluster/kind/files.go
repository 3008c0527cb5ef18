package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// errNotRunning is returned, wrapped, when no kind cluster of ours runs in a directory.
var errNotRunning = errors.New("no lab cluster is running")

// nameFile makes a directory a kind cluster's: kind's name of the cluster is in it.
const nameFile = "kind-cluster"

// Names in the directory that the node shares.
const (
	nextKeyName = "service-account-next.key"
	policyName  = "audit-policy.yaml"
	auditName   = "audit.log"
	patchesName = "patches"
)

// names are all that a kind cluster's directory contains, in the order in which they are removed.
var names = []string{sharedName, "pki", "kubeconfig", "kubectl-cache", nameFile}

// users are who the users of a kind cluster are, as kubeadm takes them.
var users = map[cluster.User]struct{ name, group string }{
	cluster.Admin:     {"kubernetes-admin", "system:masters"},
	cluster.KCM:       {"system:kube-controller-manager", "kcm-book:kcm"},
	cluster.Reference: {"system:kube-controller-manager", "kcm-book:reference"},
}

// filesIn says where the files of a kind cluster are. They have the names that the embedded cluster's have.
func filesIn(dir string) cluster.Files {
	f := cluster.Files{
		Dir:                   dir,
		Kubeconfigs:           map[cluster.User]string{},
		RootCA:                filepath.Join(dir, "pki", "ca.crt"),
		ServiceAccountKey:     filepath.Join(dir, "pki", "service-account.key"),
		NextServiceAccountKey: filepath.Join(dir, "pki", "service-account-next.key"),
		AuditLog:              filepath.Join(dir, sharedName, auditName),
	}
	for user := range users {
		f.Kubeconfigs[user] = filepath.Join(dir, "kubeconfig", string(user)+".kubeconfig")
	}
	return f
}

// prepareDir makes the directory of a new cluster, if there is none, and returns its absolute path. It must be empty.
func prepareDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := nameIn(dir); err == nil {
		return "", fmt.Errorf("%s already holds a kind cluster: use it, or end it with 'make cluster-down CLUSTER=kind'", dir)
	}
	makeErr := os.MkdirAll(dir, 0o700)
	entries, err := os.ReadDir(dir)
	if err := cmp.Or(makeErr, err); err != nil {
		return "", fmt.Errorf("create the cluster's directory: %w: choose another", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty, and not a kind cluster's directory: choose another", dir)
	}
	return dir, nil
}

// writeFiles writes what there is before the cluster is: whose directory it is, what the node shares, and a key.
func (c *kindCluster) writeFiles(context.Context) error {
	// All clusters have the same policy.
	root, rootErr := cluster.Root()
	policy, policyErr := os.ReadFile(filepath.Join(root, "labs", "controlplane", policyName))
	nextKey, keyErr := keyutil.MakeEllipticPrivateKeyPEM()
	if err := cmp.Or(rootErr, policyErr, keyErr); err != nil {
		return err
	}
	// Only with this file are the others known to be the cluster's.
	if err := writeSecret(filepath.Join(c.files.Dir, nameFile), []byte(c.name)); err != nil {
		return err
	}
	shared := filepath.Join(c.files.Dir, sharedName)
	contents := map[string][]byte{
		c.files.NextServiceAccountKey:      nextKey,
		filepath.Join(shared, nextKeyName): nextKey,
		filepath.Join(shared, policyName):  policy,
		// The API server appends to it, as root; it is there before, so that it belongs to who reads it.
		c.files.AuditLog: nil,
	}
	for name, patch := range podPatches() {
		contents[filepath.Join(shared, patchesName, name)] = []byte(patch)
	}
	for path, content := range contents {
		if err := writeSecret(path, content); err != nil {
			return err
		}
	}
	return nil
}

// writeSecret writes a file for the owner only, and makes its directory.
func writeSecret(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// fetchCredentials gets the keys and the kubeconfigs from the node, and makes the client.
func (c *kindCluster) fetchCredentials(ctx context.Context) error {
	for path, source := range map[string]string{
		c.files.RootCA: "/etc/kubernetes/pki/ca.crt",
		filepath.Join(c.files.Dir, "pki", "ca.key"): "/etc/kubernetes/pki/ca.key",
		c.files.ServiceAccountKey:                   "/etc/kubernetes/pki/sa.key",
	} {
		content, err := c.inNode(ctx, "cat", source)
		if err != nil {
			return err
		}
		if err := writeSecret(path, []byte(content)); err != nil {
			return err
		}
	}
	// The host reaches the API server at another address than the node.
	kinds, err := c.engine.KubeConfig(c.name, false)
	if err != nil {
		return fmt.Errorf("ask kind for the API server's address: %w", err)
	}
	host, err := clientcmd.RESTConfigFromKubeConfig([]byte(kinds))
	if err != nil {
		return fmt.Errorf("read kind's kubeconfig: %w", err)
	}
	c.files.Server = host.Host
	for user := range users {
		if err := c.writeKubeconfig(ctx, user); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.files.Kubeconfigs[cluster.Admin])
	if err != nil {
		return err
	}
	c.client, err = kubernetes.NewForConfig(config)
	return err
}

// writeKubeconfig has kubeadm make a user's certificate.
func (c *kindCluster) writeKubeconfig(ctx context.Context, user cluster.User) error {
	who := users[user]
	content, err := c.inNode(ctx, "kubeadm", "kubeconfig", "user", "--config=/kind/kubeadm.conf",
		"--client-name="+who.name, "--org="+who.group)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load([]byte(content))
	if err != nil {
		return fmt.Errorf("read the kubeconfig that kubeadm has made for %s: %w", user, err)
	}
	for _, reached := range config.Clusters {
		reached.Server = c.files.Server
	}
	return clientcmd.WriteToFile(*config, c.files.Kubeconfigs[user])
}

// nameIn reads which kind cluster's files are in dir. It returns errNotRunning, wrapped, if no cluster's are.
func nameIn(dir string) (string, error) {
	name, err := os.ReadFile(filepath.Join(dir, nameFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w in %s: run 'make cluster CLUSTER=kind'", errNotRunning, dir)
	}
	if err == nil && !strings.HasPrefix(string(name), namePrefix) {
		err = fmt.Errorf("%s is not a kind cluster's directory", dir) // kind would take an empty name for a cluster of yours
	}
	return string(name), err
}

// removeFiles removes the files of the named cluster and its directory. What is not of that cluster stays.
func removeFiles(dir, name string) error {
	if found, err := nameIn(dir); err != nil || found != name {
		return nil
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove the files of the kind cluster: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("the kind cluster is removed, but its directory stays: %w", err)
	}
	return nil
}
