package scenarios

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/play/playtest"
)

// setting is that of all scenarios.
var setting = &play.Setting{Manifests: []string{"manifests"}}

func TestMain(m *testing.M) { playtest.Main(m, setting) }

func TestScenarios(t *testing.T) { playAll(t, false) }

// The verdict of these depends on how long something takes.
func TestScenariosWithAClock(t *testing.T) { playAll(t, true) }

func playAll(t *testing.T, clock bool) {
	playtest.Ready(t)
	// The go command sees only here that a result depends on these, and must not show one manager's for the other's.
	t.Logf("with the original: %v; on kind: %v", os.Getenv("REFERENCE") == "1", cluster.OnKind())
	for _, scenario := range All(".") {
		script, err := play.ReadScript(scenario.Path, "manifests")
		require.NoError(t, err)
		if script.HasClock() != clock {
			continue
		}
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			own := *setting
			own.Narrator = play.NewTeller(&told, false)
			leftOut, err := own.Perform(t.Context(), script, scenario.Variables...)
			require.NoError(t, err, told.String())
			if leftOut != "" {
				t.Skip(leftOut)
			}
		})
	}
}
