package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// reportOn is about one test, with these outcomes.
func reportOn(managers []string, kcm, original string, intended map[string]string) *report {
	r := &report{chosen: []selection{{suite: suite{name: "podgc"}, tests: []string{"TestIt"}}}, managers: managers, intended: intended}
	r.take("podgc/TestIt", "kcm", event{Action: kcm})
	r.take("podgc/TestIt", "original", event{Action: original})
	return r
}

func TestItIsAnErrorIfKcmFailsWhatTheOriginalPasses(t *testing.T) {
	t.Parallel()
	both := []string{"kcm", "original"}
	require.NoError(t, reportOn(both, "pass", "pass", nil).verdict())
	require.NoError(t, reportOn(both, "fail", "fail", nil).verdict())
	require.NoError(t, reportOn(both, "skip", "skip", nil).verdict())
	require.ErrorContains(t, reportOn(both, "fail", "pass", nil).verdict(), "kcm fails podgc/TestIt")
	require.ErrorContains(t, reportOn(both, "", "pass", nil).verdict(), "kcm fails podgc/TestIt")
	require.ErrorContains(t, reportOn(both[:1], "fail", "", nil).verdict(), "kcm fails podgc/TestIt")
	require.ErrorContains(t, reportOn(both[1:], "", "fail", nil).verdict(), "original fails podgc/TestIt")
}

func TestAnIntendedDifferenceIsToldAndMustStillBeThere(t *testing.T) {
	t.Parallel()
	intended := map[string]string{"podgc/TestIt": "kcm waits"}
	failed := reportOn([]string{"kcm"}, "fail", "", intended)
	require.NoError(t, failed.verdict())
	require.Contains(t, failed.table(), "intended: kcm waits")
	require.ErrorContains(t, reportOn([]string{"kcm"}, "pass", "", intended).verdict(), "take it out of")
}

func TestTheTableNamesTheSubtestsThatFailed(t *testing.T) {
	t.Parallel()
	r := reportOn([]string{"kcm"}, "fail", "", nil)
	r.take("podgc/TestIt/with_a_finalizer", "kcm", event{Action: "fail"})
	require.Contains(t, r.table(), "kcm fails with_a_finalizer")
	require.Contains(t, r.table(), "kcm: 0 of 1 passed (podgc 0 of 1)")
}

func TestATestMayFailIfOnlySubtestsFailThatAreIntended(t *testing.T) {
	t.Parallel()
	intended := map[string]string{"podgc/TestIt/gate_off": "kcm has no such gate"}
	r := reportOn([]string{"kcm"}, "fail", "", intended)
	require.ErrorContains(t, r.verdict(), "kcm fails podgc/TestIt", "no subtest has failed")
	r.take("podgc/TestIt/gate_off", "kcm", event{Action: "fail"})
	require.NoError(t, r.verdict())
	require.Contains(t, r.table(), "kcm fails gate_off\n        intended: kcm has no such gate")
	r.take("podgc/TestIt/gate_on", "kcm", event{Action: "fail"})
	require.ErrorContains(t, r.verdict(), "kcm fails podgc/TestIt")
	r.take("podgc/TestIt/gate_on", "kcm", event{Action: "pass"})
	r.take("podgc/TestIt/gate_off", "kcm", event{Action: "pass"})
	require.ErrorContains(t, r.verdict(), "podgc/TestIt/gate_off passes: take it out of")
}
