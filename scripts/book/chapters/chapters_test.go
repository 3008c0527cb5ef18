package chapters

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chapter has a block of each kind, with every odd place to put one.
const chapter = "# A chapter\n" +
	"\n" +
	"```go kcm/app lead runUntil\n" +
	"func lead() {}\n" +
	"```\n" +
	"\n" +
	"```` yaml labs/01-a/manifests/web.yaml\n" +
	"a: |\n" +
	"  ```\n" +
	"````  \n" +
	"\n" +
	"```console\n" +
	"```\n" +
	"\n" +
	"1. In a list:\n" +
	"   ```sh\n" +
	"   make\n" +
	"   ```\n" +
	"\n" +
	"> ~~~go\n" +
	"> x := 1\n" +
	"> ~~~\n" +
	"\n" +
	"```\n" +
	"plain\n" +
	"```\n" +
	"\n" +
	"```text\n" +
	"\n" +
	"\t  \n" +
	"    ```\n" +
	"```\n"

func parse(t *testing.T, source string) *Chapter {
	t.Helper()
	c, err := Parse(3, "03-a", &Page{Path: "README.md", Source: []byte(source)})
	require.NoError(t, err)
	return c
}

func TestBlocksHaveTheirWordsTheirBodiesAndTheirPlaces(t *testing.T) {
	t.Parallel()
	c := parse(t, chapter)
	require.Len(t, c.Blocks, 4, "those that a tool could fill, and plain ones with a word behind the fence")

	code, file, console, text := c.Blocks[0], c.Blocks[1], c.Blocks[2], c.Blocks[3]
	assert.Equal(t, []string{"go", "kcm/app", "lead", "runUntil"}, code.Info)
	assert.Equal(t, "func lead() {}\n", code.Body)
	assert.Equal(t, 3, code.Line)
	assert.Equal(t, "chapters/03-a/README.md:4", code.Position(0), "the first line of the body")
	assert.EqualError(t, code.Errorf("no %s", "go"), "chapters/03-a/README.md:3: no go")
	assert.True(t, code.Package != "" && code.Filled())
	assert.Empty(t, code.File)

	assert.Equal(t, "labs/01-a/manifests/web.yaml", file.File)
	assert.Equal(t, "a: |\n  ```\n", file.Body, "a longer fence can hold a shorter one")
	assert.True(t, file.Filled())
	assert.False(t, file.Package != "" || file.Console())

	assert.True(t, console.Console() && console.Filled())
	assert.Empty(t, console.Body)
	assert.Equal(t, "chapters/03-a/README.md:13", console.Position(0))

	assert.False(t, text.Filled())
	assert.Equal(t, "\n\t  \n    ```\n", text.Body, "blank lines are kept, and so is what does not close the block")
}

func TestOnlyABlockWithAPackageDeclares(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		declares, console bool
		file              string
	}{
		"go":                       {},
		"go kcm/app":               {declares: true},
		"go kcm/app Run roster":    {declares: true},
		"gomod kcm/app":            {file: "kcm/app"},
		"yaml":                     {},
		"yaml web.yaml":            {},
		"yaml labs/a.yaml":         {file: "labs/a.yaml"},
		"yaml labs/a.yaml changed": {},
		"lab":                      {},
		"lab It works; a/b too":    {file: "labs/03-a/lab.txtar"},
		"console":                  {console: true},
		"consoles":                 {},
	}
	for info, tt := range tests {
		t.Run(info, func(t *testing.T) {
			t.Parallel()
			b := parse(t, "```"+info+"\n```\n").Blocks[0]
			assert.Equal(t, tt.declares, b.Package != "")
			assert.Equal(t, tt.console, b.Console())
			assert.Equal(t, tt.file, b.File)
			assert.Equal(t, tt.declares || tt.console || tt.file != "", b.Filled())
		})
	}
}

func TestWhatCannotBeReadIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ source, want string }{
		"no line after the fence":  {"\n```go kcm/app Run", ":2: the block is not closed with ``` on a line of its own"},
		"no closing fence":         {"\n```text\nx\n", ":2: the block is not closed with ``` on a line of its own"},
		"a shorter closing fence":  {"````text\nx\n```\n", ":1: the block is not closed with ```` on a line of its own"},
		"a longer closing fence":   {"```text\nx\n````\n", ":1: the block is not closed with ``` on a line of its own"},
		"code in a list":           {"- a\n  ```go kcm/app Run\n  ```\n", ":2: write the block without indentation and with ```, so that it can be filled"},
		"a file in a quotation":    {"> ```yaml a/b\n> ```\n", ":1: write the block without indentation and with ```, so that it can be filled"},
		"a session between tildes": {"~~~console\n~~~\n", ":1: write the block without indentation and with ```, so that it can be filled"},
		"a step without a name":    {"a\n\n<!-- step: -->\n", ":3: give the step a name, for example: <!-- step: naive -->"},
		"a step twice":             {"<!-- step: a -->\n\n<!-- step: a -->\n", ":3: a second step a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse(3, "03-a", &Page{Path: "README.md", Source: []byte(tt.source)})
			require.EqualError(t, err, "chapters/03-a/README.md"+tt.want)
			assert.Nil(t, c)
		})
	}
}

func TestPagesAreReadInOrderAndWrittenApart(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "chapters", "03-a")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string]string{
		"code.md":   "# The rest\n\n```go kcm/app c\nc\n```\n",
		"README.md": "# A\n\n`a`\n\n```go kcm/app a\na\n```\n",
		"2-more.md": "# More\n\nA word, `b`.\n\n```go kcm/app b\nb\n```\n\n<!-- step: half -->\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	all, err := Read(root)
	require.NoError(t, err)
	c := all[0]
	var bodies, places []string
	for _, b := range c.Blocks {
		bodies, places = append(bodies, b.Body), append(places, b.Place.String())
	}
	assert.Equal(t, []string{"a\n", "b\n", "c\n"}, bodies)
	assert.Equal(t, []string{"chapters/03-a/README.md:5", "chapters/03-a/2-more.md:5", "chapters/03-a/code.md:3"}, places)
	assert.Equal(t, "chapters/03-a/2-more.md:3", c.Spans[1].Place.String())
	assert.Equal(t, []string{"half"}, c.Steps)

	texts, err := c.Fill(map[*Block]Text{c.Blocks[0]: {Body: "longer\nthan before\n"}, c.Blocks[2]: {Body: "d\n"}})
	require.NoError(t, err)
	changed, err := c.Write(root, texts)
	require.NoError(t, err)
	assert.Equal(t, []string{"chapters/03-a/README.md", "chapters/03-a/code.md"}, changed)
	assert.Equal(t, "# The rest\n\n```go kcm/app c\nd\n```\n", string(texts[2]))
	assert.Equal(t, string(c.Pages[1].Source), string(texts[1]))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.md"), nil, 0o644))
	_, err = Read(root)
	assert.ErrorContains(t, err, "notes.md: a page of a chapter is README.md")
}

func TestFillReplacesBodiesAndNothingElse(t *testing.T) {
	t.Parallel()
	c := parse(t, chapter)
	filled, err := c.Fill(map[*Block]Text{c.Blocks[2]: {Body: "$ kcm\nusage\n"}, c.Blocks[0]: {}})
	require.NoError(t, err)
	want := strings.Replace(chapter, "func lead() {}\n", "", 1)
	want = strings.Replace(want, "```console\n", "```console\n$ kcm\nusage\n", 1)
	assert.Equal(t, want, string(filled[0]))

	again := parse(t, string(filled[0]))
	assert.Equal(t, "$ kcm\nusage\n", again.Blocks[2].Body)
	assert.Equal(t, 6, again.Blocks[1].Line, "the lines after a shorter body have moved")
}

// captioned has a block with a caption and changes, and what only looks like them.
const captioned = "Text\n" +
	"<sub>a caption · with a [link](x)</sub>\n" +
	"```go kcm/app Run\n" +
	"func Run() {}\n" +
	"```\n" +
	"\n" +
	"<details><summary>What has changed</summary>\n" +
	"\n" +
	"```diff\n" +
	"-func Run(x int) {}\n" +
	"\n" +
	"+func Run() {}\n" +
	"```\n" +
	"\n" +
	"</details>\n" +
	"\n" +
	"<sub>not above a block</sub>\n" +
	"\n" +
	"```yaml a/b\n" +
	"```\n" +
	"\n" +
	"<details><summary>The answer</summary>\n" +
	"\n" +
	"```diff\n" +
	"+x\n" +
	"```\n" +
	"\n" +
	"</details>\n" +
	"\n" +
	"<sub>a block of the reader's</sub>\n" +
	"```go\n" +
	"```\n"

