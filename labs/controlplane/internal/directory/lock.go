package directory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Lock keeps others from starting or ending a cluster in a directory. It ends with the process.
type Lock struct{ file *os.File }

// LockDir locks a directory, and does not wait for somebody else's lock.
func LockDir(dir string) (*Lock, error) {
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
	return &Lock{file}, nil
}

// Close ends the lock.
func (l *Lock) Close() error { return l.file.Close() }

// IsIn says whether the lock in the directory is this one. It is not any more when the directory was moved or removed.
func (l *Lock) IsIn(dir string) bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(dir, lockFile))
	return err == nil && os.SameFile(mine, there)
}

// IsLocked says whether a supervisor lives in dir. Any number of processes may ask at the same time.
func IsLocked(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the cluster's directory: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), nil
}
