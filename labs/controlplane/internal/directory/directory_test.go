package directory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// claim makes a cluster of its own for the test.
func claim(t *testing.T) (*Cluster, *Lock) {
	t.Helper()
	c, lock, err := Claim(filepath.Join(t.TempDir(), "cluster"), 3, []string{"admin"})
	require.NoError(t, err)
	t.Cleanup(func() { lock.Close() })
	return c, lock
}

func write(t *testing.T, elem ...string) {
	t.Helper()
	path := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("years of work"), 0o600))
}

func TestAClaimedDirectoryIsOpenedAndRemovedWithoutATrace(t *testing.T) {
	t.Parallel()
	c, lock := claim(t)
	opened, err := Open(c.Dir)
	require.NoError(t, err)
	require.Equal(t, c, opened)
	require.Equal(t, os.Getpid(), opened.Pids[Supervisor])
	require.True(t, lock.IsIn(c.Dir))
	write(t, c.Path("kubectl-cache"), "discovery")
	write(t, c.AuditLog)
	require.NoError(t, c.Remove())
	require.NoDirExists(t, c.Dir)
	require.False(t, lock.IsIn(c.Dir))
	require.NoError(t, c.CheckGone())
}

func TestAForeignDirectoryIsRefusedWhateverIsInIt(t *testing.T) {
	t.Parallel()
	markers := map[string]string{
		"none":                   "",
		"another program's":      `{"dir": "/somewhere", "pids": {"etcd": 1}}`,
		"another kind":           `{"kind": "Cluster", "dir": "/somewhere"}`,
		"not even an object":     `["labcluster"]`,
		"not JSON":               `{"di`,
		"JSON of another schema": `{"kind": {"name": "labcluster"}}`,
	}
	for name, marker := range markers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var kept []string
			for _, sub := range []string{"config", "logs", "etcd"} {
				write(t, dir, sub, "thesis.txt")
				kept = append(kept, filepath.Join(dir, sub, "thesis.txt"))
			}
			if marker != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, markerFile), []byte(marker), 0o600))
			}
			_, err := Open(dir)
			require.ErrorContains(t, err, "not a lab cluster's directory")
			_, _, err = Claim(dir, 3, nil)
			require.ErrorContains(t, err, "not a lab cluster's directory")
			require.NoFileExists(t, filepath.Join(dir, lockFile))
			for _, file := range kept {
				require.FileExists(t, file)
			}
		})
	}
}

func TestRemoveLeavesWhatIsNotTheClusters(t *testing.T) {
	t.Parallel()
	c, _ := claim(t)
	write(t, c.Dir, "thesis.txt")
	require.ErrorContains(t, c.Remove(), "it holds files that are not labcluster's: thesis.txt")
	require.FileExists(t, c.Path("thesis.txt"))
	require.NoDirExists(t, c.Path("etcd"))
}

func TestWhereNothingIsThereIsNoCluster(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		_, err := Open(dir)
		require.ErrorIs(t, err, ErrNone)
	}
}

func TestADirectoryHasOneCluster(t *testing.T) {
	t.Parallel()
	c, lock := claim(t)
	_, _, err := Claim(c.Dir, 3, nil)
	require.ErrorContains(t, err, "a cluster already runs in "+c.Dir)
	require.NoError(t, lock.Close())
	_, _, err = Claim(c.Dir, 3, nil)
	require.ErrorIs(t, err, ErrDead)
}

func TestAnyNumberMayAskWhetherADirectoryIsLocked(t *testing.T) {
	t.Parallel()
	c, lock := claim(t)
	require.True(t, c.Running())
	require.NoError(t, lock.Close())
	answers := make(chan bool, 100)
	for range cap(answers) {
		go func() { answers <- c.Running() }()
	}
	for range cap(answers) {
		require.False(t, <-answers, "nobody holds it, they only ask")
	}
}

func TestAClusterThatWasMovedIsWhereItIsNow(t *testing.T) {
	t.Parallel()
	c, lock := claim(t)
	moved := c.Dir + "-moved"
	require.NoError(t, os.Rename(c.Dir, moved))
	require.False(t, lock.IsIn(c.Dir))
	opened, err := Open(moved)
	require.NoError(t, err)
	require.Equal(t, moved, opened.Dir)
}
