package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claim is the proof that a kind cluster has an owner that lives: a file, named after the cluster, that its owner has
// locked. The kernel drops the lock when the process ends, in whatever way; the file says that there is something to
// remove.
type claim struct {
	file *os.File
}

// claimsDir is where the claims of this user are.
func claimsDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for notes about kind clusters: %w", err)
	}
	return filepath.Join(cache, "kcm-book", "kind"), nil
}

// claimKind claims the cluster before it is created. The claim's content is the cluster's directory.
func claimKind(name, dir string) (*claim, error) {
	claims, err := claimsDir()
	if err != nil {
		return nil, err
	}
	unlock, err := Lock(filepath.Join(claims, "lock"))
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
	claims, err := claimsDir()
	if err != nil {
		return err
	}
	unlock, err := Lock(filepath.Join(claims, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	paths, err := filepath.Glob(filepath.Join(claims, kindPrefix+"*"))
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
	if err := errors.Join(e.remove(name), removeKindFiles(string(dir), name)); err != nil {
		return err
	}
	return forget(path)
}
