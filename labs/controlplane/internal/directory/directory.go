// Package directory keeps the files of a lab cluster in one directory, and nothing else's.
//
// The file cluster.json makes a directory a cluster's, and says so with its first line. It is written first, and
// removed after all else but the lock: a directory without it is not ours, and is never emptied. The supervisor holds
// the lock as long as it lives.
package directory

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
var ownFiles = append(slices.Clone(subdirectories),
	"kubectl-cache", auditFile, ControlSocket, newMarkerFile, markerFile, lockFile)

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

// Log returns the path of a component's log.
func (c *Cluster) Log(name string) string { return c.Path("logs", name+".log") }

// Save replaces cluster.json at once, so that a reader never sees half of it.
func (c *Cluster) Save() error {
	content, _ := json.MarshalIndent(c, "", "  ") // it is JSON
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
	switch _, err := OpenRunning(dir); {
	case err == nil:
		return nil, nil, fmt.Errorf("a cluster already runs in %s: use it (bin/labcluster status --dir %[1]s) "+
			"or end it (bin/labcluster down --dir %[1]s)", dir)
	case !errors.Is(err, ErrNone):
		return nil, nil, err
	}
	lock, err := LockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	c := &Cluster{Kind: kind, Dir: dir, Nodes: nodes, Kubeconfigs: map[string]string{}}
	c.Pids = map[string]int{Supervisor: os.Getpid()}
	c.AuditLog, c.RootCA = c.Path(auditFile), c.Path("pki", "ca.crt")
	c.ServiceAccountKey = c.Path("pki", "service-account.key")
	c.NextServiceAccountKey = c.Path("pki", "service-account-next.key")
	for _, user := range kubeconfigs {
		c.Kubeconfigs[user] = c.Path("kubeconfig", user+".kubeconfig")
	}
	err = errors.Join(os.Chmod(dir, 0o700), c.Save())
	for _, name := range subdirectories {
		err = errors.Join(err, os.Mkdir(c.Path(name), 0o700))
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Remove(), lock.Close())
	}
	return c, lock, nil
}

// What OpenRunning returns, wrapped, when there is nothing in a directory, and when the supervisor of its cluster is
// gone.
var (
	ErrNone = errors.New("no cluster")
	ErrDead = errors.New("no longer runs")
)

// OpenRunning reads the cluster in dir. It returns ErrNone if dir is empty or does not exist, the cluster and ErrDead
// if it does not run, and another error if dir holds anything but a lab cluster.
func OpenRunning(dir string) (*Cluster, error) {
	c, err := Open(dir)
	if err == nil && !c.Running() {
		err = fmt.Errorf("the cluster in %s %w: remove it with 'bin/labcluster down --dir %s'", c.Dir, ErrDead, c.Dir)
	}
	return c, err
}

// Open reads the cluster in dir, running or not.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	names, err := fileNames(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && (len(names) == 0 || slices.Equal(names, []string{lockFile})) {
		// One that is just starting or ending may hold the lock.
		return nil, fmt.Errorf("%w in %s: start one with 'bin/labcluster up --dir %s'", ErrNone, dir, dir)
	}
	c := &Cluster{}
	content, readErr := os.ReadFile(filepath.Join(dir, markerFile))
	switch err := cmp.Or(err, readErr); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("cannot read the cluster's directory: %w: choose another with --dir", err)
	case err != nil, json.Unmarshal(content, c) != nil, c.Kind != kind:
		return nil, fmt.Errorf("%s is not empty and not a lab cluster's directory (it has no %s of labcluster's), "+
			"so it is left as it is: choose another with --dir", dir, markerFile)
	}
	// The directory may have been moved; what counts is where it is now.
	c.Dir = dir
	return c, nil
}

func fileNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
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
	if names, err := fileNames(c.Dir); err == nil && len(names) > 0 {
		return fmt.Errorf("the cluster is removed, but %s stays: it holds files that are not labcluster's: %s",
			c.Dir, strings.Join(names, ", "))
	}
	return nil
}

// Lock keeps others from starting or ending a cluster in a directory. It ends with the process.
type Lock struct{ *os.File }

// LockDir locks a directory, and does not wait for somebody else's lock.
func LockDir(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write to the cluster's directory: %w: choose another with --dir", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another labcluster is just starting or ending a cluster in %s (%w): "+
			"wait for it or choose another directory with --dir", dir, err)
	}
	return &Lock{file}, nil
}

// IsIn says whether the lock in the directory is this one. It is not any more when the directory was moved or removed.
func (l *Lock) IsIn(dir string) bool {
	mine, err := l.Stat()
	there, thereErr := os.Stat(filepath.Join(dir, lockFile))
	return err == nil && thereErr == nil && os.SameFile(mine, there)
}

// Running says whether a supervisor lives. Any number of processes may ask at the same time.
func (c *Cluster) Running() bool {
	file, err := os.Open(c.Path(lockFile))
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
