package playtest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/play/playtest"
)

// setting is that of all tests. What is waited for in vain here is waited for
// briefly, but a busy machine takes its time to start a manager.
var setting = &play.Setting{Patience: 15 * time.Second}

func TestMain(m *testing.M) { playtest.Main(m, setting) }

// files are those that the scripts of this package may use.
const files = `
-- one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {x: "1"}}
-- unknown.yaml --
{apiVersion: example.com/v1, kind: Unknown, metadata: {name: one}}
-- nothing.yaml --
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: nothing}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: "web:1"}]}}}}
`

func script(t *testing.T, lines ...string) *play.Script {
	path := filepath.Join(t.TempDir(), "script.txtar")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"+files), 0o600))
	script, err := play.ReadScript(path)
	require.NoError(t, err)
	return script
}

// perform plays a script, and returns its path and what a reader is told.
func perform(ctx context.Context, t *testing.T, lines ...string) (path, told string, err error) {
	s := script(t, lines...)
	var b strings.Builder
	own := *setting
	if !slices.Contains(lines, "start m") {
		own.Patience = 5 * time.Second
	}
	own.Narrator = play.NewTeller(&b, false)
	_, err = own.Perform(ctx, s)
	return s.Path, b.String(), err
}

func TestAScriptFailsAtTheLineThatIsWrongAndSaysWhatItSaw(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	create, change := "create one.yaml", `patch configmap/one '{data: {x: "2"}}'`
	cases := []struct {
		name  string
		lines []string // the last one fails
		says  []string
	}{
		{"log", []string{"start m", "log m 'this is not said'"},
			[]string{`waited 15s until m logs "this is not said"`, "its last line is", "its log ends:"}},
		{"log that has it", []string{"start m", "log m .", "! log m ."}, []string{"m has logged: "}},
		{"log of nobody", []string{"log m ."}, []string{"no manager m was started"}},
		{"get", []string{"start m", "get m admin /healthz", "get m anonymous /metrics"},
			[]string{"m answers /metrics to anonymous with 200", "403 Forbidden"}},
		{"get of other content", []string{"start m", "get m admin /healthz 200 ^no$"}, []string{"200 OK: ok"}},
		{"get as nobody that is known", []string{"start m", "get m root /healthz"}, []string{"unknown user root: use admin"}},
		{"exits with another code", []string{"start m --no-such-flag", "exits m 0"},
			[]string{"m has ended with exit code 1", "unknown flag: --no-such-flag"}},
		{"exits of one that goes on", []string{"start m", "exits m 0"}, []string{"waited 15s until m has ended"}},
		{"program that does not build", []string{"program m nowhere"}, []string{"build nowhere: exit status 1"}},
		{"start twice", []string{"start m", "start m"}, []string{"m was started already"}},

		{"await", []string{create, `await configmap/one 'self.data.x == "2"'`},
			[]string{`waited 5s until configmap/one: self.data.x == "2"`, "it is not so", "ConfigMap/one"}},
		{"await of an object that is not there", []string{"await pod/none true"}, []string{"there is no pod/none"}},
		{"await of an expression of which nothing is there", []string{`await 'pods[0].metadata.name == "x"'`},
			[]string{"index out of bounds: 0"}},
		{"await of what is no truth", []string{"await pods.size()"}, []string{"pods.size() is 0 and not true or false"}},
		{"check", []string{create, "check 'configmaps.size() == 7'"},
			[]string{"configmaps.size() == 7 is not true", "ConfigMap/one"}},
		{"check of an object", []string{create, `check configmap/one 'self.data.x == "2"'`},
			[]string{`configmap/one: self.data.x == "2" is not true`}},
		{"check of an object that is not there", []string{"check 'configmap[self.data.?y == optional.of(\"1\")]' true"},
			[]string{"there is no configmap["}},
		{"settle of an object that no loop tells about", []string{create, "settle configmap/one"},
			[]string{"settle does not know configmaps: it touches daemonsets, deployments"}},
		{"settle of an object that is not there", []string{"settle deployment/none"}, []string{"not found"}},
		{"event", []string{create, "event configmap/one nobody Normal Nothing .*"},
			[]string{"configmap/one has 1 events", "it is not so"}},
		{"always", []string{create, change, `always configmap/one 'self.data.x == "1"'`},
			[]string{`configmap/one: self.data.x == "1" was false`, "after MODIFIED of configmaps one"}},
		{"always of everything", []string{create, "always 'configmaps.size() <= 1'"},
			[]string{"configmaps.size() <= 1 was false", "after ADDED of configmaps"}},
		{"always with oldSelf", []string{create, change, "always configmap/one 'self.data.x <= oldSelf.data.x'"},
			[]string{"self.data.x <= oldSelf.data.x was false"}},
		{"always of an object that never was", []string{"always pod/none true"},
			[]string{"there was nothing of which to ask whether pod/none: true"}},
		{"never", []string{create, change, `never configmap/one 'self.data.x == "2"'`},
			[]string{`configmap/one: self.data.x == "2" was true`}},
		{"sequence", []string{create, change, "sequence configmap/one self.data.x 1 3"}, []string{`["1" "2"]`, `["1" "3"]`}},
		{"before, the other way round", []string{create, change,
			`before 'configmaps.exists(c, c.data.?x.orValue("") == "2")' 'configmaps.exists(c, c.data.?x.orValue("") == "1")'`},
			[]string{`== "1") came before`}},
		{"before, of what has not come", []string{create, "before 'configmaps.size() > 1' 'configmaps.size() > 7'"},
			[]string{"not both have come to be true: configmaps.size() > 1: true; configmaps.size() > 7: false"}},
		{"timeline of nothing", []string{"timeline pod/none self.metadata.name"},
			[]string{"pod/none: self.metadata.name has had no value"}},
		{"draw of nothing", []string{"create nothing.yaml", "draw"}, []string{"no ReplicaSet was to have pods"}},
		{"show", []string{"show pod/none self"}, []string{"there is no pod/none"}},
		{"let", []string{"let x vars.y"}, []string{"no such key: y"}},

		{"create of what is there", []string{create, create}, []string{`configmaps "one" already exists`}},
		{"create of an unknown kind", []string{"create unknown.yaml"},
			[]string{`unknown.yaml: scripts know no kind "Unknown"`}},
		{"create with an overlay that does not fit", []string{"create one.yaml '{data: [1]}'"},
			[]string{"cannot unmarshal array"}},
		{"patch of what is not there", []string{"patch configmap/none '{data: {x: x}}'"},
			[]string{`configmaps "none" not found`}},
		{"delete of what is not there", []string{"delete configmap/none"}, []string{`configmaps "none" not found`}},
		{"delete of one that does not come", []string{"delete 'pod[true]'"}, []string{"waited 5s until there is pod[true]"}},
		{"repeat", []string{create, "repeat 3 delete configmap/one"}, []string{"time 2 of 3", "not found"}},
		{"repeat with a variable that is no number", []string{"env TIMES=-1", "repeat $TIMES delete configmap/one"},
			[]string{`"-1" is not a number of at least 1`}},
		{"kubectl", []string{"kubectl get configmap none"}, []string{`"none" not found`}},
		{"kubectl that succeeds", []string{create, "! kubectl get configmap one"}, []string{"kubectl has succeeded"}},
		{"kubectl that does not end", []string{create, "! kubectl get configmaps --watch"},
			[]string{"kubectl: it has not ended by itself in 5s"}},
		{"stdout", []string{create, "kubectl get configmap one -o name", "stdout two"},
			[]string{"no match for `two` found in stdout"}},
		{"retry", []string{"retry get configmap none"},
			[]string{"waited 5s until kubectl get configmap none succeeds", `"none" not found`}},
		{"retry until it fails", []string{create, "! retry get configmap one"},
			[]string{"waited 5s until kubectl get configmap one fails"}},

		{"signal", []string{"signal m TERM"}, []string{"no manager m was started"}},
		{"signal that a component does not take", []string{"signal etcd TERM"},
			[]string{"etcd takes KILL, STOP or CONT, not TERM"}},
		{"kcm", []string{"kcm --no-such-flag"}, []string{"it has ended with exit code 1, and not with 0"}},
		{"kcm that succeeds", []string{"! kcm --version"}, []string{"it has ended with exit code 0, and not with 1"}},
		{"bearer", []string{`bearer '"nonsense"' somebody`},
			[]string{`waited 5s until the bearer of "nonsense" is "somebody"; last seen: it is ""`}},
		{"proxy", []string{"proxy p fast"}, []string{"unknown disturbance fast"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path, told, err := perform(t.Context(), t, append(c.lines, "say it goes on")...)
			require.ErrorIs(t, err, play.ErrFailed)
			require.Contains(t, told, fmt.Sprintf("%s:%d: ", path, len(c.lines)))
			require.NotContains(t, told, "it goes on")
			for _, part := range c.says {
				require.Contains(t, told, part)
			}
		})
	}
}

