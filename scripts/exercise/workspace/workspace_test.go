package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// book is one of two chapters with three exercises in which code is written.
const book = `
-- go.mod --
module github.com/kcm-book/kcm-book

go 1.26
-- go.sum --
-- chapters/01-till/README.md --
# A till

## Adding up

See [the next](../02-discount/README.md) and [the labs](../../labs/README.md).

<!-- exercise: total, 10 minutes, TestTotal -->
**Yours**

1. Begin with nothing.
2. Add each of the prices, and then say what all of them are together, in a line that is so long that it has to be broken somewhere.

<details><summary>Hint 1</summary>

Begin with nothing.

</details>
<details><summary>The code</summary>

‘‘‘go kcm/shop total exercise
‘‘‘

</details>

## The rest

‘‘‘go kcm/shop limit price
‘‘‘
-- chapters/02-discount/README.md --
# A discount

## A percentage

<!-- exercise: discount, 15 minutes, TestDiscount -->
**Yours**

1. Take something off.

<details><summary>Hint 1</summary>

A percentage is of 100.

</details>

‘‘‘go kcm/shop discount exercise
‘‘‘

## A report

<!-- exercise: report, 15 minutes, TestReport -->
**Yours**

1. Write it.

<details><summary>Hint 1</summary>

One line.

</details>

‘‘‘go kcm/shop (*price).report priceOf exercise
‘‘‘

<!-- scenario: empty, 30 minutes, discount/doubles, shop/empty.txtar -->
**Yours**

<details><summary>Hint 1</summary>

Look.

</details>
-- chapters/03-receipt/README.md --
# A receipt

See [the paper](2-paper.md).
-- chapters/03-receipt/code.md --
# The rest of the code of chapter 03

Of [the lesson](README.md).
-- chapters/03-receipt/2-paper.md --
# The paper

<!-- exercise: receipt, 10 minutes, TestReceipt -->
**Yours**

1. Print it.

<details><summary>Hint 1</summary>

A word will do.

</details>

‘‘‘go kcm/shop receipt exercise
‘‘‘
-- kcm/shop/shop.go --
package shop

import "strconv"

// limit is what a till can hold.
const limit = 100

// price is one.
type price struct{ of int }

// total returns the sum of prices, at most the limit.
func total(prices ...int) int {
	sum := 0
	for _, price := range prices {
		sum += price
	}
	return min(sum, limit)
}

// discount returns what is left of a price.
func discount(price, percent int) int { return price - price*percent/100 }

// report says what a price is.
func (p *price) report() string {
	return strconv.Itoa(p.of)
}

// priceOf returns one.
func priceOf(of int) *price {
	return &price{of}
}

// receipt is what is printed.
func receipt() string {
	return "paid"
}
-- kcm/shop/shop_test.go --
package shop

import "testing"

func TestTotal(t *testing.T)    { t.Run("it adds", func(t *testing.T) { helped(t, total(1, 2) == 3) }) }
func TestReceipt(t *testing.T)  { t.Run("paid", func(t *testing.T) { helped(t, receipt() == "paid") }) }
func TestDiscount(t *testing.T) { t.Run("half", func(t *testing.T) { helped(t, discount(2, 50) == 1) }) }
func TestReport(t *testing.T)   { t.Run("one", func(t *testing.T) { helped(t, priceOf(1).report() == "1") }) }

func helped(t *testing.T, ok bool) {
	if !ok {
		t.Error("no")
	}
}
`

// writeFiles writes an archive below a directory.
func writeFiles(t *testing.T, dir, archive string) {
	t.Helper()
	for _, file := range txtar.Parse([]byte(archive)).Files {
		text := strings.ReplaceAll(string(file.Data), "‘‘‘", "```")
		require.NoError(t, weave.WriteFile(filepath.Join(dir, file.Name), []byte(text)))
	}
}

func writeBook(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	writeFiles(t, root, book)
	return root
}

// edit replaces a text, which has to be there, in a file of a workspace.
func edit(t *testing.T, dir, name, before, after string) {
	t.Helper()
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), before)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o644))
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}

const (
	shop   = "kcm/shop/shop.go"
	mine   = "\tpanic(\"yours: total\")"
	solved = "\treturn min(add(prices), limit) // mine\n}\n\nfunc add(prices []int) (sum int) {\n\tfor i := range prices {\n\t\tsum += prices[i]\n\t}\n\treturn sum\n}\n\nfunc unused() {"
)

