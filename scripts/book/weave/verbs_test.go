package weave

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// writeBook writes the book of an archive to a directory.
func writeBook(t *testing.T, archive, name string) (root string) {
	t.Helper()
	files, books := readArchive(t, filepath.Join("testdata", archive))
	require.Contains(t, books, name)
	maps.Copy(files, books[name])
	root = t.TempDir()
	writeTree(t, root, files)
	return root
}

// replace replaces one text in a file by another.
func replace(t *testing.T, root, name, before, after string) {
	t.Helper()
	text := readFile(t, filepath.Join(root, name))
	require.Contains(t, text, before)
	require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(strings.Replace(text, before, after, 1)), 0o644))
}

// printed returns what a verb prints about the book in a directory.
func printed(t *testing.T, root string, verb func(w *Book, out io.Writer) error) (string, error) {
	t.Helper()
	w, err := Open(root)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = verb(w, &out)
	return out.String(), err
}

func buildStage(t *testing.T, number string) func(w *Book, out io.Writer) error {
	return func(w *Book, out io.Writer) error { return w.BuildStage(t.Context(), number, "", out) }
}

func testStages(t *testing.T) func(w *Book, out io.Writer) error {
	return func(w *Book, out io.Writer) error { return w.TestStages(t.Context(), false, out) }
}

func TestWhatAnotherCheckoutHasLeftIsNotCompiled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, WriteFiles(dir, map[string][]byte{"kcm/old.go": []byte("rotten"), "kcm/both.go": []byte("old")}))
	require.NoError(t, WriteFiles(dir, map[string][]byte{"kcm/both.go": []byte("new")}))
	assert.NoFileExists(t, filepath.Join(dir, "kcm", "old.go"))
	assert.Equal(t, "new", readFile(t, filepath.Join(dir, "kcm", "both.go")))
}

func TestOneCharacterIsADifference(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, before, after, want string }{
		"in the code": {"kcm/app/run.go", "in capital letters", "in capital Letters",
			`chapters/02-b/README.md:34: it says "return work.Do(ctx, str.ToUpper(name)) // in capital letters" ` +
				`and ought to say "return work.Do(ctx, str.ToUpper(name)) // in capital Letters"; make weave writes it anew`},
		"in a chapter": {"chapters/02-b/README.md", "\treturn ctx.Err()\n", "\treturn  ctx.Err()\n",
			`chapters/02-b/README.md:12: it says "return  ctx.Err()" and ought to say "return ctx.Err()"; make weave writes it anew`},
		"in a file": {"labs/01-a/web.yaml", "spec: {}", "spec: []",
			`chapters/01-a/README.md:46: it says "spec: {}" and ought to say "spec: []"; make weave writes it anew`},
		"a line more": {"labs/01-a/web.yaml", "spec: {}", "spec: {}\nstatus: {}",
			"chapters/01-a/README.md:47: it says \"```\" and ought to say \"status: {}\"; make weave writes it anew"},
		"a line less": {"labs/01-a/web.yaml", "spec: {}\n", "",
			"chapters/01-a/README.md:46: it says \"spec: {}\" and ought to say \"```\"; make weave writes it anew"},
		"in a step of a lab": {"labs/01-a/lab.txtar", "check one", "check two",
			`chapters/01-a/README.md:60: it says "check one" and ought to say "check two"; make weave writes it anew`},
		"in a caption": {"chapters/02-b/README.md", "work.go)</sub>", "work.go).</sub>",
			`chapters/02-b/README.md:3: it says "<sub>[kcm/work/work.go](../../kcm/work/work.go).</sub>" and ought to say ` +
				`"<sub>[kcm/work/work.go](../../kcm/work/work.go)</sub>"; make weave writes it anew`},
		"no caption": {"chapters/02-b/README.md", "<sub>[kcm/work/work.go](../../kcm/work/work.go)</sub>\n", "",
			"chapters/02-b/README.md:3: it says \"```go kcm/work Do Queue\" and ought to say \"<sub>[kcm/work/work.go](../../kcm/work/work.go)</sub>\"; make weave writes it anew"},
		"in what has changed": {"chapters/03-c/README.md", "-\tif err", "-\tif  err",
			`chapters/03-c/README.md:22: it says "-\tif  err := app.Run(context.TODO(), \"name\"); err != nil {" ` +
				`and ought to say "-\tif err := app.Run(context.TODO(), \"name\"); err != nil {"; make weave writes it anew`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := loadSource(writeBook(t, "stages.txtar", "grows"))
			require.NoError(t, err)
			w, err := fillBook(source)
			require.NoError(t, err)
			require.Empty(t, w.mistakes())

			replace(t, source.root, tt.file, tt.before, tt.after)
			changed, err := Open(source.root)
			require.NoError(t, err)
			mistakes := changed.mistakes()
			require.Len(t, mistakes, 1)
			require.EqualError(t, mistakes[0], tt.want)

			w, err = fillBook(changed.source)
			require.NoError(t, err)
			assert.Empty(t, w.mistakes(), "fill mends it")
		})
	}
}

