package weave

import (
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
	w, err := openShop(t, writeShop(t))
	require.NoError(t, err)
	text := string(w.chapters[0].Source)
	assert.Contains(t, text, "<sub>What holds for more holds for fewer. Caught by “fewer are a fifth”.</sub>\n"+
		"```diff bounds/a-quarter\n \tmore := some / 4\n-\treturn more, some / 5\n+\treturn more, some / 4\n```\n")
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
		"func bounds(some int) (int, int) {\n\t// 1. Divide.\n\tpanic(\"yours: bounds\")\n}\n"}, all[0].Cut())
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
