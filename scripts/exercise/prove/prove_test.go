package prove

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// writeBook writes a book to a directory. It has an exercise that is sound, one with weak
// tests and a rotten file of solutions, and one that the book's own solution fails.
func writeBook(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	code, err := txtar.ParseFile("testdata/code.txtar")
	require.NoError(t, err)
	files, err := txtar.FS(code)
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.CopyFS(root, os.DirFS("testdata/book")), os.CopyFS(root, files)))
	return root
}

func TestWhatIsWrongWithAnExerciseIsSaidInALineEach(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := Run(t.Context(), writeBook(t), []string{"01"}, &out)
	require.Error(t, err)

	rows := strings.Split(regexp.MustCompile(` +\d+\.\d s`).ReplaceAllString(out.String(), ""), "\n")
	assert.ElementsMatch(t, []string{
		"✓ 01 till                  10 minutes    8 behaviours    5 of 5 wrong ones rejected",
		"✗ 01 discount              15 minutes    2 behaviours    0 of 3 wrong ones rejected",
		"✗ 01 stock                 20 minutes    0 behaviours    0 of 0 wrong ones rejected", "",
	}, rows)
	assert.Equal(t, strings.Split(`another-way.go fails: "half of it"
stray.go is no solution: it declares none of the exercise's functions
TestNothing passes before anything is written
FILE has 3 wrong solutions: 5 likely misconceptions are the least
ignored.diff is not rejected by "half of it"
unknown.diff is said to be caught by "a half", which no test is called
elsewhere.diff does not fit: FILE, elsewhere.diff: these lines stand in 0 places of the book's solution and have to stand in one: / 	return price + percent
chapters/01-shop/README.md:37: stock: the book's solution fails: "one too many"`, "\n"), strings.Split(strings.NewReplacer(
		"chapters/01-shop/README.md:21: discount: ", "",
		"labs/01-shop/wrong/discount.txtar", "FILE").Replace(err.Error()), "\n"))
}

func TestAnInterruptLeavesNothingBehind(t *testing.T) {
	root, temporary := writeBook(t), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Run(ctx, root, nil, new(bytes.Buffer)), context.Canceled)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestOfAWholePackageARightSolutionIsAnotherPackage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := Run(t.Context(), writeBook(t), []string{"02"}, &out)
	require.Error(t, err)
	assert.Equal(t, []string{
		`heavier.go fails: "it holds all"`,
		"half.go does not compile: bag/half.go:1: undefined: Bag",
		"labs/02-bag/wrong/bag.txtar has 2 wrong solutions: 5 likely misconceptions are the least",
	}, strings.Split(strings.ReplaceAll(err.Error(), "chapters/02-bag/README.md:5: bag: ", ""), "\n"))
	assert.Contains(t, out.String(), "10 minutes    1 behaviours    2 of 2 wrong")
}

func TestASolutionThatDoesNotCompileIsNamed(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	broken := "-- broken.diff --\n# A bag is a number.\n# caught by: it holds all\n-\treturn b.sum()\n+\treturn b\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "labs/02-bag/wrong/bag.txtar"), []byte(broken), 0o644))
	err := Run(t.Context(), root, []string{"02"}, new(bytes.Buffer))
	require.ErrorContains(t, err, "kcm/bag does not compile: bag/broken.diff:3: cannot use b")
}
