package suites

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/verdict"
)

// tableOf is what is said of one test when kcm's run ends so, and some differences are intended: test or subtest, and
// how it ended.
func tableOf(t *testing.T, intended map[string]string, events ...string) *verdict.Table {
	t.Helper()
	var out strings.Builder
	for _, event := range events {
		test, action, _ := strings.Cut(event, " ")
		fmt.Fprintf(&out, "{\"Action\":%q,\"Test\":%q}\n", action, test)
	}
	table := verdict.New([]string{"kcm"}, []string{"podgc/TestIt"})
	w := workshop{intended: intended}
	require.NoError(t, w.follow(suite{name: "podgc"}, "kcm", strings.NewReader(out.String()), io.Discard, table))
	return table
}

func TestAnIntendedDifferenceIsToldAndMustStillBeThere(t *testing.T) {
	t.Parallel()
	intended := map[string]string{"podgc/TestIt": "kcm waits"}
	failed := tableOf(t, intended, "TestIt fail")
	require.NoError(t, failed.Err())
	assert.Contains(t, failed.String(), "intended: kcm waits")
	require.ErrorContains(t, tableOf(t, intended, "TestIt pass").Err(), "take it out of")
	require.EqualError(t, tableOf(t, nil, "TestIt fail").Err(), "kcm fails podgc/TestIt\nsee build/upstream/podgc-kcm.log")
}

func TestATestMayFailIfOnlySubtestsFailThatAreIntended(t *testing.T) {
	t.Parallel()
	intended := map[string]string{"podgc/TestIt/gate_off": "kcm has no such gate"}
	require.ErrorContains(t, tableOf(t, intended, "TestIt fail").Err(), "kcm fails podgc/TestIt", "no subtest has failed")
	off := tableOf(t, intended, "TestIt/gate_off fail", "TestIt fail")
	require.NoError(t, off.Err())
	assert.Contains(t, off.String(), "kcm fails gate_off\n      intended: kcm has no such gate")
	require.ErrorContains(t,
		tableOf(t, intended, "TestIt/gate_off fail", "TestIt/gate_on fail", "TestIt fail").Err(), "kcm fails podgc/TestIt")
	require.ErrorContains(t, tableOf(t, intended, "TestIt/gate_off pass", "TestIt pass").Err(),
		"podgc/TestIt/gate_off passes: take it out of")
}
