package play

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// write writes a script and returns its path.
func write(t testing.TB, content string) string {
	path := filepath.Join(t.TempDir(), "script.txtar")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestAMistakeIsToldWithItsLineAndColumn(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, line string
		column     int
		says       string
	}{
		{"unknown verb", "creat x.yaml", 1, "there is no verb creat"},
		{"unknown verb after a condition", "[kcm] creat x.yaml", 7, "there is no verb creat"},
		{"unknown condition", "[kcm] [moon] check true", 7, "unknown condition moon; there are accounts"},
		{"unknown place", "only moon why not", 6, "unknown condition moon"},
		{"condition without a verb", "[kcm]", 1, "there is no verb in this line"},
		{"negation without a verb", "!", 1, "there is no verb in this line"},
		{"too few arguments", "  check", 3, "check takes [OBJECT] EXPR"},
		{"too many arguments", "check pod/x true true", 1, "check takes [OBJECT] EXPR"},
		{"too few words of a step", "step", 1, "step takes WORD"},
		{"an object that is none", "check pot/x true", 1, "check takes [OBJECT] EXPR"},
		{"an object of no kind", "delete pot/x", 8, `"pot/x" is not an object`},
		{"an expression", "check 1+", 9, "expression 1+: Syntax error"},
		{"an expression in quotes", "check 'pods.all(p, reday(p))'", 25, "undeclared reference to 'reday'"},
		{"an expression with quotes in it", "check '''ä'' + ''b'' == reday(self)'", 30, "undeclared reference to 'reday'"},
		{"an expression of several quotes", "check 'true'' && '' && 'reday(self)", 13, "Syntax error"},
		{"an expression after other characters", "say … ; check", 0, ""},
		{"an expression within an object", "check 'pod[reday(self)]' true", 17, "undeclared reference to 'reday'"},
		{"the second expression", "before true reday(self)", 18, "undeclared reference to 'reday'"},
		{"no expression", "check ''", 7, "expression"},
		{"a regular expression", "log m (", 7, "missing closing )"},
		{"an overlay", "patch pod/x '{a: b'", 14, "overlay {a: b"},
		{"a number", "event pod/x c Normal R . many", 26, `"many" is not a number of at least 1`},
		{"a number that is too small", "repeat 0 delete pod/x", 8, `"0" is not a number of at least 1`},
		{"a code", "exits m soon", 9, `"soon" is not a code`},
		{"an interval", "repeat --every=soon 3 delete pod/x", 8, "--every=soon: write --every=DURATION"},
		{"a cascade", "delete --cascade= pod/x", 8, "--cascade=: write --cascade=orphan"},
		{"a file", "create none.yaml", 8, "there is no file none.yaml after the script's last line, nor in "},
		{"a signal", "signal m HUP", 10, "unknown signal HUP; there are TERM"},
		{"a quote that is open", "say it's so", 7, "this quote is not closed"},
		{"a verb that cannot be negated", "! check true", 3, "check cannot be negated"},
		{"what cannot be repeated", "repeat 3 check true", 10, "repeat cannot be followed by check"},
		{"repetition of repetition", "repeat 3 repeat 3 delete pod/x", 10, "repeat cannot be followed by repeat"},
		{"what cannot be done meanwhile", "meanwhile kubectl get pods", 11, "meanwhile cannot be followed by kubectl"},
		{"a mistake in what is repeated meanwhile", "meanwhile repeat 3 delete pot/x", 27, `"pot/x" is not an object`},
		{"testscript's exec", "exec ls", 1, "there is no verb exec"},
		{"testscript's stop", "stop m", 1, "there is no verb stop"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "# first\n"+c.line+"\ncheck true\n")
			_, err := ReadScript(path, t.TempDir())
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			var mistake *Mistake
			require.ErrorAs(t, err, &mistake)
			require.Equal(t, []any{path, 2, c.column}, []any{mistake.Path, mistake.Line, mistake.Column}, mistake.Error())
			require.Contains(t, mistake.Error(), c.says)
		})
	}
}

func TestAllMistakesAreTold(t *testing.T) {
	t.Parallel()
	_, err := ReadScript(write(t, "creat x.yaml\ncheck true\nstop\n\nlog m (\n"))
	for _, place := range []string{":1:1: ", ":3:1: ", ":5:7: "} {
		require.ErrorContains(t, err, place)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 3)
}

func TestAScriptWithoutAVerbIsAMistake(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "# nothing\n\n", "-- a.yaml --\ncheck true\n"} {
		_, err := ReadScript(write(t, content))
		require.ErrorContains(t, err, "has no line with a verb")
	}
}