func TestAStepIsAStageByItself(t *testing.T) {
	t.Parallel()
	root := writeBook(t, "pages.txtar", "left")
	_, err := printed(t, root, (*Book).Fill)
	require.NoError(t, err)
	out, err := printed(t, root, testStages(t))
	require.NoError(t, err)
	assert.Contains(t, out, "chapter 01: naive, 1 packages, 1 vetted and tested ✓")
	assert.FileExists(t, filepath.Join(root, "build", "stage-01-naive", "kcm", "app", "run.go"))
	_, err = printed(t, root, func(w *Book, out io.Writer) error { return w.BuildStage(t.Context(), "1", "naif", out) })
	require.EqualError(t, err, "chapter 01 has no step naif: there is naive")
}

func TestADeclarationHasAVersionForEachStepThatChangesIt(t *testing.T) {
	t.Parallel()
	root := writeBook(t, "pages.txtar", "steps")
	_, err := printed(t, root, (*Book).Fill)
	require.NoError(t, err)
	w, err := Open(root)
	require.NoError(t, err)
	for name, want := range map[string][]string{
		"Run":   {"2 short { return count() }", "2  { return count() + most }"}, // draft up to the second step
		"count": {"1  { return 7 }", "2  { return 1 }"},
	} {
		all, err := w.versions(key{"kcm/app", name})
		require.NoError(t, err)
		var got []string
		for _, v := range all {
			got = append(got, fmt.Sprintf("%d %s %s", v.Chapter.Number, v.Step, strings.TrimSpace(v.Text[strings.Index(v.Text, "{"):])))
		}
		assert.Equal(t, want, got)
	}
}

