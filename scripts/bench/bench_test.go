package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func startShell(t *testing.T, script string) (*manager, <-chan error) {
	t.Helper()
	died := make(chan error, 1)
	m := (&trial{died: func(err error) { died <- err }}).run(exec.Command("/bin/sh", "-c", script))
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
	cpu, resident := m.usage()
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

func TestWhatIsMeasuredAgainCountsWithItsMean(t *testing.T) {
	t.Parallel()
	tried := &trial{program: kcm, ctx: t.Context(), watch: &watch{counts: map[string]tally{}}}
	for range 2 {
		tried.measure("nothing", 0, func() {}, marks{"done": tried.when("ns", tally{})})
	}
	tried.note("something", "CPU", "ms", 1)
	tried.note("something", "CPU", "ms", 3)
	var sums table
	tried.sumUp(&sums)
	require.Len(t, sums, 2)
	assert.Equal(t, "done", sums[0].what)
	assert.Equal(t, map[string][]float64{"kcm": {2}}, sums[1].values)
}

func TestTheTableShowsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	var figures table
	created, ready := figures.row("pods", "created", "s"), figures.row("pods", "ready", "s")
	created.values = map[string][]float64{"kcm": {2.5, 2.44, 2.56}, "original": {6.67, 6.25, 7.14}}
	ready.values = map[string][]float64{"kcm": {11, 10, 12}, "original": {10, 9, 12, 10}}
	figures.row("pods", "requests", "").add("kcm", 2048)
	figures.row("among", "told", "s").add("original", 0.00123)
	var out strings.Builder
	figures.print(&out)
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	assert.Equal(t, []string{
		"pods",
		"created s 2.50 [2.44–2.56] 6.67 [6.25–7.14] 0.37",
		"ready s 11.0 [10.0–12.0] 10.0 [9.00–12.0] 1.10",
		"requests 2048",
		"among",
		"told s 0.00123",
	}, lines[2:8])
}
