package suites

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/verdict"
)

// here is the workshop of this checkout, building in a directory of the test's.
func here(t *testing.T) workshop {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	w, err := newWorkshop(t.Context(), root)
	require.NoError(t, err)
	w.dir = t.TempDir()
	return w
}

func TestEachSuiteImportsShimsInPlaceOfTheLoops(t *testing.T) {
	t.Parallel()
	w := here(t)
	for _, s := range suites {
		_, err := w.overlay(s)
		require.NoError(t, err)
		written, err := filepath.Glob(filepath.Join(w.dir, "suites", s.name, "*.go"))
		require.NoError(t, err)
		all := ""
		for _, path := range written {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			all += string(content)
		}
		require.True(t, strings.Contains(all, `"`+modulePath+"/shims/") || strings.Contains(all, `"`+kcmPath+"/controller/"),
			"the suite %s imports nothing of kcm's", s.name)
		for _, imported := range regexp.MustCompile(`"(k8s\.io/kubernetes/[^"]+)"`).FindAllStringSubmatch(all, -1) {
			require.Empty(t, w.ours(imported[1]), s.name)
		}
	}
}

// A suite that passes with a broken kcm would prove nothing. This takes two minutes: linking, and waiting for pods.
func TestASuiteFailsWithAKcmThatCreatesNoPods(t *testing.T) {
	if testing.Short() {
		t.Skip("links a suite")
	}
	t.Parallel()
	w := here(t)
	chosen, err := w.choose("^replicaset/TestSpecReplicasChange$")
	require.NoError(t, err)
	w.changes = append(w.changes, change{"replication/decide.go", "min(max(missing, 0), burst)", "0"})
	table := verdict.New([]string{"kcm"}, chosen)
	require.NoError(t, w.play(t.Context(), "kcm", chosen, table))
	require.ErrorContains(t, table.Err(), "kcm fails replicaset/TestSpecReplicasChange")
}

// What is listed is played, and no more. A test that upstream has renamed would be missed in silence.
func TestTheTestsThatAreAboutALoopAreStillUpstreams(t *testing.T) {
	t.Parallel()
	w := here(t)
	for name, tests := range about {
		chosen, err := w.choose("^" + name + "/")
		require.NoError(t, err)
		require.Len(t, chosen, len(tests), name)
	}
}

func TestTheLoopsOfKcmAreMissedInASuiteThatRunsUpstreams(t *testing.T) {
	if testing.Short() {
		t.Skip("links a suite")
	}
	t.Parallel()
	w := here(t)
	program, err := w.build(t.Context(), suites[1], "original")
	require.NoError(t, err)
	require.ErrorContains(t, w.checkLoops(t.Context(), suites[1], program), "does not run kcm's loop")
}
