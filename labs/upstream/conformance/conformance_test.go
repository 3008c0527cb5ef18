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