// solve writes a body of the first exercise, as a reader would, and says that it has passed.
func solve(t *testing.T, w *Written) {
	t.Helper()
	edit(t, w.Dir, shop, mine, solved)
	answer, err := w.Answer(w.Exercises[0])
	require.NoError(t, err)
	w.Progress.Passed["total"] = answer.Sum()
	require.NoError(t, w.Save())
}

func TestACutBodyKeepsItsSignatureAndItsComment(t *testing.T) {
	t.Parallel()
	w, err := Write(writeBook(t), "1", "", "")
	require.NoError(t, err)
	assert.Contains(t, read(t, w.Dir, shop), `
// total returns the sum of prices, at most the limit.
func total(prices ...int) int {
	panic("yours: total")
}
`)
	assert.NotContains(t, read(t, w.Dir, "README.md"), "sum += price")
	assert.NotContains(t, read(t, w.Dir, "README.md"), "The code")
	assert.Contains(t, read(t, w.Dir, "README.md"), "]("+w.Root+"/chapters/02-discount/README.md)")
	assert.NotContains(t, read(t, w.Dir, shop), "strconv", "an import that only a cut body needs")
}

func TestAWorkspaceHasAllPagesOfTheChapter(t *testing.T) {
	t.Parallel()
	w, err := Write(writeBook(t), "3", "", "")
	require.NoError(t, err)
	assert.Contains(t, read(t, w.Dir, "README.md"), "> Your workspace of chapter 03")
	assert.Contains(t, read(t, w.Dir, "README.md"), "See [the paper](2-paper.md).")
	assert.Contains(t, read(t, w.Dir, "code.md"), "Of [the lesson](README.md).")
	assert.Contains(t, read(t, w.Dir, "2-paper.md"), "**Yours**")
	assert.Equal(t, "chapters/03-receipt/2-paper.md", w.Exercises[0].Path)
}

func TestEachFunctionOfAnExerciseIsCut(t *testing.T) {
	t.Parallel()
	w, err := Write(writeBook(t), "2", "", "")
	require.NoError(t, err)
	text := read(t, w.Dir, shop)
	assert.Equal(t, 2, strings.Count(text, `panic("yours: report")`))
	assert.Contains(t, text, "sum += price", "the exercises of earlier chapters are the book's")
	assert.FileExists(t, filepath.Join(w.Dir, "scenarios/empty.txtar"))
}

func TestTheMakefileOfAWorkspaceTakesTheCommandsAsTheBookWritesThem(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "2", "", "")
	require.NoError(t, err)
	writeFiles(t, root, "-- Makefile --\n%-02:\n\t@echo $@ $(ONLY) $(DEST)\n")
	for _, command := range []string{"check", "hint", "solution", "watch", "build"} {
		for _, target := range []string{command, command + "-02"} {
			cmd := exec.Command("make", "-C", w.Dir, "--no-print-directory", target, "ONLY=report", "DEST=exercises/02")
			cmd.Env = append(os.Environ(), "MAKEFLAGS=") // make test may run this
			out, err := cmd.Output()
			require.NoError(t, err, target)
			assert.Equal(t, command+"-02 report "+w.Dir+"\n", string(out))
		}
	}
}

func TestASecondWriteKeepsWhatWasChangedAsItIs(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "1", "", "")
	require.NoError(t, err)
	assert.True(t, w.New)
	solve(t, w)
	edit(t, w.Dir, shop, "// price is one.", "// a note between two declarations\n\n// price is one.")
	before := read(t, w.Dir, shop)
	w, err = Write(root, "1", "", "")
	require.NoError(t, err)
	assert.False(t, w.New)
	assert.Equal(t, []string{shop}, w.Kept)
	assert.Equal(t, before, read(t, w.Dir, shop))
	assert.NotEmpty(t, w.Progress.Passed["total"])
}

func TestAfterTheBookHasChangedTheReadersBodiesStay(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "1", "", "")
	require.NoError(t, err)
	solve(t, w)
	edit(t, root, shop, "limit = 100", "limit = 200")
	edit(t, root, shop, "\treturn min(sum, limit)", "\treturn min(limit, sum)")
	w, err = Write(root, "1", "", "")
	require.NoError(t, err)
	assert.Contains(t, read(t, w.Dir, shop), "limit = 200")
	assert.Contains(t, read(t, w.Dir, shop), "\treturn min(add(prices), limit) // mine")
	assert.Contains(t, read(t, w.Dir, shop), "func add(")
	answer, err := w.Answer(w.Exercises[0])
	require.NoError(t, err)
	assert.Equal(t, w.Progress.Passed["total"], answer.Sum(), "what has passed still has")
}