func TestAStageIsAModuleThatBuildsAndBelongsToItsReader(t *testing.T) {
	t.Parallel()
	root := writeBook(t, "stages.txtar", "grows")
	out, err := printed(t, root, (*Book).Fill)
	require.NoError(t, err)
	require.Equal(t, "filled chapters/01-a/README.md\nfilled chapters/02-b/README.md\nfilled chapters/03-c/README.md\n", out)
	out, err = printed(t, root, (*Book).Fill)
	require.NoError(t, err)
	require.Empty(t, out, "fill has nothing more to do")
	out, err = printed(t, root, (*Book).Check)
	require.NoError(t, err)
	assert.Equal(t, `                                                  words    Go  sessions  lines   open  minutes
00-introduction/README.md                             5     0         0      3      3        0
01-a/README.md                                        4    22         0     71     71        2
02-b/README.md                                        2    43         0     62     62        4
03-c/README.md                                        2     9         0     34     24        1
all                                                  13    74         0    170    160        6
declarations shown: 13 of 13
`, out)

	out, err = printed(t, root, testStages(t)) // which vets and tests all
	require.NoError(t, err)
	for _, line := range []string{`chapter 01: 2 packages, 2 vetted and tested ✓`, `chapter 02: 3 packages, 3 vetted and tested ✓`, `chapter 03: 4 packages, 4 vetted and tested ✓`} {
		assert.Contains(t, out, line)
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...") // with all that the tests import
	cmd.Dir = filepath.Join(root, "build", "stage-03")
	message, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", message)

	w, err := Open(root)
	require.NoError(t, err)
	write := func() error {
		s, err := w.compiling(endOf(1))
		require.NoError(t, err)
		_, err = s.write()
		return err
	}
	require.NoError(t, write(), "nothing has changed")

	stage := filepath.Join(root, "build", "stage-01")
	replace(t, stage, "kcm/app/run.go", "size()", "size() // here")
	replace(t, stage, "kcm/app/limits.go", "var", "//\nvar")
	require.NoError(t, os.WriteFile(filepath.Join(stage, "kcm", "app", "mine.go"), []byte("package app\n"), 0o644))
	require.EqualError(t, write(), "you have changed build/stage-01/kcm/app/limits.go and build/stage-01/kcm/app/run.go: "+
		"go on there with go build ./kcm/cmd/kcm, or remove build/stage-01 to have the stage written anew")
	assert.Contains(t, readFile(t, filepath.Join(stage, "kcm/app/run.go")), "// here")

	replace(t, stage, "kcm/app/run.go", "size() // here", "size()")
	require.NoError(t, os.Remove(filepath.Join(stage, "kcm/app/limits.go")))
	require.NoError(t, write(), "what the reader has removed is written anew")
	assert.FileExists(t, filepath.Join(stage, "kcm/app/limits.go"))
	assert.FileExists(t, filepath.Join(stage, "kcm/app/mine.go"), "what the reader has added stays")

	require.NoError(t, os.Remove(filepath.Join(stage, recordName)))
	replace(t, stage, "kcm/app/run.go", "size()", "size() // here")
	require.ErrorContains(t, write(), "you have changed build/stage-01/kcm/app/run.go: ", "also where nothing is recorded")
	replace(t, stage, "kcm/app/run.go", "size() // here", "size()")
	require.NoError(t, write())

	require.NoError(t, os.WriteFile(filepath.Join(stage, recordName), []byte("{"), 0o644))
	require.EqualError(t, write(), "read build/stage-01/.weave.json: unexpected end of JSON input; remove build/stage-01 to have the stage written anew")
}

func TestWhatAStageNoLongerHasIsRemoved(t *testing.T) {
	t.Parallel()
	root := writeBook(t, "stages.txtar", "grows")
	out, err := printed(t, root, buildStage(t, "02"))
	require.NoError(t, err)
	assert.Equal(t, "stage 02: 10 files in build/stage-02, kcm in build/stage-02/bin\n", out)
	assert.FileExists(t, filepath.Join(root, "build/stage-02/bin/kcm"))
	assert.FileExists(t, filepath.Join(root, "build/stage-02/kcm/work/work_test.go"))

	require.NoError(t, os.Remove(filepath.Join(root, "kcm/work/work_test.go")))
	_, err = printed(t, root, buildStage(t, "2"))
	require.NoError(t, err)
	assert.NoFileExists(t, filepath.Join(root, "build/stage-02/kcm/work/work_test.go"))
	assert.NoFileExists(t, filepath.Join(root, "build/stage-02/labs/answer/answer.go"))
}

func TestAStageThatCannotBeHadSaysWhy(t *testing.T) {
	t.Parallel()
	root := writeBook(t, "stages.txtar", "grows")
	for argument, want := range map[string]string{
		"three": "there is no chapter three: the book has 00 to 03",
		"7":     "there is no chapter 7: the book has 00 to 03",
		"00":    "chapter 00 has no code yet: its kcm is the finished one",
	} {
		_, err := printed(t, root, buildStage(t, argument))
		assert.EqualError(t, err, want)
	}
	replace(t, root, "kcm/work/work_test.go", "(Queue[int]{}).Len()", "-1")
	_, err := printed(t, root, testStages(t))
	require.ErrorContains(t, err, "stage 02, go test: exit status 1\n")
	assert.ErrorContains(t, err, "--- FAIL: TestLen")

	unshown := writeBook(t, "mistakes.txtar", "unshown")
	_, err = printed(t, unshown, buildStage(t, "1"))
	assert.ErrorContains(t, err, "chapters/01-a/README.md:1: Run uses First, which no chapter shows\n")
}

func TestCodeThatNoChapterCouldShowIsRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"go.mod": "module example.com/book\n\ngo 1.24\n",
		"kcm/app/a.go": `package app

// Nobody's comment.

func init() {}

var ()

func init() {}

//go:generate true

type (
	a int
	_ int
)
`,
		"kcm/app/b.go": "//go:build linux\n\npackage app\n\nvar _ a\n\nvar _ a\n",
	})
	_, err := loadSource(root)
	require.EqualError(t, err, `kcm/app/a.go:7: this declares nothing that a chapter could name: take it out
kcm/app/a.go:9: a second init; the first is in a.go: a chapter could not tell them apart
kcm/app/a.go:3: this comment belongs to no declaration, so no chapter shows it: join it to one or take it out
kcm/app/a.go:11: this comment belongs to no declaration, so no chapter shows it: join it to one or take it out
kcm/app/b.go:7: a second _; the first is in b.go: a chapter could not tell them apart
kcm/app/b.go:1: this comment belongs to no declaration, so no chapter shows it: join it to one or take it out`)

	replace(t, root, "kcm/app/b.go", "var _ a", "var _ b")
	_, err = loadSource(root)
	require.EqualError(t, err, "kcm/app/b.go:5:7: undefined: b")
}

// named is a book whose prose names what the code declares, and what it does not.
var named = map[string]string{
	"go.mod": "module example.com/book\n\ngo 1.24\n",
	"kcm/app/app.go": "package app\n\ntype Loop struct{ queue int }\n\nfunc (l *Loop) Run() { lead() }\n\nfunc lead() {}\n\n" +
		"type Runner interface{ Run() }\n",
	"kcm/other/other.go": "package other\n\ntype Loop struct{}\n",
	"chapters/01-a/README.md": "`lead` and `lead()`, `app.lead(…)`, not `kubectl lead` or `leader`\n" +
		"`Loop.Run`, `(*Loop).Run(ctx)`, `Run`, `*app.Loop`, `Loop.queue`, `curl`, `syncDeployment`\n\n" +
		"```go kcm/app Loop (*Loop).Run lead\n```\n\n```go kcm/app Runner\n```\n",
	"chapters/02-b/README.md": "`Loop`, `other.Loop` and `lead`\n\n```go kcm/other Loop\n```\n",
}