func TestWhatOnlyRunningMakesKnownIsNoMistake(t *testing.T) {
	t.Parallel()
	_, err := ReadScript(write(t,
		"create $file\ncheck $KIND/x $expression\npatch $object $overlay\nsignal m $SIGNAL\nrepeat $n delete pod/x\n"))
	require.NoError(t, err)
	_, err = ReadScript(write(t, "check '$x'\n"))
	require.Error(t, err, "within quotes nothing is replaced")
}

func TestFilesAreThoseAfterTheScriptAndThoseBesideIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "beside.yaml"), nil, 0o600))
	_, err := ReadScript(write(t, "create beside.yaml\ncreate own.yaml\n-- own.yaml --\n"), t.TempDir(), dir)
	require.NoError(t, err)
}

// words are those that testscript cuts a line into, or false if it refuses to.
func words(t testing.TB, line string) ([]string, bool) {
	var words []string
	h := &house{}
	testscript.RunT(h, testscript.Params{
		Files: []string{write(t, "record "+line+"\n")},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"record": func(_ *testscript.TestScript, _ bool, args []string) { words = args },
		},
	})
	return words, !h.failed
}

func TestALineIsCutIntoWordsAsTestscriptDoes(t *testing.T) {
	t.Parallel()
	character := rapid.SampledFrom([]rune("ab '''\t\r#[]!{}ä…\\\""))
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(character).Draw(r, "line")
		wanted, ok := words(t, text)
		cut, err := split("record " + text)
		require.Equal(r, ok, err == nil, "%q: %v", text, err)
		if ok {
			got := []string{}
			for _, w := range cut[1:] {
				got = append(got, w.text)
			}
			require.Equal(r, wanted, got, "%q", text)
		}
	})
}

func TestTheColumnsOfAWordAreThoseOfItsCharacters(t *testing.T) {
	t.Parallel()
	character := rapid.SampledFrom([]rune("ab '''#ä"))
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(character).Draw(r, "line")
		cut, _ := split(text)
		for _, w := range cut {
			for i, c := range []rune(w.text) {
				require.Equal(r, string(c), string([]rune(text)[w.column(i)-1]))
			}
		}
	})
}

func TestALineThatIsSpelledIsThatLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		args := rapid.SliceOf(rapid.StringOf(rapid.SampledFrom([]rune("ab '\t#$[]!\"ä")))).Draw(r, "arguments")
		not := rapid.Bool().Draw(r, "not")
		l, err := parseLine(spell("log", not, args))
		require.NoError(r, err)
		require.Equal(r, "log", l.verb.text)
		require.Equal(r, not, l.not)
		require.Len(r, l.args, len(args))
		for i, w := range l.args {
			require.Equal(r, args[i], w.text)
			require.False(r, w.variable)
		}
	})
}

func TestNoVerbHasTheNameOfACommandOfTestscript(t *testing.T) {
	t.Parallel()
	for _, v := range verbs {
		played := false
		h := &house{}
		testscript.RunT(h, testscript.Params{
			Files: []string{write(t, v.name+"\n")},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				v.name: func(*testscript.TestScript, bool, []string) { played = true },
			},
		})
		require.True(t, played, "testscript itself has a command %s", v.name)
	}
}

func TestOnlyLeavesOutTheRestOfItsStep(t *testing.T) {
	t.Parallel()
	content := `step one
check true
only kind of this setting
check false

! log m .
step two
check true
only embedded of this setting
check true
[kcm] only reference of this setting
check false
step three
check true
-- a.yaml --
a: b
`
	s, err := ReadScript(write(t, content))
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two", "three"}, s.Steps)
	left := strings.Replace(content, "of this setting\ncheck false\n\n! log m .\n", "of this setting\n\n\n\n", 1)
	left = strings.Replace(left, "check false", "", 1)
	require.Equal(t, left, string(s.without(&Setting{})))
}

func TestAScriptThatOnlyRunsTheManagerNeedsNoCluster(t *testing.T) {
	t.Parallel()
	for content, needs := range map[string]bool{
		"step one\n[kcm] kcm --help\nstdout x\nlet x stdout\ncheck 'true'\n": false,
		"kcm --help\nstart m\n":    true,
		"await 'pods.size() == 0'": true,
	} {
		s, err := ReadScript(write(t, content))
		require.NoError(t, err)
		require.Equal(t, needs, s.NeedsCluster(), content)
	}
}

func TestEveryVerbIsDescribed(t *testing.T) {
	t.Parallel()
	told := Verbs()
	for _, v := range verbs {
		require.Contains(t, told, "  "+v.name)
		require.NotEmpty(t, v.means)
		for _, p := range v.parameters() {
			require.NotEmpty(t, p.kind, v.name)
		}
	}
	require.Contains(t, told, "stdout, stderr")
}
