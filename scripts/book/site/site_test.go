package site

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// written is the book's site as files, and what it was written from.
type written struct {
	site  *Site
	dir   string
	pages map[string]*document
}

var temporary string

// theSite writes the site of the book and reads its pages, once for all tests.
var theSite = sync.OnceValues(func() (*written, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return nil, err
	}
	site, err := read(root)
	if err != nil {
		return nil, err
	}
	if _, err := site.write(temporary); err != nil {
		return nil, err
	}
	pages, err := readPages(temporary)
	return &written{site, temporary, pages}, err
})

func siteOf(t *testing.T) *written {
	t.Helper()
	site, err := theSite()
	require.NoError(t, err)
	return site
}

func TestMain(m *testing.M) {
	var err error
	if temporary, err = os.MkdirTemp("", "site-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	closeBrowser()
	os.RemoveAll(temporary)
	os.Exit(code)
}

// document is a page as a browser would have it.
type document struct {
	name  string
	text  []byte
	root  *html.Node
	links []string
	ids   map[string]*html.Node
	// twice are the ids that it has more than once.
	twice []string
}

// readPages parses all pages of a site.
func readPages(dir string) (map[string]*document, error) {
	all := map[string]*document{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		all[name], err = parse(name, text)
		return err
	})
	return all, err
}

func parse(name string, text []byte) (*document, error) {
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	page := &document{name: name, text: text, root: root, ids: map[string]*html.Node{}}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				if page.ids[attribute.Val] != nil {
					page.twice = append(page.twice, attribute.Val)
				}
				page.ids[attribute.Val] = node
			case "href", "src":
				page.links = append(page.links, attribute.Val)
			}
		}
	}
	return page, nil
}

func TestEachPageIsInUTF8AndHasNoIDTwice(t *testing.T) {
	t.Parallel()
	for _, page := range siteOf(t).pages {
		assert.True(t, utf8.Valid(page.text), page.name)
		assert.Empty(t, page.twice, page.name)
	}
}

func TestEachLinkOfAPageLeadsSomewhereInTheSiteOrIsForTheReaderToFollow(t *testing.T) {
	t.Parallel()
	site := siteOf(t)
	for _, page := range site.pages {
		for node := range page.root.Descendants() {
			for _, attribute := range node.Attr {
				if attribute.Key == "src" || attribute.Key == "href" && node.Data == "link" {
					assert.NotContains(t, attribute.Val, "//", "%s loads something from another host", page.name)
				}
			}
		}
		for _, link := range page.links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "data:") {
				continue
			}
			file, fragment, _ := strings.Cut(link, "#")
			to := page.name
			if file != "" {
				to = path.Join(path.Dir(page.name), file)
			}
			_, err := os.Stat(filepath.Join(site.dir, to))
			assert.NoError(t, err, "%s links to %s", page.name, link)
			if other := site.pages[to]; other != nil && fragment != "" {
				assert.NotNil(t, other.ids[fragment], "%s links to %s, and there is no such place", page.name, link)
			}
		}
	}
}

func compressed(t *testing.T, text []byte) int {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := writer.Write(text)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return out.Len()
}

func TestNoPageIsHeavy(t *testing.T) {
	t.Parallel()
	site := siteOf(t)
	sizeOf := func(name string) int {
		text, err := os.ReadFile(filepath.Join(site.dir, name))
		require.NoError(t, err)
		return compressed(t, text)
	}
	common := sizeOf("site.css") + sizeOf("site.js")
	for _, page := range site.pages {
		if page.name != "book.html" { // that is all of them
			assert.LessOrEqual(t, compressed(t, page.text)+common, 100_000, page.name)
		}
	}
	assert.LessOrEqual(t, sizeOf("search-index.js"), 300_000)
	assert.LessOrEqual(t, sizeOf("history.js"), 100_000)
}

// textOf returns the text in a node, without what it is marked up with.
func textOf(node *html.Node) string {
	var out strings.Builder
	for inside := range node.Descendants() {
		if inside.Type == html.TextNode {
			out.WriteString(inside.Data)
		}
	}
	return out.String()
}

// first returns the first element of a name in a node.
func first(node *html.Node, name string) *html.Node {
	for inside := range node.Descendants() {
		if inside.Data == name {
			return inside
		}
	}
	return nil
}

