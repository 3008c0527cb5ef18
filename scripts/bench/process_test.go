package main

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func startShell(t *testing.T, script string) (*process, <-chan error) {
	t.Helper()
	died := make(chan error, 1)
	p, err := startProcess("/bin/sh", []string{"-c", script}, filepath.Join(t.TempDir(), "log"), func(err error) { died <- err })
	require.NoError(t, err)
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p, died
}

func TestAProcessThatEndsByItselfIsReportedWithTheEndOfItsLog(t *testing.T) {
	t.Parallel()
	_, died := startShell(t, "for i in $(seq 100); do echo line $i; done; echo panic: out of ideas >&2; exit 3")
	select {
	case err := <-died:
		assert.ErrorContains(t, err, "exit status 3")
		assert.ErrorContains(t, err, "line 100\npanic: out of ideas")
		assert.NotContains(t, err.Error(), "line 50\n")
	case <-time.After(30 * time.Second):
		require.Fail(t, "nobody was told within 30 s")
	}
}

func TestAProcessThatIsAskedToEndIsNotReported(t *testing.T) {
	t.Parallel()
	p, died := startShell(t, "sleep 300")
	p.end(syscall.SIGTERM)
	p.end(syscall.SIGKILL) // once more does no harm
	assert.Empty(t, died)
}

func TestWhatAProcessUses(t *testing.T) {
	t.Parallel()
	p, _ := startShell(t, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo Attempting to acquire leader lease...; sleep 300")
	require.Eventually(t, p.waitsForLease, 30*time.Second, 10*time.Millisecond)
	used, err := p.usage()
	require.NoError(t, err)
	assert.Greater(t, used.cpu, 0.01)
	assert.InDelta(t, 1, used.resident, 10, "a shell takes a few MiB")
	assert.GreaterOrEqual(t, used.peak, used.resident)
	assert.Greater(t, used.resident, used.anonymous)
}