func TestWhatFailsMeanwhileFailsTheScriptAtTheEndOfTheStep(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	_, told, err := perform(t.Context(), t, "meanwhile delete configmap/none", "say it goes on")
	require.ErrorIs(t, err, play.ErrFailed)
	require.Contains(t, told, "it goes on")
	require.Contains(t, told, `meanwhile delete configmap/none: configmaps "none" not found`)

	path, told, err := perform(t.Context(), t, "step one", "meanwhile delete configmap/none", "say it goes on", "step two")
	require.ErrorIs(t, err, play.ErrFailed)
	require.Contains(t, told, "it goes on")
	require.Contains(t, told, path+":4: meanwhile delete configmap/none: ")
	require.NotContains(t, told, "2. two")
}

func TestWhatIsDoneMeanwhileStaysWhereTheScriptLookedWhenItBegan(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	_, told, err := perform(t.Context(), t, "step one", "create one.yaml", "let n '{\"x\": \"y\"}'",
		"start m", "get m account /healthz",
		`meanwhile repeat --every=20ms 10 patch 'configmap[vars.n.x == "y" && self.metadata.name == "one"]' '{data: {x: "{n}"}}'`,
		"meanwhile repeat 3 get m account /healthz", "let n 1", "get m account /healthz", "look default",
		"check 'configmaps.size() < 2'", "look $NS",
		"step two", `check configmap/one 'self.data.x == "10"'`)
	require.NoError(t, err, told)
}

