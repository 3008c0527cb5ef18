// Package directory keeps the files of a lab cluster in one directory, and nothing else's.
//
// The file cluster.json makes a directory a cluster's, and says so with its first line. It is written first, and removed
// after all else but the lock: a directory without it is not ours, and is never emptied. The supervisor holds the lock as
// long as it lives.
package directory

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Default is the directory of the cluster when none is named.
const Default = ".labcluster"

// Supervisor is the name of the process that holds the lock.
const Supervisor = "supervisor"

// ControlSocket is where the supervisor takes commands, in the cluster's directory.
const ControlSocket = "control.sock"

const (
	markerFile    = "cluster.json"
	newMarkerFile = markerFile + ".new"
	lockFile      = "lock"
	auditFile     = "audit.log"
)

// kind is the signature in cluster.json. Other programs have a file of that name too.
const kind = "labcluster"

// subdirectories are made when the cluster is, and hold most of its files.
var subdirectories = []string{"etcd", "logs", "pki", "kubeconfig", "config"}

// ownFiles are all that the cluster's directory may contain, in the order in which they are removed.
var ownFiles = append(slices.Clone(subdirectories), "kubectl-cache", auditFile, ControlSocket, newMarkerFile, markerFile, lockFile)

// Cluster is what cluster.json says. Tests and labs read it too.
type Cluster struct {
	Kind                  string            `json:"kind"`
	Dir                   string            `json:"dir"`
	Server                string            `json:"server"`
	Kubeconfigs           map[string]string `json:"kubeconfigs"`
	RootCA                string            `json:"rootCA"`
	ServiceAccountKey     string            `json:"serviceAccountKey"`
	NextServiceAccountKey string            `json:"nextServiceAccountKey"`
	AuditLog              string            `json:"auditLog"`
	Nodes                 int               `json:"nodes"`
	// Pids are the process ids of the supervisor and the components when they were last started.
	Pids map[string]int `json:"pids"`
}

// Path returns the path of a file of the cluster.
func (c *Cluster) Path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// PKI returns the path of a key or certificate.
func (c *Cluster) PKI(name string) string { return c.Path("pki", name) }

// Log returns the path of a component's log.
func (c *Cluster) Log(name string) string { return c.Path("logs", name+".log") }

// KubectlCache returns the path of the directory where kubectl keeps what it has discovered.
func (c *Cluster) KubectlCache() string { return c.Path("kubectl-cache") }

// Save replaces cluster.json at once, so that a reader never sees half of it.
func (c *Cluster) Save() error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.Path(newMarkerFile), append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(c.Path(newMarkerFile), c.Path(markerFile))
}

// Claim makes dir the directory of a new cluster with kubeconfigs of these names, and locks it. It refuses a directory
// that holds anything.
func Claim(dir string, nodes int, kubeconfigs []string) (*Cluster, *Lock, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("cannot create the cluster's directory: %w: choose another with --dir", err)
	}
	if err := refuseUsed(dir); err != nil {
		return nil, nil, err
	}
	lock, err := LockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	c := newCluster(dir, nodes, kubeconfigs)
	if err := os.Chmod(dir, 0o700); err != nil {
		err = fmt.Errorf("cannot protect %s: %w: choose another directory with --dir", dir, err)
		return nil, nil, errors.Join(err, lock.Close())
	}
	if err := errors.Join(c.Save(), c.MakeSubdirectories()); err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return c, lock, nil
}

func newCluster(dir string, nodes int, kubeconfigs []string) *Cluster {
	c := &Cluster{
		Kind:                  kind,
		Dir:                   dir,
		AuditLog:              filepath.Join(dir, auditFile),
		RootCA:                filepath.Join(dir, "pki", "ca.crt"),
		ServiceAccountKey:     filepath.Join(dir, "pki", "service-account.key"),
		NextServiceAccountKey: filepath.Join(dir, "pki", "service-account-next.key"),
		Kubeconfigs:           map[string]string{},
		Nodes:                 nodes,
		Pids:                  map[string]int{Supervisor: os.Getpid()},
	}
	for _, user := range kubeconfigs {
		c.Kubeconfigs[user] = c.Path("kubeconfig", user+".kubeconfig")
	}
	return c
}

