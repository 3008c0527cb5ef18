package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachSpecThatIsLeftOutIsOneOfUpstreamsAboutControllers(t *testing.T) {
	t.Parallel()
	listed := 0
	for _, onKind := range []bool{false, true} {
		chosen, err := choose("", onKind)
		require.NoError(t, err)
		for _, s := range chosen {
			if s.why != "" {
				listed++
			}
		}
		require.Regexp(t, regexp.MustCompile(focus(chosen)), "[sig-apps] Job should delete a job [Conformance]")
	}
	require.Equal(t, strings.Count(string(specsYAML), "- '[sig"), listed)
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	_, err := choose("no such spec", false)
	require.ErrorContains(t, err, `"no such spec"`)
}
