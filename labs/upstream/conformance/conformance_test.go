package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachSpecThatIsLeftOutIsOneOfUpstreamsAboutControllers(t *testing.T) {
	t.Parallel()
	listed := 0
	for _, onKind := range []bool{false, true} {
		chosen, err := choose("", false, onKind)
		require.NoError(t, err)
		for _, s := range chosen {
			if s.why != "" {
				listed++
			}
		}
		all, err := choose("", true, onKind)
		require.NoError(t, err)
		require.Len(t, all, len(chosen))
		require.Regexp(t, regexp.MustCompile(focus(all)), "[sig-apps] Job should delete a job [Conformance]")
	}
	require.Equal(t, strings.Count(string(specsYAML), "- '[sig"), listed)
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	_, err := choose("no such spec", false, false)
	require.ErrorContains(t, err, `"no such spec"`)
}

func TestABusyboxWithSharedLibrariesIsRefused(t *testing.T) {
	dynamic, err := exec.LookPath("sh")
	require.NoError(t, err)
	require.ErrorContains(t, linksNothing(dynamic), "libc")
}

// verdictOn is about one spec with these outcomes.
func verdictOn(managers []string, kcm, original string) error {
	return report{
		chosen:   []spec{{name: "it works"}},
		managers: managers,
		outcomes: map[string]map[string]outcome{"kcm": {"it works": {state: kcm}}, "original": {"it works": {state: original}}},
	}.verdict()
}

func TestItIsAnErrorIfKcmFailsWhatTheOriginalPasses(t *testing.T) {
	t.Parallel()
	both := []string{"kcm", "original"}
	require.NoError(t, verdictOn(both, "passed", "passed"))
	require.NoError(t, verdictOn(both, "passed", "failed"))
	require.NoError(t, verdictOn(both, "failed", "failed"))
	require.NoError(t, verdictOn(both[:1], "skipped", ""))
	require.ErrorContains(t, verdictOn(both, "failed", "passed"), "with kcm fails it works")
	require.ErrorContains(t, verdictOn(both, "", "passed"), "with kcm fails it works")
	require.ErrorContains(t, verdictOn(both[:1], "failed", ""), "with kcm fails it works")
	require.ErrorContains(t, verdictOn(both[1:], "", "failed"), "with original fails it works")
}

func TestASpecThatIsLeftOutIsNotJudged(t *testing.T) {
	t.Parallel()
	r := report{chosen: []spec{{"it works", "it needs containers"}}, managers: []string{"kcm"}}
	require.NoError(t, r.verdict())
	require.Contains(t, r.table(), "left out: it needs containers")
	require.Contains(t, r.table(), "kcm: 0 of 0 passed, 1 left out")
}