// MakeSubdirectories makes those that do not exist.
func (c *Cluster) MakeSubdirectories() error {
	for _, name := range subdirectories {
		if err := os.MkdirAll(c.Path(name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if a directory or a file that the components cannot do without is missing.
func (c *Cluster) Check() error {
	paths := []string{c.RootCA, c.ServiceAccountKey, c.NextServiceAccountKey}
	for _, name := range subdirectories {
		paths = append(paths, c.Path(name))
	}
	for _, path := range c.Kubeconfigs {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, func(a, b string) int { return len(a) - len(b) }) // a directory before what is in it
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the cluster in %s is damaged: %w: end it with 'bin/labcluster down --dir %s'", c.Dir, err, c.Dir)
		}
	}
	return nil
}

// refuseUsed returns an error if dir holds anything: a cluster, or files of somebody else.
func refuseUsed(dir string) error {
	names, err := fileNames(dir)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w: choose another directory with --dir", dir, err)
	}
	if len(names) == 0 || slices.Equal(names, []string{lockFile}) {
		return nil // who holds the lock decides
	}
	if _, err := Open(dir); err != nil {
		return err
	}
	if running, err := IsLocked(dir); err != nil {
		return err
	} else if running {
		return fmt.Errorf("a cluster already runs in %s: use it (bin/labcluster status --dir %s) or end it (bin/labcluster down --dir %s)", dir, dir, dir)
	}
	return fmt.Errorf("%s holds a cluster that no longer runs: remove it with 'bin/labcluster down --dir %s', then try again", dir, dir)
}

func errNotOurs(dir string) error {
	return fmt.Errorf("%s is not empty and not a lab cluster's directory (it has no %s of labcluster's), so it is left as it is: choose another with --dir", dir, markerFile)
}

func fileNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// NoClusterError says that there is nothing in a directory.
type NoClusterError struct{ Dir string }

func (e NoClusterError) Error() string {
	return fmt.Sprintf("no cluster in %s: start one with 'bin/labcluster up --dir %s'", e.Dir, e.Dir)
}

// Open reads the cluster in dir, running or not. It returns a NoClusterError if dir is empty or does not exist, and
// another error if it holds anything but a lab cluster.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	names, err := fileNames(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, NoClusterError{dir}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's directory: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, markerFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNotOurs(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's state: %w", err)
	}
	c := &Cluster{}
	if err := json.Unmarshal(content, c); err != nil || c.Kind != kind {
		return nil, errNotOurs(dir)
	}
	// The directory may have been moved; what counts is where it is now.
	c.Dir = dir
	return c, nil
}

// Remove deletes the cluster's files and its directory. Files that labcluster does not write stay, and so does the
// directory then.
func (c *Cluster) Remove() error {
	for _, name := range ownFiles {
		if err := os.RemoveAll(c.Path(name)); err != nil {
			return fmt.Errorf("cannot remove the cluster's files: %w", err)
		}
	}
	if err := c.CheckGone(); err != nil {
		return err
	}
	return os.Remove(c.Dir)
}

// CheckGone returns an error if the directory of a removed cluster stays, because somebody else has put files there.
func (c *Cluster) CheckGone() error {
	names, err := fileNames(c.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("the cluster is removed, but %s stays: it holds files that are not labcluster's: %s", c.Dir, strings.Join(names, ", "))
	}
	return err
}

// CutFlag takes a leading --dir off a program's arguments, which are otherwise its own. The flag may be absent.
func CutFlag(args []string) (dir string, rest []string) {
	if len(args) > 1 && args[0] == "--dir" {
		return args[1], args[2:]
	}
	if len(args) > 0 {
		if dir, ok := strings.CutPrefix(args[0], "--dir="); ok {
			return dir, args[1:]
		}
	}
	return Default, args
}
