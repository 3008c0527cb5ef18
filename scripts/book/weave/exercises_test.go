package weave

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// writeShop writes a book with an exercise and a wrong solution of it.
func writeShop(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	writeTree(t, root, map[string]string{
		"go.mod": "module example.com/book\n\ngo 1.26\n",
		"kcm/shop/shop.go": "package shop\n\n// bounds returns how many more or fewer than some there may be.\n" +
			"func bounds(some int) (int, int) {\n\tmore := some / 4\n\treturn more, some / 5\n}\n\ntype till struct{}\n",
		"kcm/shop/shop_test.go":           "package shop\n\nimport \"testing\"\n\nfunc TestBounds(t *testing.T) { helped(t, 5) }\n",
		"kcm/shop/helped_test.go":         "package shop\n\nimport \"testing\"\n\nfunc helped(*testing.T, int) {}\n",
		"kcm/shop/cluster_test.go":        "package shop\n\nimport \"testing\"\n\nfunc TestElsewhere(*testing.T) {}\n",
		"labs/01-shop/wrong/bounds.txtar": "-- a-quarter.diff --\n# What holds for more holds for fewer.\n# caught by: fewer are a fifth\n \tmore := some / 4\n-\treturn more, some / 5\n+\treturn more, some / 4\n",
		"chapters/01-shop/README.md": strings.ReplaceAll("# Shop\n\n## Bounds\n\n<!-- exercise: bounds, 10 minutes, TestBounds -->\n**Yours**\n\n1. Divide.\n\n"+
			"<details><summary>Hint 1</summary>\n\nBy five.\n\n</details>\n\n‘‘‘go kcm/shop bounds exercise\n‘‘‘\n\n‘‘‘diff bounds/a-quarter\n‘‘‘\n", "‘‘‘", "```"),
	})
	return root
}

func openShop(t *testing.T, root string) (*Book, error) {
	t.Helper()
	source, err := loadSource(root)
	require.NoError(t, err)
	return fillBook(source)
}

func TestABlockShowsAWrongSolutionWithWhatCatchesIt(t *testing.T) {
	t.Parallel()
	const fold = "<details><summary>What was believed, and what catches it</summary>\n\n“What holds for more holds for fewer.” Caught by “fewer are a fifth”.\n\n</details>\n"
	root := writeShop(t)
	w, err := openShop(t, root)
	require.NoError(t, err)
	text := sourceOf(w.Chapters[0])
	assert.Contains(t, text, "```diff bounds/a-quarter\n \tmore := some / 4\n-\treturn more, some / 5\n+\treturn more, some / 4\n```\n\n"+fold)

	replace(t, root, "chapters/01-shop/README.md", fold, "<details><summary>What was believed, and what catches it</summary>\n\nWhat holds for more.\n\n</details>\n")
	w, err = openShop(t, root)
	require.NoError(t, err)
	assert.Equal(t, text, sourceOf(w.Chapters[0]), "what stood there is written anew")
}

func TestABlockOfNoWrongSolutionIsAMistake(t *testing.T) {
	t.Parallel()
	for after, says := range map[string]string{
		"diff bounds/a-third": "chapters/01-shop/README.md:19: labs/01-shop/wrong/bounds.txtar has no a-third.diff: there is a-quarter",
		"diff prices/a-third": "chapters/01-shop/README.md:19: labs/01-shop/wrong/prices.txtar has no a-third.diff: there is none",
		"diff bounds":         "chapters/01-shop/README.md:19: say which wrong solution of which exercise the block shows",
	} {
		root := writeShop(t)
		replace(t, root, "chapters/01-shop/README.md", "diff bounds/a-quarter", after)
		w, err := openShop(t, root)
		if err == nil {
			require.Len(t, w.mistakes(), 1, after)
			err = w.mistakes()[0]
		}
		require.ErrorContains(t, err, says)
	}
}

func TestAnExerciseHasItsFunctionsAndTheTestFilesThatItNeeds(t *testing.T) {
	t.Parallel()
	w, err := openShop(t, writeShop(t))
	require.NoError(t, err)
	all, err := w.Exercises(1)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "kcm/shop", all[0].Dir)
	assert.Equal(t, []string{"helped_test.go", "shop_test.go"}, all[0].TestFiles)
	assert.Equal(t, map[string]string{"bounds": "// bounds returns how many more or fewer than some there may be.\n" +
		"func bounds(some int) (int, int) {\n\tpanic(\"yours: bounds\")\n}\n"}, all[0].Cut())
	assert.Len(t, all[0].Solutions.Wrong, 1)
}

func TestWhatCannotBeAnExerciseIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, says string }{
		{"kcm/shop bounds exercise", "kcm/shop till exercise", "chapters/01-shop/README.md:16: till is no function with a body"},
		{", TestBounds", ", TestNowhere", "chapters/01-shop/README.md:5: kcm/shop has no test TestNowhere"},
	} {
		root := writeShop(t)
		replace(t, root, "chapters/01-shop/README.md", c.before, c.after)
		all, err := chapters.Read(root)
		require.NoError(t, err)
		source, err := loadSource(root)
		require.NoError(t, err)
		w, err := newBook(source, all)
		if err == nil {
			_, err = w.Exercises(1)
		}
		require.ErrorContains(t, err, c.says)
	}
}

// tilled is the shop with more code, of which the exercise uses some.
const tilled = `package shop

import (
	"example.com/book/kcm/coins"
	str "strings"
)

// bounds returns how many more or fewer than some there may be.
func bounds(some int) (int, int) {
	_ = str.Fields
	return quarter(some) + lowest, (&till{}).count() + coins.Of(some) + shown()
}

// quarter divides by four.
func quarter(some int) int { return some / 4 }

func shown() int { return highest }

const (
	// lowest is one.
	lowest = 1
	// highest is two.
	highest = 2
)

// till has coins.
type till struct {
	coins int
}

// count counts.
func (t *till) count() int { return t.coins }
`

func TestAnExerciseShowsWhatTheReaderFindsAndWhatNothingAboveShows(t *testing.T) {
	t.Parallel()
	root := writeShop(t)
	writeTree(t, root, map[string]string{
		"kcm/shop/shop.go":               tilled,
		"kcm/coins/coins.go":             "package coins\n\n// Of returns coins.\nfunc Of(some int) int { return some }\n",
		"labs/01-shop/wrong/later.txtar": "",
		"chapters/01-shop/code.md": strings.ReplaceAll("# The rest\n\n<!-- exercise: later, 10 minutes, TestBounds -->\n**Yours**\n\n‘‘‘go stub\n‘‘‘\n\n<details><summary>Hint 1</summary>\n\nBy four.\n\n"+
			"‘‘‘go kcm/shop quarter exercise\n‘‘‘\n\n</details>\n\n## Rests\n\n‘‘‘go kcm/shop lowest till\n‘‘‘\n", "‘‘‘", "```"),
		"chapters/00-before/README.md": "# Before\n\n<sub>To read: .</sub>\n",
		"chapters/00-before/code.md":   "# What need not be read\n\n```go kcm/coins Of\n```\n",
	})
	name := "chapters/01-shop/README.md"
	replace(t, root, name, "# Shop\n", "# Shop\n\n<sub>To read: .</sub>\n")
	replace(t, root, name, "1. Divide.\n\n", "```go stub\n```\n\nDivide.\n\n")
	replace(t, root, name, "```go kcm/shop bounds exercise\n```\n\n```diff bounds/a-quarter\n```\n",
		"<details><summary>The code</summary>\n\n```go kcm/shop bounds exercise\n```\n\n</details>\n")
	replace(t, root, name, "## Bounds\n", "## Shown\n\n```go kcm/shop shown\n```\n\n<details><summary>More</summary>\n\n```go kcm/shop (*till).count\n```\n\n</details>\n\n## Bounds\n")
	w, err := openShop(t, root)
	require.NoError(t, err)
	assert.Empty(t, w.mistakes())
	text := sourceOf(w.Chapters[1])
	assert.Contains(t, text, strings.ReplaceAll(`**Yours**

<sub>[kcm/shop/shop.go](../../kcm/shop/shop.go) · yours</sub>
‘‘‘go stub
import (
	str "strings"

	"example.com/book/kcm/coins"
)

// bounds returns how many more or fewer than some there may be.
func bounds(some int) (int, int) {
	// yours
}

// It is there already:

// quarter divides by four.
func quarter(some int) int

const (
	// lowest is one.
	lowest = 1
)

// till has coins.
type till struct {
	coins int
}

// count counts.
func (t *till) count() int

// Package coins has:

// Of returns coins.
func Of(some int) int
‘‘‘

Divide.
`, "‘‘‘", "```"))
	assert.Equal(t, 2, strings.Count(text, "```go stub"), "of both exercises")

	replace(t, root, "kcm/shop/shop.go", "// count counts.", "// count counts coins.")
	stale, err := openShopUnfilled(t, root)
	require.NoError(t, err)
	var said []string
	for _, mistake := range stale.mistakes() {
		said = append(said, mistake.Error())
	}
	assert.Contains(t, strings.Join(said, "\n"), `it says "// count counts." and ought to say "// count counts coins."`)
	replace(t, root, name, "```go stub", "```go stub without str")
	hidden, err := openShop(t, root)
	require.NoError(t, err)
	assert.Contains(t, sourceOf(hidden.Chapters[1]), "```go stub without str\nimport (\n\t\"example.com/book/kcm/coins\"\n)\n")
	replace(t, root, name, "without str", "without strconv")
	_, err = openShop(t, root)
	assert.ErrorContains(t, err, "the stub is to be without the import strconv, which the answer does not have")
	replace(t, root, name, "```go stub without strconv", "```go")
	stale, err = openShopUnfilled(t, root)
	require.NoError(t, err)
	assert.ErrorContains(t, errors.Join(stale.mistakes()...), "the exercise bounds does not show what the reader finds: write a block ```go stub, without a body, below its first paragraph")
}

