package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatCannotBeMeasuredIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	for only, says := range map[string]string{
		"namespaces": "-only=namespaces matches none of limit, cold, create, update, zero, many, clean, killed, trace",
		"(":          "-only: error parsing regexp",
	} {
		require.ErrorContains(t, (&bench{rounds: 1}).run(t.Context(), only), says)
	}
}

func TestAPhaseRunsWithThoseThatItNeeds(t *testing.T) {
	t.Parallel()
	wanted := func(only string, round int) (names []string) {
		b := &bench{only: regexp.MustCompile(only)}
		for _, p := range b.wanted(slices.Concat(loadPhases, failoverPhases, sizePhases), round) {
			names = append(names, p.name)
		}
		return names
	}
	assert.Equal(t, []string{"cold", "", "create", "update", ""}, wanted("update", 1), "the load begins and ends")
	assert.Equal(t, []string{"cold", "killed"}, wanted("killed", 1))
	assert.Equal(t, []string{"quota"}, wanted("quota", 1))
	assert.Empty(t, wanted("quota", 2), "one round is enough")
}

func startShell(t *testing.T, script string) (*manager, <-chan error) {
	t.Helper()
	died := make(chan error, 1)
	log := filepath.Join(t.TempDir(), "log")
	m, err := startManager("/bin/sh", []string{"-c", script}, log, func(err error) { died <- err })
	require.NoError(t, err)
	t.Cleanup(func() { m.end(syscall.SIGKILL) })
	return m, died
}

func TestAManagerThatEndsByItselfIsReportedWithTheEndOfItsLog(t *testing.T) {
	t.Parallel()
	_, died := startShell(t, "for i in $(seq 100); do echo line $i; done; echo panic: out of ideas >&2; exit 3")
	select {
	case err := <-died:
		assert.ErrorContains(t, err, "exit status 3")
		assert.ErrorContains(t, err, "line 100\npanic: out of ideas")
		assert.NotContains(t, err.Error(), "line 50\n")
	case <-time.After(time.Minute):
		require.Fail(t, "nobody was told within 30 s")
	}
}

func TestAManagerThatIsAskedToEndIsNotReported(t *testing.T) {
	t.Parallel()
	m, died := startShell(t, "exec sleep 300")
	m.end(syscall.SIGTERM)
	m.end(syscall.SIGKILL) // once more does no harm
	assert.Empty(t, died)
}

func TestWhatAManagerUses(t *testing.T) {
	t.Parallel()
	m, _ := startShell(t, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; exec sleep 300")
	require.Eventually(t, func() bool { return m.Log.String() == "done\n" }, time.Minute, 10*time.Millisecond)
	used := m.usage()
	assert.Greater(t, used.cpu, 0.01)
	assert.InDelta(t, 1<<20, used.resident, 10<<20, "a shell takes a few MiB")
	assert.GreaterOrEqual(t, used.peak, used.resident)
}

func TestOnlyTheControllerManagersRequestsCount(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]bool{
		"system:kube-controller-manager":                          true,
		"system:serviceaccount:kube-system:deployment-controller": true,
		"system:serviceaccount:default:default":                   false,
		"system:kube-scheduler":                                   false,
		"kubernetes-admin":                                        false,
		"kwok":                                                    false,
	} {
		assert.Equal(t, want, isControllerManager(user), user)
	}
}