func writeNamed(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	writeTree(t, root, named)
	_, err := printed(t, root, (*Book).Fill)
	require.NoError(t, err)
	return root
}

func TestANameInTheProseThatHasGoneFromTheCodeIsSaid(t *testing.T) {
	t.Parallel()
	root := writeNamed(t)
	assert.Equal(t, "Loop\nLoop.Run\nLoop.queue\nRun\napp.Loop\napp.lead\nlead\nother.Loop\n", readFile(t, filepath.Join(root, nameFile)))

	for _, file := range []string{"kcm/app/app.go", "kcm/app/app.go", "chapters/01-a/README.md"} {
		replace(t, root, file, "lead()", "campaign()")
	}
	replace(t, root, "chapters/01-a/README.md", "Run lead\n", "Run campaign\n")
	out, err := printed(t, root, (*Book).Fill)
	require.NoError(t, err)
	assert.Contains(t, out, "filled chapters/names.txt\n")
	_, err = printed(t, root, (*Book).Check)
	assert.EqualError(t, err, `chapters/01-a/README.md:1: kcm has no lead any more; if that is something else now, take it out of chapters/names.txt
chapters/01-a/README.md:1: kcm has no app.lead(…) any more; if that is something else now, take it out of chapters/names.txt
chapters/02-b/README.md:1: kcm has no lead any more; if that is something else now, take it out of chapters/names.txt`)

	replace(t, root, nameFile, "\nlead\n", "\n")
	replace(t, root, nameFile, "\ncampaign\n", "\n")
	_, err = printed(t, root, (*Book).Check)
	assert.EqualError(t, err, `chapters/01-a/README.md:1: kcm has no app.lead(…) any more; if that is something else now, take it out of chapters/names.txt
chapters/names.txt:7: it says "other.Loop" and ought to say "campaign"; make weave writes it anew`)
}

func TestTheBookOfThisRepositoryIsAsItShouldBe(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	w, err := Open(root)
	require.NoError(t, err)
	for _, mistake := range w.mistakes() {
		assert.NoError(t, mistake)
	}
	assertRoundTrip(t, w)
	missing, total := w.unshown()
	assert.Empty(t, missing)
	assert.Positive(t, total)

	last := w.Chapters[len(w.Chapters)-1].Number
	s, err := w.stage(endOf(last), nil)
	require.NoError(t, err)
	for _, dir := range w.source.dirs() {
		require.Contains(t, s.packages, dir)
		assert.True(t, s.packages[dir].finished, "%s is finished in the last chapter", dir)
		assert.Len(t, s.packages[dir].files, len(w.source.packages[dir].files), "and so are all its files")
	}
}

// FuzzDraft looks for Go that takes weave apart.
func FuzzDraft(f *testing.F) {
	for _, seed := range []string{
		"func a() {}\n",
		"// A is a draft.\ntype A struct{}\n\nfunc (*A) b() {} // so far\n",
		"func (a *x.T[K, V]) b() {}\n\nfunc () a() {}\n\nfunc ((A)) a() {}\n",
		"var ()\n\nconst (\n\t_ = iota\n\ta\n)\n",
		"//line other.go:7\nfunc a() {}\n",
		"\n\nvar A, b int",
		"a := 1\n", "package a\n", "func a() {", "type a = struct{}\n;;", "/* a", "import (\n\t. \"strings\"\n)\n",
	} {
		f.Add(seed)
	}
	root := f.TempDir()
	require.NoError(f, WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/book\n\ngo 1.24\n")))
	require.NoError(f, WriteFile(filepath.Join(root, "kcm", "app", "app.go"), []byte("package app\n\ntype A int\n\nfunc a() {}\n\nfunc (*A) b() {}\n")))
	source, err := loadSource(root)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body string) {
		if strings.Contains(body, "import") {
			t.Skip("go list would take too long")
		}
		var all []*chapters.Chapter
		for number, text := range []string{
			"```go kcm/app A a (*A).b\n" + body + "```\n",
			"```go kcm/app A a (*A).b\n```\n",
		} {
			chapter, err := chapters.Parse(number, "00-a", &chapters.Page{Path: "README.md", Source: []byte(text)})
			if err != nil {
				return
			}
			all = append(all, chapter)
		}
		w, err := newBook(source, all)
		if err != nil {
			return
		}
		_, err = w.filled()
		require.NoError(t, err)
		if s, err := w.compiling(endOf(0)); err == nil {
			for dir, p := range s.packages {
				for _, file := range p.files {
					_, err := file.formatted()
					require.NoError(t, err, "%s/%s", dir, file.name)
				}
			}
		}
	})
}
