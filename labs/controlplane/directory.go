package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The files of a cluster, by name in its directory. The marker is written first and removed last: a directory without it
// is not ours, and is never emptied.
const (
	markerFile  = "cluster.json"
	lockFile    = "lock" // held by the supervisor as long as it lives
	controlFile = "control.sock"
	auditFile   = "audit.log"
)

// ownFiles are all that the cluster's directory may contain, in the order in which they are removed.
var ownFiles = []string{"etcd", "logs", "pki", "kubeconfig", "config", auditFile, controlFile, markerFile, lockFile}

// cluster is what cluster.json says. Tests and labs read it too.
type cluster struct {
	Dir                   string            `json:"dir"`
	Version               string            `json:"version"`
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

func (c *cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

func (c *cluster) pki(name string) string { return c.path("pki", name) }
func (c *cluster) log(name string) string { return c.path("logs", name+".log") }

// save replaces cluster.json at once, so that a reader never sees half of it.
func (c *cluster) save() error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	temporary := c.path("config", markerFile+".new")
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, c.path(markerFile))
}

// claim makes dir the directory of a new cluster and locks it. The lock ends with the process.
func claim(dir string, nodes int) (*cluster, *os.File, error) {
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
	lock, err := lockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	c := &cluster{
		Dir:                   dir,
		AuditLog:              filepath.Join(dir, auditFile),
		RootCA:                filepath.Join(dir, "pki", "ca.crt"),
		ServiceAccountKey:     filepath.Join(dir, "pki", "service-account.key"),
		NextServiceAccountKey: filepath.Join(dir, "pki", "service-account-next.key"),
		Kubeconfigs:           map[string]string{},
		Nodes:                 nodes,
		Pids:                  map[string]int{supervisorName: os.Getpid()},
	}
	for user := range users {
		c.Kubeconfigs[user] = c.path("kubeconfig", user+".kubeconfig")
	}
	if err := c.makeDirs(); err != nil {
		return nil, nil, err
	}
	return c, lock, c.save()
}

func (c *cluster) makeDirs() error {
	if err := os.Chmod(c.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot protect %s: %w: choose another directory with --dir", c.Dir, err)
	}
	for _, name := range []string{"pki", "kubeconfig", "config", "logs", "etcd"} {
		if err := os.MkdirAll(c.path(name), 0o700); err != nil {
			return err
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
	if len(names) == 0 {
		return nil
	}
	if !slices.Contains(names, markerFile) {
		if slices.Equal(names, []string{lockFile}) {
			return nil // who holds the lock decides
		}
		return errNotOurs(dir)
	}
	if running, err := isLocked(dir); err != nil {
		return err
	} else if running {
		return fmt.Errorf("a cluster already runs in %s: use it (labcluster status --dir %s) or end it (labcluster down --dir %s)", dir, dir, dir)
	}
	return fmt.Errorf("%s holds a cluster that no longer runs: remove it with 'labcluster down --dir %s', then try again", dir, dir)
}

func errNotOurs(dir string) error {
	return fmt.Errorf("%s is not empty and not a lab cluster's directory (it has no %s), so it is left as it is: choose another with --dir", dir, markerFile)
}

func fileNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

func lockDir(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write to the cluster's directory: %w: choose another with --dir", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another labcluster is just starting or ending a cluster in %s: wait for it or choose another directory with --dir", dir)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// isLocked says whether a supervisor lives in dir.
func isLocked(dir string) (bool, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the cluster's directory: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), nil
}

// errNoCluster says that there is nothing in a directory.
type errNoCluster struct{ dir string }

func (e errNoCluster) Error() string {
	return fmt.Sprintf("no cluster in %s: start one with 'labcluster up --dir %s'", e.dir, e.dir)
}

// openCluster reads the cluster in dir, running or not.
func openCluster(dir string) (*cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	names, err := fileNames(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, errNoCluster{dir}
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
	c := &cluster{}
	if err := json.Unmarshal(content, c); err != nil || c.Dir == "" {
		return nil, fmt.Errorf("%s is damaged: end the processes that 'ps -ef | grep %s' shows and remove the directory by hand", filepath.Join(dir, markerFile), dir)
	}
	// The directory may have been moved; what counts is where it is now.
	c.Dir = dir
	return c, nil
}

// remove deletes the cluster's files and its directory. Files that labcluster does not write stay, and so does the
// directory then.
func (c *cluster) remove() error {
	for _, name := range ownFiles {
		if err := os.RemoveAll(c.path(name)); err != nil {
			return fmt.Errorf("cannot remove the cluster's files: %w", err)
		}
	}
	names, err := fileNames(c.Dir)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("the cluster is removed, but %s stays: it holds files that are not labcluster's: %s", c.Dir, strings.Join(names, ", "))
	}
	return os.Remove(c.Dir)
}
