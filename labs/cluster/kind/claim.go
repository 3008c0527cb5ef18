package kind

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// claim is the proof that a kind cluster has an owner that lives: a file, named after the cluster, that its owner has
// locked. The kernel drops the lock when the process ends, in whatever way; the file says that there is something to
// remove.
type claim struct {
	file *os.File
}

// lockClaims returns the directory of this user's claims, and keeps others from it until unlock is called.
func lockClaims() (claims string, unlock func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, fmt.Errorf("find a place for notes about kind clusters: %w", err)
	}
	claims = filepath.Join(cache, "kcm-book", "kind")
	if err := os.MkdirAll(claims, 0o755); err != nil {
		return "", nil, err
	}
	unlock, err = lockedfile.MutexAt(filepath.Join(claims, "lock")).Lock()
	return claims, unlock, err
}

// newClaim claims the cluster before it is created. The claim's content is the cluster's directory.
func newClaim(name, dir string) (*claim, error) {
	claims, unlock, err := lockClaims()
	if err != nil {
		return nil, err
	}
	defer unlock()
	file, err := os.OpenFile(filepath.Join(claims, name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(dir)
	if err := errors.Join(err, syscall.Flock(int(file.Fd()), syscall.LOCK_EX)); err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()), file.Close())
	}
	return &claim{file}, nil
}

// release gives up the claim on a cluster that is removed, or that is to stay.
func (c *claim) release() error { return errors.Join(forget(c.file.Name()), c.file.Close()) }

// abandon leaves the cluster, if there is any of it, to the next removeOrphans.
func (c *claim) abandon() error { return c.file.Close() }

// forget removes a claim's file, which somebody else may have done.
func forget(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// removeOrphans removes the kind clusters whose owners have died without doing it. It touches no cluster that this package
// has not created, and none that lives.
func removeOrphans(e engine) error {
	claims, unlock, err := lockClaims()
	if err != nil {
		return err
	}
	defer unlock()
	paths, err := filepath.Glob(filepath.Join(claims, namePrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := removeIfOrphan(e, path); err != nil {
			return fmt.Errorf("remove what is left of kind cluster %s, whose owner is gone: %w", filepath.Base(path), err)
		}
	}
	return nil
}

func removeIfOrphan(e engine, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // its owner has just released it
	}
	if err != nil {
		return err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil // its owner lives
	}
	if err != nil {
		return err
	}
	dir, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	if err := remove(e, name, string(dir)); err != nil {
		return err
	}
	return forget(path)
}
