package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/process"
)

func TestWhatCannotBeMeasuredIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	for only, says := range map[string]string{
		"namespaces": "-only=namespaces matches no phase; see -h",
		"(":          "-only: error parsing regexp",
	} {
		require.ErrorContains(t, run(t.Context(), 1, only), says)
	}
}

func startShell(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start(exec.Command("/bin/sh", "-c", script))
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func TestWhoWaitsForAManagerThatHasEndedIsToldTheEndOfItsLog(t *testing.T) {
	t.Parallel()
	ended := startShell(t, "for i in $(seq 100); do echo line $i; done; echo panic: out of ideas >&2; exit 3")
	err := awaitFailure(&trial{ctx: t.Context(), watch: &watch{}, leader: ended}, tally{gone: 3})
	assert.ErrorContains(t, err, "exit status 3")
	assert.ErrorContains(t, err, "line 100\npanic: out of ideas")
	assert.NotContains(t, err.Error(), "line 50\n")
}

func TestWhatAManagerUses(t *testing.T) {
	t.Parallel()
	p := startShell(t, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; exec sleep 300")
	require.Eventually(t, func() bool { return p.Log.String() == "done\n" }, time.Minute, 10*time.Millisecond)
	cpu, resident := usage(p)
	assert.Greater(t, cpu, 0.01)
	assert.InDelta(t, 1<<20, resident, 10<<20, "a shell takes a few MiB")
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

func TestTheTableShowsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	var figures table
	created, ready := figures.row("pods", "created", "s"), figures.row("pods", "ready", "s")
	created.values = map[string][]float64{"kcm": {2.5, 2.44, 2.56}, "original": {6.67, 6.25, 7.14}}
	ready.values = map[string][]float64{"kcm": {11, 10, 12}, "original": {10, 9, 12, 10}}
	figures.row("pods", "requests", "").values["kcm"] = []float64{2048}
	figures.row("among", "told", "s").values["original"] = []float64{0.00123}
	var out strings.Builder
	figures.print(&out)
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	assert.Equal(t, []string{
		"pods",
		"created s 2.5 [2.44–2.56] 6.67 [6.25–7.14] 0.37",
		"ready s 11 [10–12] 10 [9–12] 1.10",
		"requests 2048",
		"among",
		"told s 0.00123",
	}, lines[2:8])
}
