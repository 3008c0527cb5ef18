package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// wholeBook is one of two chapters. In the first the reader writes a package as a whole.
const wholeBook = `
-- go.mod --
module github.com/kcm-book/kcm-book

go 1.26
-- go.sum --
-- chapters/01-till/README.md --
# A till

<!-- exercise: till, 10 minutes, TestTill -->
**Yours**

1. Add.

<details><summary>Hint 1</summary>

Begin with nothing.

</details>
<details><summary>The code</summary>

‘‘‘go kcm/till Till limit New (*Till).Add whole
‘‘‘

‘‘‘go kcm/till (*Till).add sum whole
‘‘‘

</details>

## Its drawer

‘‘‘go kcm/shop Open
‘‘‘
-- chapters/02-rest/README.md --
# The rest

<!-- exercise: rest, 10 minutes, TestRest -->
**Yours**

1. Nothing.

<details><summary>Hint 1</summary>

None.

</details>

‘‘‘go kcm/shop rest exercise
‘‘‘
-- kcm/shop/shop.go --
package shop

import "github.com/kcm-book/kcm-book/kcm/till"

// Open opens a till.
func Open() *till.Till { return till.New() }

// rest is what is left.
func rest() int { return 0 }
-- kcm/shop/shop_test.go --
package shop

import "testing"

func TestRest(t *testing.T) { rest() }
-- kcm/till/till.go --
package till

import "os"

// limit is what a till can hold.
var limit = len(os.Args) * 100

// Till holds money.
type Till struct {
	held []int
}

// New returns an empty till.
func New() *Till { return &Till{} }

// Add adds a price, and returns what the till holds then, at most 100.
func (t *Till) Add(price int) int {
	t.add(price)
	return sum(t.held)
}
-- kcm/till/add.go --
package till

import "slices"

// add keeps them in order.
func (t *Till) add(price int) {
	t.held = slices.Sorted(slices.Values(append(t.held, price)))
}

// sum returns what some prices are together.
func sum(prices []int) int {
	sum := 0
	for _, price := range prices {
		sum += price
	}
	return min(sum, limit)
}
-- kcm/till/till_test.go --
package till

import "testing"

func TestTill(t *testing.T) {
	t.Run("it adds", func(t *testing.T) {
		if New().Add(3) != 3 {
			t.Error("it does not")
		}
	})
}
`

// till is where the reader writes.
const till = "kcm/till/till.go"

// theirs is another till than the book's.
const theirs = "-- " + till + ` --
package till

import "fmt"

// Till is mine.
type Till int

// New is mine.
func New() *Till { return new(Till) }

// Add is mine.
func (t *Till) Add(price int) int {
	*t += Till(price)
	return min(int(*t), most())
}

func init() { fmt.Println("hello") }
-- kcm/till/most.go --
package till

func most() int { return 100 }
`

func writeWhole(t *testing.T) (root string, w *Written) {
	t.Helper()
	root = t.TempDir()
	writeFiles(t, root, strings.ReplaceAll(wholeBook, "‘‘‘", "```"))
	w, err := Write(root, "1", "", "")
	require.NoError(t, err)
	return root, w
}

func TestOfAWholePackageTheReaderFindsWhatOthersSee(t *testing.T) {
	t.Parallel()
	_, w := writeWhole(t)
	assert.Equal(t, `package till

// Till holds money.
type Till struct{}

// New returns an empty till.
func New() *Till {
	panic("yours: till")
}

// Add adds a price, and returns what the till holds then, at most 100.
func (t *Till) Add(price int) int {
	panic("yours: till")
}
`, read(t, w.Dir, till))
	assert.NoFileExists(t, filepath.Join(w.Dir, "kcm/till/add.go"))
	assert.FileExists(t, filepath.Join(w.Dir, "kcm/till/till_test.go"))
	assert.NotContains(t, read(t, w.Dir, "README.md"), "whole")
	answer, err := w.Answer(w.Exercises[0])
	require.NoError(t, err)
	assert.Equal(t, []string{"New", "(*Till).Add"}, answer.Unwritten())
}

func TestAWholePackageIsCarriedOnWithAllItsFiles(t *testing.T) {
	t.Parallel()
	root, w := writeWhole(t)
	writeFiles(t, w.Dir, theirs)
	answer, err := w.Answer(w.Exercises[0])
	require.NoError(t, err)
	assert.Empty(t, answer.Unwritten())
	w.Progress.Passed["till"] = answer.Sum()
	require.NoError(t, w.Save())
	next, err := Write(root, "2", "", "")
	require.NoError(t, err)
	assert.Equal(t, []string{"till"}, next.Carried)
	assert.Contains(t, read(t, next.Dir, till), "type Till int")
	assert.Contains(t, read(t, next.Dir, "kcm/till/most.go"), "func most()")
	assert.NoFileExists(t, filepath.Join(next.Dir, "kcm/till/add.go"))
	writeFiles(t, w.Dir, "-- kcm/till/most.go --\npackage till\n\nfunc most() int { return 99 }\n")
	require.NoError(t, os.RemoveAll(next.Dir))
	next, err = Write(root, "2", "", "")
	require.NoError(t, err)
	assert.Equal(t, []string{"till"}, next.Left, "it has not passed as it is now, in a file of its own")
}

// graftTill puts a submission's till into the book's module.
func graftTill(t *testing.T, root, dir string) (map[string][]byte, error) {
	t.Helper()
	book, err := weave.Open(root)
	require.NoError(t, err)
	files, err := book.Module(1, (*weave.Exercise).Cut)
	require.NoError(t, err)
	exercises, err := book.Exercises(1)
	require.NoError(t, err)
	return files, Graft(dir, exercises[0], files, true)
}

func TestAWholePackageIsTakenFromASubmissionWithoutWhatRunsByItself(t *testing.T) {
	t.Parallel()
	root, w := writeWhole(t)
	_, err := graftTill(t, root, w.Dir)
	require.EqualError(t, err, "not written")
	writeFiles(t, w.Dir, theirs)
	files, err := graftTill(t, root, w.Dir)
	require.NoError(t, err)
	assert.Contains(t, string(files[till]), "type Till int")
	assert.NotContains(t, string(files[till]), "init")
	assert.NotContains(t, string(files[till]), "fmt")
	assert.Contains(t, string(files["kcm/till/most.go"]), "func most()")
	most := "-- kcm/till/most.go --\npackage till\n\nimport \"os\"\n\nfunc most() int { return os.Getpid() }\n"
	writeFiles(t, w.Dir, most)
	_, err = graftTill(t, root, w.Dir)
	require.NoError(t, err, "the book's variable uses the package, too")
	writeFiles(t, w.Dir, strings.NewReplacer(`"os"`, `"syscall"`, "os.", "syscall.").Replace(most))
	_, err = graftTill(t, root, w.Dir)
	require.ErrorContains(t, err, "uses syscall, which the exercise does not need")
}

func TestAWholePackageIsShownAsAWhole(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeFiles(t, root, strings.ReplaceAll(strings.Replace(wholeBook, "(*Till).add sum whole", "(*Till).add whole", 1), "‘‘‘", "```"))
	edit(t, root, "chapters/01-till/README.md", "## Its drawer\n", "## Its drawer\n\n```go kcm/till sum\n```\n")
	_, err := Write(root, "1", "", "")
	require.ErrorContains(t, err, "till is written as a whole, but the exercise does not show sum of kcm/till")
}