func TestABlockHasTheBytesOfTheFileThatItNames(t *testing.T) {
	t.Parallel()
	site := siteOf(t)
	blocks := 0
	for block, shown := range site.site.view.Blocks {
		figure := site.pages[site.site.byPath[block.Path].Out].ids[anchorOf(shown[0])]
		require.NotNil(t, figure, "%s: no figure has it", block.Position(0))
		require.Equal(t, block.Body, textOf(first(figure, "pre")), block.Position(0))
		for _, one := range shown {
			if !one.Final {
				continue
			}
			file, err := fs.ReadFile(site.site.files, one.File)
			require.NoError(t, err)
			lines := strings.SplitAfter(string(file), "\n")
			require.True(t, strings.HasPrefix(strings.Join(lines[one.Line-1:], ""), block.Body[one.Begin:one.End]),
				"%s is not in line %d of %s", one.Name, one.Line, one.File)
			blocks++
		}
	}
	assert.Greater(t, blocks, 400)
}

func TestANameInCodeLeadsToWhatTheReaderHasThere(t *testing.T) {
	t.Parallel()
	references := 0
	for _, shown := range siteOf(t).site.view.All {
		for _, reference := range shown.References {
			name := shown.Block.Body[reference.Begin:reference.End]
			to := reference.To
			assert.LessOrEqual(t, to.Block.Chapter.Number, shown.Block.Chapter.Number,
				"%s in %s leads to a later chapter", name, shown.Name)
			if !to.Differs {
				assert.Regexp(t, fmt.Sprintf(`\b%s\b`, name), to.Block.Body, "%s in %s leads to %s", name, shown.Name, to.Name)
			}
			references++
		}
	}
	assert.Greater(t, references, 1000)
}

func TestANameInTheProseLeadsToNothingElseOfThatName(t *testing.T) {
	t.Parallel()
	view := siteOf(t).site.view
	numbered := map[int]*chapters.Chapter{}
	for _, shown := range view.All {
		numbered[shown.Block.Chapter.Number] = shown.Block.Chapter
	}
	for _, one := range []struct {
		chapter int
		span    string
		want    string
	}{
		{4, "controller.Loop", "Loop"},
		{14, "place.pods", "place"},
		{9, "ErrStaleCache", "ErrStaleCache"},
		{9, "GarbageCollector.deleteObject", "(*GarbageCollector).deleteObject"},
		{9, "GarbageCollector.Sync", ""}, // ours has no such field or method
		{4, "sync.WaitGroup", ""},        // sync is a method
		{4, "AddRateLimited", ""},        // of client-go's queue; chapter 21 wraps it
		{10, "Complete", ""},             // what a Job is, and a method of chapter 01
	} {
		got := ""
		if shown := view.Meant(numbered[one.chapter], one.span); shown != nil {
			got = shown.Name
		}
		assert.Equal(t, one.want, got, "%s in chapter %02d", one.span, one.chapter)
	}
}

func TestWhatAPageShowsAgainAfterAStepHasAnAnchorOfItsOwn(t *testing.T) {
	t.Parallel()
	shown := weave.Shown{}
	shown.Dir, shown.Name = "kcm/controller", "(*Loop).Run"
	assert.Equal(t, "controller.Loop.Run", anchorOf(&shown))
	shown.Step = "naive"
	assert.Equal(t, "controller.Loop.Run.naive", anchorOf(&shown))
}

func TestTheRestOfTheCodeIsBesideTheLessonAndNotOnTheRoute(t *testing.T) {
	t.Parallel()
	site := siteOf(t).site
	for _, page := range site.pages {
		if page.Chapter == nil {
			continue
		}
		html, err := site.layOut(page, []byte("<h1>body</h1>"))
		require.NoError(t, err)
		rests := strings.Count(string(html), `<p class="rest">`)
		if last := page.Chapter.Pages[len(page.Chapter.Pages)-1]; page.rest() || !strings.HasSuffix(last.Path, "/code.md") {
			assert.Zero(t, rests, page.Path)
		} else {
			assert.Equal(t, 2, rests, "%s leads to it from its head and from its end", page.Path)
		}
		assert.NotRegexp(t, `rel="(prev|next)" href="[^"]*-code\.html"`, string(html), page.Path)
	}
}

func TestALineOfProseDoesNotEndWithTheHyphensOfAFlag(t *testing.T) {
	t.Parallel()
	for node := range siteOf(t).pages["00-introduction.html"].root.Descendants() {
		if node.Data == "code" && textOf(node) == "kubectl create deployment web --image=web:1 --replicas=3" {
			kept := []string{}
			for inside := range node.Descendants() {
				if inside.Data == "span" {
					kept = append(kept, textOf(inside))
				}
			}
			assert.Equal(t, []string{"--image", "--replicas"}, kept)
			return
		}
	}
	assert.Fail(t, "chapter 00 does not begin with that command any more")
}

func TestInYAMLOnlyNamesAreBold(t *testing.T) {
	t.Parallel()
	out := highlight("yaml", "spec: {name: rover, image: web, ports: [1, 2], args: [--a, b]}\n", nil)
	assert.Equal(t, `<span class="f">spec</span>: {<span class="f">name</span>: rover, <span class="f">image</span>: web, <span class="f">ports</span>: [1, 2], <span class="f">args</span>: [--a, b]}`+"\n", out)
}

