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

// handedIn writes a submission of the book's second chapter whose file of code ends with
// something, and puts the exercise discount into the book's module.
func handedIn(t *testing.T, body, rest string) (file string, err error) {
	t.Helper()
	root := writeBook(t)
	w, err := Write(root, "2", "", "")
	require.NoError(t, err)
	edit(t, w.Dir, shop, "\tpanic(\"yours: discount\")", body)
	head, declarations, _ := strings.Cut(rest, "---\n")
	edit(t, w.Dir, shop, "package shop\n", "package shop\n\n"+head)
	writeFiles(t, w.Dir, "-- "+shop+" --\n"+read(t, w.Dir, shop)+declarations)
	files, err := graftDiscount(t, root, w.Dir)
	return string(files[shop]), err
}

// graftDiscount puts the exercise discount of a submission into the book's module.
func graftDiscount(t *testing.T, root, dir string) (map[string][]byte, error) {
	t.Helper()
	book, err := weave.Open(root)
	require.NoError(t, err)
	files, err := book.Module(2, func(e *weave.Exercise) map[string]string { return e.Cut() })
	require.NoError(t, err)
	exercises, err := book.Exercises(2)
	require.NoError(t, err)
	for _, e := range exercises {
		if e.Name == "discount" {
			return files, Graft(dir, e, files, true)
		}
	}
	return nil, nil
}

func TestOnlyTheExerciseAndWhatItUsesAreTakenFromASubmission(t *testing.T) {
	t.Parallel()
	file, err := handedIn(t, "\treturn rebate{percent}.on(price) + b", `
import (
	"fmt"
	"os"
)
---

// a and b are used together.
const (
	a = 0
	b = a
)

type rebate struct{ percent int }

func (r rebate) on(price int) int { return price - price*r.percent/100 }

func (r rebate) String() string { return fmt.Sprint(r.percent) }

func unused() { os.Exit(0) }

func init() { os.Exit(0) }

var _ = func() int { os.Exit(0); return 1 }()
`)
	require.NoError(t, err)
	for _, there := range []string{"rebate{percent}.on(price)", "type rebate struct", ") on(price int)",
		") String() string", "b = a", `"fmt"`} {
		assert.Contains(t, file, there)
	}
	for _, not := range []string{`"os"`, "os.Exit", "unused", "init"} {
		assert.NotContains(t, file, not)
	}
	assert.Contains(t, file, `panic("yours: total")`, "what is no part of the exercise is the book's")
}

func TestASubmissionCannotReachOutside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, rest, says string }{
		"a package that reaches outside": {"\tos.Exit(0)\n\treturn 0", "import \"os\"\n", "discount uses os,"},
		"by another name":                {"\tstrconv.Exit(0)\n\treturn 0", "import strconv \"os\"\n", "discount uses os,"},
		"in what the body uses": {"\treturn exit",
			"import \"os/exec\"\n---\nvar exit = exec.Command(\"x\").ProcessState.ExitCode()\n", "exit uses os/exec,"},
		"past the types":         {"\treturn *(*int)(unsafe.Pointer(&price))", "import \"unsafe\"\n", "discount uses unsafe,"},
		"the tests' own package": {"\ttesting.Init()\n\treturn 0", "import \"testing\"\n", "discount uses testing,"},
		"C":                      {"\treturn int(C.abs(1))", "import \"C\"\n", "discount uses C,"},
		"an embedded file": {"\treturn len(secret)",
			"import _ \"embed\"\n---\n//go:embed /etc/passwd\nvar secret string\n", "directive for the compiler"},
		"a linked function": {"\texit(0)\n\treturn 0",
			"import _ \"unsafe\"\n---\n//go:linkname exit os.Exit\nfunc exit(int)\n", "directive for the compiler"},
		"what only the tests have": {"\thelped(nil, true)\n\treturn 0", "",
			"discount uses helped, which only the tests have"},
		"a name of Go's own": {"\t_ = other\n\treturn 0", "---\nvar (\n\tother = 1\n\ttrue  = false\n)\n",
			"changes what others see"},
		"how the book's values are printed": {"\t_ = (*price).String\n\treturn 0",
			"---\nfunc (p *price) String() string { return \"\" }\n", "changes what others see"},
		"what is no Go":                          {"\treturn 1 +", "", "does not compile"},
		"a file that is greater than one writes": {"\treturn 0", "---\n//" + strings.Repeat("x", maxPackage), "greater than"},
		"nothing":                                {"\tpanic(\"yours: discount\")", "", "not written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := handedIn(t, c.body, c.rest)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestAFileThatDoesNotCompileCostsNothingInTheExercisesOfOthers(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	w, err := Write(root, "2", "", "")
	require.NoError(t, err)
	edit(t, w.Dir, shop, "\tpanic(\"yours: discount\")", "\treturn 1")
	writeFiles(t, w.Dir, "-- "+filepath.Dir(shop)+"/other.go --\npackage shop\n\nfunc other( {}\n")
	files, err := graftDiscount(t, root, w.Dir)
	require.NoError(t, err)
	assert.Contains(t, string(files[shop]), "int {\n\treturn 1\n}")
	discount, err := w.Choose("discount")
	require.NoError(t, err)
	answer, err := w.Answer(discount[0])
	require.NoError(t, err)
	assert.Equal(t, []string{shop}, answer.Files())

	edit(t, w.Dir, shop, "func discount(", "func discount((")
	_, err = w.Answer(discount[0])
	require.ErrorContains(t, err, "does not compile: "+shop)
	_, err = graftDiscount(t, root, w.Dir)
	require.ErrorContains(t, err, "does not compile: "+shop)
}

func TestALinkLeadsNowhere(t *testing.T) {
	t.Parallel()
	root := writeBook(t)
	for name, link := range map[string]string{
		"of the folder": "kcm/shop", "of all code": "kcm", "of the file": shop,
	} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(link)), 0o755))
		require.NoError(t, os.Symlink(filepath.Join(root, link), filepath.Join(dir, link)))
		_, err := graftDiscount(t, root, dir)
		require.Error(t, err, name)
	}
	_, err := graftDiscount(t, root, t.TempDir())
	require.ErrorContains(t, err, "kcm/shop cannot be read")
}