func TestWhatBothHaveChangedIsTheReaders(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "1", "", "")
	require.NoError(t, err)
	edit(t, w.Dir, shop, mine, "\tfor {")
	edit(t, w.Dir, "README.md", "# A till", "# My till")
	edit(t, root, "chapters/01-till/README.md", "1. Begin with nothing.", "1. Begin with an empty drawer.")
	edit(t, root, shop, "limit = 100", "limit = 200")
	w, err = Write(root, "1", "", "")
	require.NoError(t, err)
	assert.Equal(t, []string{"README.md", shop}, w.Kept)
	assert.Contains(t, read(t, w.Dir, shop), "limit = 200")
	assert.Contains(t, read(t, w.Dir, shop), "\tfor {\n", "though it does not compile")
	assert.NotContains(t, read(t, w.Dir, shop), "empty drawer")
	assert.Contains(t, read(t, w.Dir, "README.md"), "# My till")
	assert.Contains(t, read(t, w.Dir, "README.md"), "1. Begin with an empty drawer.")
}

func TestWhatHasPassedIsCarriedIntoTheNextChapterWithWhatItUses(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	elsewhere := filepath.Join(t.TempDir(), "first")
	for name, first := range map[string]string{
		"from the one before it":            "",
		"from where somebody says":          elsewhere,
		"from the one beside it, elsewhere": filepath.Join(t.TempDir(), "01"),
	} {
		w, err := Write(root, "1", first, "")
		require.NoError(t, err, name)
		solve(t, w)
		from := ""
		if first == elsewhere {
			from = elsewhere
		}
		w, err = Write(root, "2", filepath.Join(filepath.Dir(w.Dir), "02"), from)
		require.NoError(t, err, name)
		assert.Equal(t, []string{"total"}, w.Carried, name)
		text := read(t, w.Dir, shop)
		assert.Contains(t, text, "// mine", name)
		assert.Contains(t, text, "func add(", name)
		assert.NotContains(t, text, "func unused(", name)
	}
}

func TestWhatIsCarriedIsCarriedOn(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "1", "", "")
	require.NoError(t, err)
	solve(t, w)
	for _, number := range []string{"2", "3"} {
		w, err = Write(root, number, "", "")
		require.NoError(t, err)
		assert.Equal(t, []string{"total"}, w.Carried)
		assert.Contains(t, read(t, w.Dir, shop), "// mine")
		assert.Contains(t, read(t, w.Dir, shop), "func add(")
	}
}

func TestWhatHasNotPassedAsItIsIsNotCarried(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "1", "", "")
	require.NoError(t, err)
	solve(t, w)
	edit(t, w.Dir, shop, "// mine", "// changed since")
	w, err = Write(root, "2", "", "")
	require.NoError(t, err)
	assert.Empty(t, w.Carried)
	assert.Equal(t, []string{"total"}, w.Left)
	assert.Contains(t, read(t, w.Dir, shop), "sum += price")
}

func TestMistakesAreSaidAndNothingIsLost(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	full := t.TempDir()
	writeFiles(t, full, "-- diary.txt --\nmine\n")
	first, err := Write(root, "1", filepath.Join(t.TempDir(), "first"), "")
	require.NoError(t, err)
	for _, c := range []struct {
		number, dir, from, says string
	}{
		{"99", "", "", "99"},
		{"x", "", "", "x"},
		{"1", full, "", full + " is not empty and no workspace: choose another with DEST="},
		{"2", first.Dir, "", first.Dir + " is the workspace of chapter 01: choose another with DEST="},
		{"2", "", filepath.Join(full, "nowhere"), "is no workspace"},
		{"1", filepath.Join(full, "diary.txt"), "", "diary.txt"},
	} {
		_, err := Write(root, c.number, c.dir, c.from)
		require.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), "\n")
	}
	assert.Equal(t, "mine\n", read(t, full, "diary.txt"))
	_, err = first.Choose("nosuch")
	require.EqualError(t, err, "chapter 01 has no exercise nosuch: it has total")
}
