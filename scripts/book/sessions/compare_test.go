package sessions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestWhatDiffersFromRunToRunCountsAsTheSame(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ shown, output string }{
		"ages":                   {"web   1/1   5s", "web   1/1   2m13s"},
		"parts of seconds":       {"took 1.5s", "took 350ms"},
		"spaces":                 {"NAME   READY", "NAME      READY  "},
		"times of the API":       {"2026-01-02T03:04:05Z", "2027-11-12T13:14:15.123456+02:00"},
		"times of HTTP":          {"Fri, 02 Jan 2026 03:04:05 GMT", "Sat, 03 Jan 2026 13:04:05 GMT"},
		"the head of a log":      {"I0102 03:04:05.000001   12 run.go:7] up", "I1112 13:14:15.999999 4567 run.go:123] up"},
		"UIDs":                   {"uid 01234567-89ab-cdef-0123-456789abcdef", "uid fedcba98-7654-3210-fedc-ba9876543210"},
		"a pod of a Deployment":  {"pod/web-7d4b9c6f5-x2x4z", "pod/web-5f6c7b8d94-bcdfg"},
		"a pod of a ReplicaSet":  {"pod/web-x2x4z deleted", "pod/web-bcdfg deleted"},
		"a name like a duration": {"pod/web-2456s deleted", "pod/web-bcdfg deleted"},
		"a ReplicaSet":           {"replicaset.apps/web-7d4b9c6f5", "replicaset.apps/web-5f6c7b8d94"},
		"a template's hash":      {`"pod-template-hash":"7d4b9c6f5"`, `"pod-template-hash":"1a2b3c"`},
		"ports":                  {"https://127.0.0.1:40001/healthz", "https://127.0.0.1:52/healthz"},
		"ports of localhost":     {"localhost:40001", "localhost:3"},
		"IPs":                    {"10.0.0.7", "10.1.2.3"},
		"versions of objects":    {`"resourceVersion":"17"`, `"resourceVersion":"4711"`},
		"processes":              {"pid=17", "pid=4711"},
		"service account tokens": {"eyJhbGciOi.eyJpc3Mi.c2ln", "eyJhbGciOj.eyJpc3Mj.dGlu"},
		"certificates": {"ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM=",
			"ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUR5ekNDQTdP"},
		"lines that are left out":   {"first\n...\nlast\n", "first\na\nb\nlast\n"},
		"none is left out":          {"first\n...\nlast\n", "first\nlast\n"},
		"the rest is left out":      {"first\n...\n", "first\na\nb\n"},
		"the beginning is left out": {"...\nlast\n", "a\nlast\nlast\n"},
		"several places":            {"...\na\n...\nb\n...\n", "x\na\nb\ny\na\nb\nz\n"},
		"all":                       {"...\n", ""},
		"nothing":                   {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.True(t, same(tt.shown, tt.output), "%q and %q", normal(tt.shown), normal(tt.output))
		})
	}
}

func TestWhatAReaderWouldSeeAsDifferentIsDifferent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ shown, output string }{
		"numbers":                {"web   1/3   5s", "web   2/3   5s"},
		"a name with a number":   {"pod/web-1", "pod/web-2"},
		"names":                  {"pod/web-bcdfg", "pod/shop-bcdfg"},
		"a name that is a word":  {"node/lab-first", "node/lab-later"},
		"a pod and a ReplicaSet": {"web-7d4b9c6f5", "web-7d4b9c6f5-x2x4z"},
		"the level of a log":     {"I0102 03:04:05.000001 1 run.go:7] up", "E0102 03:04:05.000001 1 run.go:7] up"},
		"the file of a log":      {"I0102 03:04:05.000001 1 run.go:7] up", "I0102 03:04:05.000001 1 end.go:7] up"},
		"a time and none":        {"since 2026-01-02T03:04:05Z", "since <none>"},
		"an address and none":    {"at 10.0.0.7", "at <none>"},
		"exit codes":             {"exit code 0", "exit code 1"},
		"images":                 {"web:1", "web:2"},
		"quantities":             {"64Mi", "128Mi"},
		"versions":               {"v1.36.3", "v1.36.4"},
		"long paths": {"/apis/apps/v1/namespaces/default/deployments/web",
			"/apis/apps/v1/namespaces/default/replicasets/web"},
		"long names": {"TestTheControllerThatRunsKeepsRunningUntilItIsStopped",
			"TestTheControllerThatRunsKeepsRunningUntilItIsStarted"},
		"case":                     {"Ready", "ready"},
		"no output":                {"a\n", ""},
		"output":                   {"", "a\n"},
		"a line more":              {"a\n", "a\nb\n"},
		"a line less":              {"a\nb\n", "a\n"},
		"order":                    {"a\nb\n", "b\na\n"},
		"nothing after the end":    {"...\nlast\n", "last\nmore\n"},
		"nothing before the start": {"first\n...\n", "more\nfirst\n"},
		"a part that has to come":  {"a\n...\nb\n...\nc\n", "a\nc\nb\n"},
		"one line for two":         {"a\n...\na\n", "a\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.False(t, same(tt.shown, tt.output), "%q and %q", normal(tt.shown), normal(tt.output))
		})
	}
}

// An ellipsis used to double the time for each one before it.
func TestManyEllipsesTakeNoTime(t *testing.T) {
	t.Parallel()
	shown := strings.Repeat("...\na\n", 200) + "b\n"
	assert.False(t, same(shown, strings.Repeat("a\n", 2000)))
	assert.True(t, same(shown, strings.Repeat("a\n", 2000)+"b\n"))
}

func TestMatchingIsWhatItsDefinitionSays(t *testing.T) {
	t.Parallel()
	var defined func(shown, output []string) bool
	defined = func(shown, output []string) bool {
		if len(shown) == 0 {
			return len(output) == 0
		}
		if shown[0] == ellipsis && defined(shown[1:], output) {
			return true
		}
		if len(output) == 0 {
			return false
		}
		if shown[0] == ellipsis {
			return defined(shown, output[1:])
		}
		return shown[0] == output[0] && defined(shown[1:], output[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		shown := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", ellipsis}), 0, 8).Draw(t, "shown")
		output := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ""}), 0, 10).Draw(t, "output")
		lines := func(of []string) string { return strings.Join(append(of, ""), "\n") }
		assert.Equal(t, defined(shown, output), same(lines(shown), lines(output)))
	})
}

var seeds = []string{
	"", "...", "pid=1=2", "resourceVersion: 1: 2", "pod/web-7d4b9c6f5-x2x4z   1/1   2m3s\n",
	"I0102 03:04:05.000001 12 run.go:7] \"up\" after=\"1.5s\"", "template-hash=template-hash=abc",
	"https://127.0.0.1:1:2 [::1]:3 localhost:4", "eyJ.eyJa.b -----BEGIN A----------BEGIN B-----",
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA1==", "\xff\t\x00-bcdfg",
}

// FuzzNormal looks for lines from which more goes the second time.
func FuzzNormal(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		once := normal(line)
		assert.Equal(t, once, normal(once))
	})
}

// FuzzMatch looks for output that is not the same as itself.
func FuzzMatch(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed, seed)
	}
	f.Add("a\n...\nb\n", "a\nb\n")
	f.Fuzz(func(t *testing.T, shown, output string) {
		assert.True(t, same(shown, shown))
		assert.True(t, same(shown+"\n...\n", shown+"\n"+output), "an ellipsis stands for anything")
		if !strings.Contains(shown+output, "...") {
			assert.Equal(t, same(shown, output), same(output, shown))
		}
	})
}