func TestABlockHasWhatIsWrittenAboutItAboveAndBelow(t *testing.T) {
	t.Parallel()
	c := parse(t, captioned)
	run, file, answer, own := c.Blocks[0], c.Blocks[1], c.Blocks[2], c.Blocks[3]
	assert.Equal(t, Text{
		Caption: "<sub>a caption · with a [link](x)</sub>",
		Body:    "func Run() {}\n",
		Below:   Fold("What has changed", "```diff\n-func Run(x int) {}\n\n+func Run() {}\n```"),
	}, run.Text)
	for _, block := range []*Block{file, answer, own} {
		assert.Equal(t, Text{Body: block.Body}, block.Text, block.Info)
	}

	filled, err := c.Fill(map[*Block]Text{run: {Body: run.Body},
		file: {Caption: "<sub>b</sub>", Below: Fold("What has changed", "```diff\n-a\n```")}})
	require.NoError(t, err)
	assert.NotContains(t, string(filled[0]), "a caption")
	assert.Contains(t, string(filled[0]), "```\n\n<sub>not above")
	assert.Contains(t, string(filled[0]), "</sub>\n\n<sub>b</sub>\n```yaml a/b\n```\n\n<details><summary>What has changed</summary>\n\n```diff\n-a\n```\n\n</details>\n\n<details>")
	again := parse(t, string(filled[0]))
	refilled, err := again.Fill(map[*Block]Text{again.Blocks[0]: run.Text, again.Blocks[1]: file.Text})
	require.NoError(t, err)
	assert.Equal(t, captioned, string(refilled[0]))
}

func TestABodyThatWouldCloseItsBlockIsRefused(t *testing.T) {
	t.Parallel()
	c := parse(t, chapter)
	for _, body := range []string{"```\n", "a\n   ````` \nb\n", "```"} {
		_, err := c.Fill(map[*Block]Text{c.Blocks[0]: {Body: body}})
		assert.EqualError(t, err,
			"chapters/03-a/README.md:3: what the block is to hold has a line that closes it: open and close it with ````")
	}
	for _, body := range []string{"``\n", "    ```\n", "\t```\n", "```go\n", "x ```\n"} {
		filled, err := c.Fill(map[*Block]Text{c.Blocks[0]: {Body: body}})
		require.NoError(t, err)
		assert.Equal(t, body, parse(t, string(filled[0])).Blocks[0].Body)
	}
}

// write writes chapters by the names of their directories.
func write(t *testing.T, chapters map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for slug, text := range chapters {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "chapters", slug), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "chapters", slug, "README.md"), []byte(text), 0o644))
	}
	return root
}

func TestChaptersAreReadInTheirOrder(t *testing.T) {
	t.Parallel()
	chapters, err := Read(write(t, map[string]string{"10-last": "# L\n", "02-second-one": "# S\n", "00-first": "# F\n"}))
	require.NoError(t, err)
	require.Len(t, chapters, 3)
	assert.Equal(t, []int{0, 2, 10}, []int{chapters[0].Number, chapters[1].Number, chapters[2].Number})
	assert.Equal(t, "02-second-one", chapters[1].Slug)
	assert.Equal(t, "chapters/02-second-one/README.md", chapters[1].Path)
	assert.Equal(t, "# S\n", string(chapters[1].Pages[0].Source))
}

func TestWhatIsNoBookIsSaid(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		chapters map[string]string
		want     string
	}{
		"no chapter": {nil, "there is no chapter in ROOT/chapters: run this in the root of the repository"},
		"no number": {map[string]string{"leader": ""},
			"chapters/leader: a chapter's directory is named like 03-leader-election"},
		"the same number": {map[string]string{"01-a": "", "01-b": ""},
			"chapters/01-a/README.md and chapters/01-b/README.md have the same number"},
		"a faulty chapter": {map[string]string{"01-a": "```x\n"},
			"chapters/01-a/README.md:1: the block is not closed with ``` on a line of its own"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := write(t, tt.chapters)
			_, err := Read(root)
			require.Error(t, err)
			assert.Equal(t, tt.want, strings.ReplaceAll(err.Error(), root, "ROOT"))
		})
	}
}

