package prove

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

func TestMutantsOf(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string][]string{
		"if a < b {":                             {"if a <= b {", "if a > b {"},
		"if a == b {":                            {"if a != b {"},
		"if ready {":                             {"if !ready {"},
		"if !ready {":                            {"if ready {"},
		"if ready && !gone() {":                  {"if !(ready && !gone()) {", "if ready || !gone() {", "if !ready && !gone() {", "if ready && gone() {"},
		"for next() {":                           {"for !next() {"},
		"switch { case ready, a > 0:":            {"switch { case !ready, a > 0:", "switch { case ready, a >= 0:", "switch { case ready, a < 0:", "switch { case ready, a > 1:", "switch { case ready, a > -1:"},
		"switch a { case b:":                     nil,
		"c := a + b":                             {"c := a - b"},
		"c := 0x10 + true":                       {"c := 0x10 - true", "c := 0x10 + false"},
		"a++":                                    {"", "a--"},
		"a += b":                                 {"", "a -= b"},
		"a = f(b, c, c)":                         {"", "a = f(c, b, c)"},
		"go f()":                                 {""},
		"defer f()":                              {""},
		"results <- a":                           {""},
		"break":                                  {""},
		"a, b := c, d":                           nil,
		"a := make([]int, 0, 7)":                 {"a := make([]int, 1, 7)", "a := make([]int, -1, 7)"},
		"a := append(b, c...)":                   nil,
		"a := T{Name: b, Age: c}":                {"a := T{ Age: c}", "a := T{Name: b, }"},
		`logger.Info("Starting", "n", 1)`:        nil,
		"klog.FromContext(ctx).Error(nil, a, b)": nil,
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			mutants, err := mutantsOf(weave.Function{Text: wrapped(statement)})
			require.NoError(t, err)
			var seen []string
			for _, m := range mutants {
				assert.Equal(t, statement, m.before)
				assert.Equal(t, wrapped(m.after), m.text)
				seen = append(seen, m.after)
			}
			assert.Equal(t, want, seen)
		})
	}
}

// wrapped returns a function that has a statement in it, or the beginning of one.
func wrapped(statement string) string {
	end := map[byte]string{'{': "\t}\n", ':': "\t}\n"}[(statement + " ")[max(len(statement)-1, 0)]]
	return "func f() {\n\t" + statement + "\n" + end + "}\n"
}

func TestABodyOfSeveralLinesHasMutantsOfThem(t *testing.T) {
	t.Parallel()
	mutants, err := mutantsOf(weave.Function{Text: `// f is cautious.
func f() error {
	if ready &&
		steady {
		return errLate
	}
	wait(func() {
		go on()
	})
	return nil
}
`})
	require.NoError(t, err)
	var seen []string
	for _, m := range mutants {
		seen = append(seen, m.survives())
	}
	assert.Equal(t, []string{
		"wait(func() { => : ",
		"if ready && => if !(ready &&: ",
		"if ready && => if ready ||: ",
		"if ready && => if !ready &&: ",
		"steady { => !steady {: ",
		"return errLate => : ",
		"go on() => : ",
	}, seen)
}
