package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestItEndsAsItsComponentDoes(t *testing.T) {
	require.Equal(t, 3, run("sh", []string{"-c", "exit 3"}, nil))
	require.Equal(t, 1, run("sh", []string{"-c", "kill -KILL $$"}, nil))
	require.Equal(t, 1, run("no-such-component", nil, nil))
}

func TestSIGTERMIsHandedOn(t *testing.T) {
	terminate := make(chan os.Signal, 1)
	terminate <- syscall.SIGTERM
	require.Equal(t, 1, run("sleep", []string{"60"}, terminate), "a signal has ended it")
}

func TestItWaitsUntilTheFileIsGone(t *testing.T) {
	held := filepath.Join(t.TempDir(), "etcd")
	require.NoError(t, os.WriteFile(held, nil, 0o600))
	begin := time.Now()
	time.AfterFunc(300*time.Millisecond, func() { os.Remove(held) })
	waitUntilGone(held, nil)
	require.GreaterOrEqual(t, time.Since(begin), 300*time.Millisecond)
}
