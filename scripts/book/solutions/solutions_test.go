package solutions

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const path = "labs/07-shop/wrong/bounds.txtar"

// readText reads solutions from a text.
func readText(t *testing.T, text string) (*Solutions, error) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	return Read(root, "07-shop", "bounds")
}

const begin = "-- wrong.diff --\n# It is one of a kind.\n# caught by: one is left\n"

func TestAFileHasWrongSolutionsAndRightOnes(t *testing.T) {
	t.Parallel()
	s, err := readText(t,
		"For who edits this.\n"+begin+"-\ta\n+\tb\n@@\n \tc\n+\td\n-- another-way.go --\nfunc bounds() {}\n")
	require.NoError(t, err)
	assert.Equal(t, []Right{{"another-way", "func bounds() {}\n"}}, s.Right)
	wrong, err := s.Find("wrong")
	require.NoError(t, err)
	assert.Equal(t, "It is one of a kind.", wrong.Misconception)
	assert.Equal(t, "one is left", wrong.CaughtBy)
	assert.Equal(t, "-\ta\n+\tb\n@@\n \tc\n+\td\n", wrong.Diff)
	_, err = s.Find("nosuch")
	require.EqualError(t, err, path+" has no nosuch.diff: there is wrong")
}

func TestAnExerciseWithoutAFileHasNoSolutions(t *testing.T) {
	t.Parallel()
	s, err := Read(t.TempDir(), "07-shop", "bounds")
	require.NoError(t, err)
	assert.Equal(t, &Solutions{Path: path}, s)
}

func TestWhatIsNoSolutionIsSaidWithItsPlace(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"-- wrong.txt --\n":                            path + ": wrong.txt is neither a wrong solution, NAME.diff, nor a right one, NAME.go",
		"-- wrong.diff --\n# A thought.\n-a\n+b\n":     path + ", wrong.diff: begin with two lines: # what somebody thinks who writes this, and # caught by: the behaviour that it does not show",
		"-- wrong.diff --\n# caught by: one\n-a\n+b\n": path + ", wrong.diff: begin with two lines: # what somebody thinks who writes this, and # caught by: the behaviour that it does not show",
		begin + "a\n": path + `, wrong.diff: "a" begins neither with a space nor with - or +`,
	} {
		_, err := readText(t, text)
		require.EqualError(t, err, says)
	}
}

func TestADiffTakesThePlaceOfExactlyItsLines(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"one": "func one() {\n\ta()\n\tb()\n\tb()\n}\n", "two": "func two() {\n\ta()\n\tc()\n}\n"}
	for name, c := range map[string]struct {
		diff, function, after string
	}{
		"a line":                         {"-\tc()\n+\td()\n", "two", "func two() {\n\ta()\n\td()\n}\n"},
		"a line that is told by another": {" \ta()\n-\tb()\n", "one", "func one() {\n\ta()\n\tb()\n}\n"},
		"lines behind one":               {" \tc()\n+\td()\n", "two", "func two() {\n\ta()\n\tc()\n\td()\n}\n"},
		"two places": {" \ta()\n-\tb()\n+\tx()\n@@\n \tb()\n }\n+// end\n", "one",
			"func one() {\n\ta()\n\tx()\n\tb()\n}\n// end\n"},
		"a line is no part of a line": {"-func two() {\n+func two() { // second\n", "two",
			"func two() { // second\n\ta()\n\tc()\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := readText(t, begin+c.diff)
			require.NoError(t, err)
			applied, err := s.Wrong[0].Apply(texts)
			require.NoError(t, err)
			assert.Equal(t, c.after, applied[c.function])
			for other, text := range texts {
				if other != c.function {
					assert.Equal(t, text, applied[other])
				}
			}
		})
	}
}

func TestADiffThatStandsInNoPlaceOrInTwoIsRejected(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"one": "func one() {\n\ta()\n\tb()\n\tb()\n}\n", "two": "func two() {\n\ta()\n}\n"}
	const places = " places of the book's solution and have to stand in one:\n"
	for diff, says := range map[string]string{
		"-\tc()\n+\td()\n": ", wrong.diff: these lines stand in 0" + places + "\tc()\n",
		"-c()\n+\td()\n":   ", wrong.diff: these lines stand in 0" + places + "c()\n",
		"-\tb()\n+\td()\n": ", wrong.diff: these lines stand in 2" + places + "\tb()\n",
		"-\ta()\n+\td()\n": ", wrong.diff: these lines stand in 2" + places + "\ta()\n",
		" \ta()\n \tb()\n": ", wrong.diff changes nothing",
		"-\ta()\n+\ta()\n": ", wrong.diff changes nothing",
	} {
		s, err := readText(t, begin+diff)
		require.NoError(t, err)
		_, err = s.Wrong[0].Apply(texts)
		require.EqualError(t, err, path+says)
	}
}