func TestThePageOfQuestionsHasAtLeastForty(t *testing.T) {
	t.Parallel()
	questions := 0
	for node := range siteOf(t).pages["questions.html"].root.Descendants() {
		if node.Data == "h3" && strings.HasSuffix(textOf(node), "?") {
			questions++
		}
	}
	assert.GreaterOrEqual(t, questions, 40)
}

func TestMarksAndColoursLeaveTheCodeAsItIs(t *testing.T) {
	t.Parallel()
	code := "// sum adds <up>.\nfunc sum(a, b int) string {\n\treturn `one\ntwo` + \"&\"\n}\n"
	begin := strings.Index(code, "sum(")
	out := highlight("go", code, []mark{{0, 0, `<a id="x"></a>`, ""}, {begin, begin + 3, `<a href="#y">`, "</a>"}})
	node, err := html.Parse(strings.NewReader("<pre>" + out + "</pre>"))
	require.NoError(t, err)
	assert.Equal(t, code, textOf(node))
	assert.Contains(t, out, `<a id="x"></a>`)
	assert.Contains(t, out, `<a href="#y"><span class="f">sum</span></a>`)
	for line := range strings.Lines(out) {
		assert.Equal(t, strings.Count(line, "<span"), strings.Count(line, "</span>"),
			"a span goes on over the end of %q", line)
	}
}

func TestOfASessionWhatIsTypedIsMarked(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "<span class=\"p\">$ </span><b>echo \\</b>\n<b>  1</b>\n1\n<span class=\"p\">$ </span><b>true</b>\n",
		highlight("console", "$ echo \\\n  1\n1\n$ true\n", nil))
}

func TestAHistoryShowsWhatIsNewAndWhatIsGone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"+a", "+b"}, weave.Changes("", "a\nb\n"))
	assert.Equal(t, []string{" a", "-b", "+c", " d"}, weave.Changes("a\nb\nd\n", "a\nc\nd\n"))
	assert.Equal(t, []string{"-a"}, weave.Changes("a\n", ""))
}

func TestTheEBookIsWellFormedAndWhole(t *testing.T) {
	t.Parallel()
	archive, err := zip.OpenReader(filepath.Join(siteOf(t).dir, "book.epub"))
	require.NoError(t, err)
	defer archive.Close()
	assert.Equal(t, "mimetype", archive.File[0].Name)
	assert.Equal(t, zip.Store, archive.File[0].Method)
	links, ids := map[string]string{}, map[string]bool{}
	for _, file := range archive.File[1:] {
		ids[file.Name] = true
		if slices.Contains([]string{".css", ".png"}, path.Ext(file.Name)) {
			continue
		}
		content, err := file.Open()
		require.NoError(t, err)
		decoder := xml.NewDecoder(content)
		for {
			token, err := decoder.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err, file.Name)
			element, _ := token.(xml.StartElement)
			if element.Name.Local == "rect" {
				assert.True(t, slices.ContainsFunc(element.Attr, func(a xml.Attr) bool { return a.Name.Local == "width" }),
					"%s: EPUB wants a width of each rect", file.Name)
			}
			for _, attribute := range element.Attr {
				switch attribute.Name.Local {
				case "id":
					ids[file.Name+"#"+attribute.Value] = true
				case "href", "src":
					links[inArchive(file.Name, attribute.Value)] = file.Name
				}
			}
		}
	}
	for link, from := range links {
		assert.True(t, ids[link] || strings.Contains(link, "://"),
			"%s of the e-book leads to %s, and there is no such place", from, link)
	}
	assert.Greater(t, len(links), 1000)
	assert.True(t, ids["book/07-deployment.xhtml#how-small-the-old-ones-may-be"])
}

// inArchive returns where a link in a file of an archive leads.
func inArchive(from, link string) string {
	switch {
	case strings.Contains(link, "://"):
		return link
	case strings.HasPrefix(link, "#"):
		return from + link
	}
	return path.Join(path.Dir(from), link)
}

func TestWhatHostsBuildTheSiteWithIsACommandOfTheMakefile(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	commands := regexp.MustCompile(`make ([a-z- ]+)`)
	for _, name := range []string{".github/workflows/site.yml", ".gitlab-ci.yml"} {
		text, err := os.ReadFile("../../../" + name)
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, &map[string]any{}), name)
		found := commands.FindAllStringSubmatch(string(text), -1)
		assert.NotEmpty(t, found, name)
		for _, match := range found {
			for target := range strings.FieldsSeq(match[1]) {
				assert.Contains(t, string(makefile), "\n"+target+":", name)
			}
		}
	}
}