func TestALessonIsBoundedWhetherOrNotItsChapterHasCodeElsewhere(t *testing.T) {
	t.Parallel()
	root := writeShop(t)
	writeTree(t, root, map[string]string{
		"chapters/00-before/README.md": "# Before\n\n" + strings.Repeat("word ", 5999) + "\n",
	})
	w, err := openShop(t, root)
	require.NoError(t, err)
	assert.ErrorContains(t, errors.Join(w.mistakes()...), "chapters/00-before/README.md has 6001 words of prose, and may have 6000")
}

func TestAnExerciseShowsOfAStructWhatItUsesAndNobodyHasSeenUnlessItFillsIt(t *testing.T) {
	t.Parallel()
	const stub = "<details><summary>Hint 1</summary>\n\nBy five.\n\n</details>\n\n```go stub\n```\n\n"
	const some = "\n// till has coins.\ntype till struct {\n\tbox\n\t// gold is worth most.\n\tgold int\n\t// …\n}\n"
	const whole = "gold                int\n\tsilver, copper, tin int\n\tpaper               int\n\tcheques             int\n\tstamps              int\n\tvouchers            int\n}\n"
	for _, c := range []struct{ first, second, shown, again string }{
		{"return (&till{}).gold, 0", "return till{}.gold", some, ""},
		{"return (&till{}).gold, 0", "return till{}.paper", some, "\tpaper int\n\t// …\n}\n"},
		{"return (&till{paper: 1}).gold, 0", "return till{}.paper", whole, ""},
		{"return func() till { return till{} }().gold, 0", "return till{}.tin", some, "\tsilver, copper, tin int\n\t// …\n}\n"},
		{"return empty().gold, 0", "return till{}.gold", some, ""},
		{"return empty().gold, empty().silver + empty().paper + empty().cheques + empty().stamps", "return till{}.copper", whole, ""},
	} {
		root := writeShop(t)
		writeTree(t, root, map[string]string{
			"kcm/shop/shop.go": "package shop\n\nfunc bounds(some int) (int, int) {\n\t" + c.first + "\n}\n\nfunc price() int {\n\t" + c.second +
				"\n}\n\nfunc empty() till { return till{} }\n\n// till has coins.\ntype till struct {\n\tbox\n\t// gold is worth most.\n\t" +
				"gold int\n\tsilver, copper, tin int\n\tpaper int\n\tcheques int\n\tstamps int\n\tvouchers int\n}\n\ntype box struct{}\n",
			"chapters/01-shop/README.md": "# Shop\n\n<!-- exercise: bounds, 10 minutes, TestBounds -->\n**Yours**\n\n" + stub +
				"```go kcm/shop bounds exercise\n```\n\n<!-- exercise: price, 10 minutes, TestBounds -->\n**Yours**\n\n" + stub +
				"```go kcm/shop price exercise\n```\n\n```go kcm/shop empty till box\n```\n",
		})
		w, err := openShop(t, root)
		require.NoError(t, err)
		bodies := stubsOf(w.Chapters[0])
		require.Len(t, bodies, 2)
		assert.Contains(t, bodies[0], c.shown, c.first)
		_, again, _ := strings.Cut(bodies[1], "type till struct {\n\tbox\n")
		assert.Equal(t, c.again, again, c.second)
	}
}

// stubsOf returns what the readers of a chapter's exercises find.
func stubsOf(c *chapters.Chapter) (bodies []string) {
	for _, b := range c.Blocks {
		if b.Stub {
			bodies = append(bodies, b.Body)
		}
	}
	return bodies
}

func openShopUnfilled(t *testing.T, root string) (*Book, error) {
	t.Helper()
	source, err := loadSource(root)
	require.NoError(t, err)
	return readBook(source)
}
