package scenarios

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
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
		text, err := os.ReadFile(scenario.Path)
		require.NoError(t, err)
		if hasClock(text) != clock {
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

// clocked are the verbs that act on processes and connections, or compare moments, or leave it to the manager to notice
// that time passes and a node says nothing. InClock matches what makes an object's behaviour, or a question about it, one
// of time. What lasts for minutes does not end while a script is played.
var (
	remark  = regexp.MustCompile(`(?m)^\s*#.*`)
	clocked = regexp.MustCompile(`(?m)^(\[\S+\] +)*(meanwhile|proxy|signal|press|start|before|silence) `)
	inClock = regexp.MustCompile(`--(every|timeout)=|\b(ready-after|run-for|stop-after)[=:]? ?"?(\d{1,2}s|\d+ms)|` +
		`\b(minReady|progressDeadline|activeDeadline|startingDeadline)Seconds\b|\bfails-as\b|\bschedule:|\bnow\b|` +
		`\bterminationGracePeriodSeconds\D+\d{1,2}\b|\b(duration|timestamp)\(`)
)

// hasClock tells whether it depends on how long something takes what becomes of a script. Then a machine that is busy
// with something else may fail it.
func hasClock(text []byte) bool {
	script := txtar.Parse(text)
	lines := remark.ReplaceAll(script.Comment, nil)
	return clocked.Match(lines) || inClock.Match(lines) ||
		slices.ContainsFunc(script.Files, func(f txtar.File) bool { return inClock.Match(f.Data) })
}

func TestAScriptHasAClockIfItsVerdictIsOneOfTime(t *testing.T) {
	t.Parallel()
	for content, has := range map[string]bool{
		"create x.yaml\nawait pod/x true\n-- x.yaml --\n{apiVersion: v1, kind: Pod}\n":                               false,
		"# for now, on a schedule: minReadySeconds\nawait 'pods.size() == 0'":                                        false,
		"create x.yaml '{spec: {containers: [{name: x, args: [\"--run-for=600s\"]}]}}'\n-- x.yaml --\n{kind: Pod}\n": false,
		"create x.yaml '{spec: {containers: [{name: x, args: [\"--run-for=2s\"]}]}}'\n-- x.yaml --\n{kind: Pod}\n":   true,
		"create x.yaml\n-- x.yaml --\n{metadata: {annotations: {lab.kcm-book.io/ready-after: 500ms}}}\n":             true,
		"create x.yaml\n-- x.yaml --\n{kind: CronJob, spec: {schedule: \"* * * * *\"}}\n":                            true,
		"start m":                          true,
		"silence node-1":                   true,
		"before true true":                 true,
		"repeat --every=1s 3 delete pod/x": true,
		"check 'pods.all(p, timestamp(p.metadata.creationTimestamp) < now)'": true,
		"patch deployment/x '{spec: {minReadySeconds: 5}}'":                  true,
	} {
		require.Equal(t, has, hasClock([]byte(content)), content)
	}
}
