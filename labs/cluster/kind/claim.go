package kind

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
type claim struct{ *os.File }

// claims is the directory of this user's claims.
func claims() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for notes about kind clusters: %w", err)
	}
	dir := filepath.Join(cache, "kcm-book", "kind")
	return dir, os.MkdirAll(dir, 0o755)
}

// newClaim claims the cluster before it is created. The claim's content is the cluster's directory. It has its name only
// when it is locked.
func newClaim(name, dir string) (claim, error) {
	claims, err := claims()
	if err != nil {
		return claim{}, err
	}
	file, err := os.CreateTemp(claims, "new-")
	if err != nil {
		return claim{}, err
	}
	_, err = file.WriteString(dir)
	err = errors.Join(err, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	return claim{file}, errors.Join(err, os.Rename(file.Name(), filepath.Join(claims, name)))
}

// release gives up the claim on a cluster that is removed, or that is to stay. If it is only closed, the next removeOrphans
// removes what there is of the cluster.
func (c claim) release(name string) error {
	claims, err := claims()
	return errors.Join(err, os.RemoveAll(filepath.Join(claims, name)), c.Close())
}

// removeOrphans removes the kind clusters whose owners have died without doing it. It touches no cluster that this package
// has not created, and none that lives.
func removeOrphans(e engine) error {
	claims, err := claims()
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(claims, namePrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue // its owner has just released it
		}
		defer file.Close()
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			continue // its owner lives
		}
		dir, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // another process has removed it
		}
		if err == nil {
			err = remove(e, filepath.Base(path), string(dir))
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return fmt.Errorf("remove what is left of kind cluster %s, whose owner is gone: %w", filepath.Base(path), err)
		}
	}
	return nil
}