func TestAnInterruptedScriptEndsAtOnceWithAllThatItHasStarted(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(t.Context(), cancel)
	time.AfterFunc(2*time.Second, cancel)
	_, told, err := perform(ctx, t, "start m", "log m .", "proxy p slow 1s",
		"meanwhile repeat --every=1h 2 create one.yaml", "retry get configmap none")
	require.EqualError(t, err, "interrupted")
	require.NotContains(t, told, "✗")
}

// closing ends the play when everything stays up.
type closing struct {
	play.Narrator
	end context.CancelFunc
}

func (c closing) Title(text string) {
	if strings.Contains(text, "stays up") {
		c.end()
	}
}

func TestAScriptThatHasPassedAndIsKeptUpHasPassedWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	for line, wanted := range map[string]string{"check true": "", "check false": "interrupted"} {
		ctx, cancel := context.WithCancel(t.Context())
		own := *setting
		own.Keep, own.Narrator = true, closing{play.NewTeller(io.Discard, false), cancel}
		_, err := own.Perform(ctx, script(t, "start m", line))
		if wanted == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, wanted)
		}
	}
}

func TestAScriptThatIsNotForTheSettingSaysWhy(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	for _, line := range []string{"skip 'not today'", "[!kind] skip 'not today'", "only kind not today"} {
		why, err := setting.Perform(t.Context(), script(t, line, "check false"))
		require.NoError(t, err)
		require.Contains(t, why, "not today")
	}
}

func TestAScriptLeavesNothingInItsNamespaceWhereverItLooksInTheEnd(t *testing.T) {
	t.Parallel()
	playtest.Ready(t)
	_, told, err := perform(t.Context(), t, "create nothing.yaml", "await replicaset/nothing true",
		"say $NS", "look default")
	require.NoError(t, err, told)
	namespace := strings.TrimSpace(strings.Split(told, "\n")[2])
	client, err := kubernetes.NewForConfig(setting.Cluster.RESTConfig(cluster.Admin))
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	require.NoError(t, err)
	left, err := client.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items)
}