func TestChaptersAreChosenByTheirNumbers(t *testing.T) {
	t.Parallel()
	all := func() []*Chapter { return []*Chapter{{Number: 0}, {Number: 3}, {Number: 10}} }
	tests := map[string]struct {
		numbers []string
		want    []int
		err     string
	}{
		"none is all":         {nil, []int{0, 3, 10}, ""},
		"two digits":          {[]string{"03"}, []int{3}, ""},
		"one digit":           {[]string{"3"}, []int{3}, ""},
		"the introduction":    {[]string{"00"}, []int{0}, ""},
		"in their order":      {[]string{"10", "0"}, []int{0, 10}, ""},
		"one that is missing": {[]string{"03", "04"}, nil, "there is no chapter 04: the book has 00 to 10"},
		"a word":              {[]string{"all"}, nil, "there is no chapter all: the book has 00 to 10"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Choose(all(), tt.numbers...)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			var numbers []int
			for _, c := range got {
				numbers = append(numbers, c.Number)
			}
			assert.Equal(t, tt.want, numbers)
		})
	}
}

func TestWhatIsDoneForEachChapterIsSaidAndFailsInTheirOrder(t *testing.T) {
	t.Parallel()
	all := []*Chapter{{Number: 1}, {Number: 2}, {Number: 3}}
	first := make(chan struct{})
	var out strings.Builder
	err := Each(t.Context(), all, 2, &out, func(c *Chapter) (string, error) {
		if c.Number == 1 {
			<-first // is done after the second, which runs beside it
		} else if c.Number == 2 {
			defer close(first)
		}
		if c.Number == 3 {
			return "3 parts", nil
		}
		return "a part", fmt.Errorf("chapter %d is wrong", c.Number)
	})
	require.EqualError(t, err, "chapter 1 is wrong\nchapter 2 is wrong")
	for _, line := range []string{`chapter 01: a part ✗ \d\.\d s`, `chapter 02: a part ✗ \d\.\d s`,
		`chapter 03: 3 parts ✓ \d\.\d s`, `\(3 of 3\)\n$`} {
		assert.Regexp(t, line, out.String())
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Each(ctx, all, 2, &out, func(*Chapter) (string, error) { panic("nothing is begun after the end") })
	assert.EqualError(t, err, "context canceled")
}

// FuzzParseChapter looks for Markdown that the parser does not survive, or that
// Fill does not give back.
func FuzzParseChapter(f *testing.F) {
	f.Add(chapter)
	f.Add("<!-- aside -->\nText <!-- step: a\nb --> x\n\n<!--")
	f.Add("```go kcm/app Run\r\nfunc Run() {}\r\n```\r\n")
	f.Add("- ```go a b\n\t```\n\n>>```x\n")
	f.Add(captioned)
	f.Add("``` \t\n```\n\n   ~~~ go kcm/app")
	f.Fuzz(func(t *testing.T, source string) {
		c, err := Parse(1, "01-a", &Page{Path: "README.md", Source: []byte(source)})
		if err != nil {
			return
		}
		texts := map[*Block]Text{}
		for _, b := range c.Blocks {
			texts[b] = b.Text
			line := strings.Split(source, "\n")[b.Line-1]
			require.Contains(t, line, b.Info[0], "the line of the fence is said")
		}
		filled, err := c.Fill(texts)
		require.NoError(t, err)
		require.Equal(t, source, string(filled[0]))
		for b := range texts {
			texts[b] = Text{}
		}
		emptied, err := c.Fill(texts)
		require.NoError(t, err)
		again, err := Parse(1, "01-a", &Page{Path: "README.md", Source: emptied[0]})
		require.NoError(t, err)
		require.Len(t, again.Blocks, len(c.Blocks))
		clear(texts)
		for i, b := range again.Blocks {
			require.Equal(t, c.Blocks[i].Info, b.Info)
			texts[b] = c.Blocks[i].Text
		}
		refilled, err := again.Fill(texts)
		require.NoError(t, err)
		require.Equal(t, source, string(refilled[0]))
	})
}
