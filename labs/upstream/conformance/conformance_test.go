package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachSpecThatIsLeftOutIsOneOfUpstreamsAboutControllers(t *testing.T) {
	t.Parallel()
	chosen, err := choose("", false)
	require.NoError(t, err)
	left := 0
	for _, s := range chosen {
		if s.why != "" {
			left++
		}
	}
	require.Equal(t, strings.Count(string(specsYAML), " - '[sig"), left)
	all, err := choose("", true)
	require.NoError(t, err)
	require.Len(t, all, len(chosen))
	require.Regexp(t, regexp.MustCompile(focus(all)), "[sig-apps] Job should delete a job [Conformance]")
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	_, err := choose("no such spec", false)
	require.ErrorContains(t, err, `"no such spec"`)
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
