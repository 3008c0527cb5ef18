// Package chapters reads the chapters of the book: the fenced blocks and comments
// in them that mean something to the tools, and where they stand.
//
// A fenced block says by its info string what it holds:
//
//	go kcm/app lead runUntil        declarations of kcm
//	go kcm/app lead roster          a declaration that grows from chapter to chapter
//	yaml labs/06-replication/manifests/web.yaml
//	                                a file of the repository
//	lab A pod that is deleted is replaced
//	                                a step of the chapter's lab
//	console                         commands and what they print
//	go kcm/app release exercise     functions that the reader writes
//	go stub                         what the reader of an exercise finds
//	go stub without uuid            the same, but for an import that would tell the answer
//	go kcm/till Till New add whole  declarations of a package that the reader writes whole
//	diff kcm/app lead roster        what has been added to it; weave writes diff or go
//	diff release/too-early          a wrong solution of an exercise of the chapter
//	go kcm/app delay after:naive    on code.md: what is not there yet at that step of the lesson
//
// A block with another info string is nobody's business but the reader's.
//
// A chapter has one page or more: README.md, on which its lesson begins; further pages of the lesson, such as
// 2-own-writes.md; and code.md, the rest of its code. They are read as one text, in this order.
package chapters

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Chapter is one chapter of the book.
type Chapter struct {
	// Number is the one that its directory begins with.
	Number int
	// Slug is the name of its directory, number included.
	Slug string
	// Path is that of its README.md, relative to the root of the repository, with forward slashes.
	Path string
	// Pages are README.md, further pages of the lesson, and code.md.
	Pages []*Page
	// Blocks are the fenced blocks, in the order of the text.
	Blocks []*Block
	// Steps are the names of the places up to which the chapter is a program by itself: <!-- step: naive -->
	Steps []string
	// Finished says that this program has all else that the chapter shows, too: <!-- step: naive, all else finished -->
	Finished bool
	// Aside says that what the chapter adds to the packages of others is nothing that their tests see.
	Aside bool
	// Spans are the code spans in the prose.
	Spans []Span
	// Exercises are what the reader writes.
	Exercises []*Exercise
	// These are of use while the chapter is read: how many folded parts deep the text is, the heading above it, and the
	// exercise that it belongs to.
	folds   int
	heading string
	current *Exercise
}

// Page is a file of a chapter.
type Page struct {
	// Path is relative to the root of the repository, with forward slashes.
	Path   string
	Source []byte
	lines  []string
}

// text returns the lines from one, counted from 0, to before another.
func (p *Page) text(begin, end int) string { return strings.Join(p.lines[begin:end], "") }

// place is that of a line, counted from 0.
func (p *Page) place(line int) Place { return Place{p.Path, 1 + line} }

// Web is what the page is called in the book as web pages.
func (p *Page) Web() string {
	slug, name := path.Split(strings.TrimPrefix(p.Path, "chapters/"))
	if slug = path.Clean(slug); name == "README.md" {
		return slug + ".html"
	}
	return slug + "-" + strings.TrimSuffix(name, ".md") + ".html"
}

// Code tells whether the page has the rest of a chapter's code.
func (p *Page) Code() bool { return path.Base(p.Path) == "code.md" }

// standsApart tells whether the rest of the chapter's code is on a page of its own.
func (c *Chapter) standsApart() bool { return c.Pages[len(c.Pages)-1].Code() }

// Place is a line of a page, counted from 1.
type Place struct {
	Path string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.Path, p.Line) }

// Errorf returns an error about what stands there: it begins with path and line.
func (p Place) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", p, fmt.Errorf(format, args...))
}

// Span is code in a line of prose.
type Span struct {
	Place
	Text string
}

// Block is a fenced block.
type Block struct {
	Chapter *Chapter
	// Info are the words of its info string.
	Info []string
	// Place is that of its opening fence, on this page.
	Place
	Page *Page
	// After is how many steps stand before it.
	After int
	// Folded tells whether a reader has to unfold it.
	Folded bool
	Text

	// Package is the directory of the package of what the block declares, or "", and Names are the declarations that it
	// shows.
	Package string
	Names   []string
	// Roster tells whether they grow from chapter to chapter.
	Roster bool
	// Awaits is the step of the lesson after which they come, although the rest of the code is there from the beginning.
	Awaits string
	// Exercise tells whether the reader writes what the block shows, Whole whether as a whole package of which this is a
	// part, and Stub whether it shows what the reader finds.
	Exercise, Whole, Stub bool
	// Without are imports that the stub does not show, as they would tell the answer.
	Without []string
	// Wrong is the wrong solution that the block shows, as EXERCISE/WRONG, Step the sentence of a step of the chapter's
	// lab, and File the file that it shows, be it in part; or "".
	Wrong, Step, File string

	// These are lines of the page, counted from 0: of the caption, of the two fences, and of what follows the changes.
	begin, opening, closing, end int
	fence                        string
	number                       int // of the blocks before it in the chapter
}

// Text is what a tool can write about a block and into it.
type Text struct {
	// Caption is the line above the block, between <sub> and </sub>.
	Caption string
	// Body is what stands between the fences, and Differs tells whether declarations are shown there as a difference.
	Body    string
	Differs bool
	// Below is what is folded below the block, see [Fold].
	Below string
}

var chapterDirectory = regexp.MustCompile(`^(\d\d)-[a-z0-9-]+$`)

// Read reads the chapters in chapters/ under root that have these numbers, or all, in their order.
func Read(root string, numbers ...string) ([]*Chapter, error) {
	tree := os.DirFS(root)
	readmes, _ := fs.Glob(tree, "chapters/*/README.md") // the pattern is well-formed
	var chapters []*Chapter
	for _, readme := range readmes {
		slug := path.Base(path.Dir(readme))
		match := chapterDirectory.FindStringSubmatch(slug)
		if match == nil {
			return nil, fmt.Errorf("chapters/%s: a chapter's directory is named like 03-leader-election", slug)
		}
		pages, err := readPages(tree, path.Dir(readme))
		if err != nil {
			return nil, err
		}
		number, _ := strconv.Atoi(match[1]) // two digits, by the expression
		chapter, err := Parse(number, slug, pages...)
		if err != nil {
			return nil, err
		}
		if n := len(chapters); n > 0 && chapters[n-1].Number == number {
			return nil, fmt.Errorf("%s and %s have the same number", chapters[n-1].Path, chapter.Path)
		}
		chapters = append(chapters, chapter)
	}
	if len(chapters) == 0 {
		return nil, fmt.Errorf("there is no chapter in %s/chapters: run this in the root of the repository", root)
	}
	return Choose(chapters, numbers...)
}

// pageName matches what a page of a chapter is called.
var pageName = regexp.MustCompile(`^(README|[2-9]-.*|code)\.md$`)

// readPages reads the pages of a chapter in their order, which is that of their names but for README.md.
func readPages(tree fs.FS, dir string) (pages []*Page, err error) {
	files, _ := fs.Glob(tree, dir+"/*.md") // the pattern is well-formed
	for _, file := range files {
		page := &Page{Path: path.Base(file)}
		if !pageName.MatchString(page.Path) {
			return nil, fmt.Errorf("%s: a page of a chapter is README.md, then such as 2-own-writes.md, "+
				"and code.md for the rest of the code", file)
		}
		if page.Source, err = fs.ReadFile(tree, file); err != nil {
			return nil, err
		}
		if page.Path == "README.md" {
			pages = slices.Insert(pages, 0, page)
		} else {
			pages = append(pages, page)
		}
	}
	return pages, nil
}

// Choose returns the chapters with these numbers, in the order of the book, or all where none is given.
func Choose(all []*Chapter, numbers ...string) ([]*Chapter, error) {
	if len(numbers) == 0 {
		return all, nil
	}
	wanted := map[int]bool{}
	for _, word := range numbers {
		number, err := strconv.Atoi(word)
		if err != nil || !slices.ContainsFunc(all, func(c *Chapter) bool { return c.Number == number }) {
			first, last := all[0].Number, all[len(all)-1].Number
			return nil, fmt.Errorf("there is no chapter %s: the book has %02d to %02d", word, first, last)
		}
		wanted[number] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *Chapter) bool { return !wanted[c.Number] }), nil
}

// OfController returns the first chapter whose roster of controllers has one of that name or alias, or nil.
func OfController(all []*Chapter, name string) *Chapter {
	for _, c := range all {
		for _, b := range c.Blocks {
			names := b.Roster && slices.Contains(b.Names, "NewControllerDescriptors")
			if names && strings.Contains(b.Body, strconv.Quote(name)) {
				return c
			}
		}
	}
	return nil
}

// Parse reads the text of one chapter. The pages come with their names.
func Parse(number int, slug string, pages ...*Page) (*Chapter, error) {
	c := &Chapter{Number: number, Slug: slug, Path: "chapters/" + slug + "/README.md", Pages: pages}
	for _, p := range pages {
		if p.Path = "chapters/" + slug + "/" + p.Path; len(pages) > 1 && !bytes.HasSuffix(p.Source, []byte("\n")) {
			return nil, fmt.Errorf("%s does not end with a newline", p.Path)
		}
		if err := c.read(p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

var (
	// fenced is a line that opens a block: what stands before the fence, the fence, and the info string.
	fenced = regexp.MustCompile("^([ \t>*+-]*)(`{3,}|~{3,})[ \t]*([^`]*)$")
	span   = regexp.MustCompile("`([^`]+)`")
)

func (c *Chapter) read(p *Page) error {
	p.lines = strings.SplitAfter(string(p.Source), "\n")
	broken := false // tells whether the line before has begun a span of code that ends in this one
	for i := 0; i < len(p.lines); i++ {
		line := strings.TrimRight(p.lines[i], "\n"+blanks)
		if match := fenced.FindStringSubmatch(line); match != nil {
			end, err := c.addBlock(p, i, match[1], match[2], match[3])
			if err != nil {
				return err
			}
			i = end - 1
			continue
		}
		if strings.HasPrefix(line, "#") {
			if err := c.endExercise(i); err != nil {
				return err
			}
			c.heading = strings.TrimLeft(line, "# ")
		}
		c.folds += strings.Count(line, "<details") - strings.Count(line, "</details")
		for _, match := range comment.FindAllStringSubmatch(line, -1) {
			if err := c.addComment(p, i, match); err != nil {
				return err
			}
		}
		if broken = broken && line != ""; broken {
			_, line, _ = strings.Cut(line, "`")
		}
		if strings.HasPrefix(line, "<") {
			continue // HTML, or a caption
		}
		for _, match := range span.FindAllStringSubmatch(line, -1) {
			c.Spans = append(c.Spans, Span{p.place(i), match[1]})
		}
		broken = strings.Count(line, "`")%2 == 1
	}
	return c.endExercise(len(p.lines))
}

// addBlock adds the block that a line opens, and returns the line that follows it.
func (c *Chapter) addBlock(p *Page, opening int, before, fence, info string) (end int, err error) {
	b := &Block{Chapter: c, Page: p, number: len(c.Blocks), Info: strings.Fields(info), Place: p.place(opening),
		After: len(c.Steps), Folded: c.folds > 0, begin: opening, opening: opening, fence: fence}
	b.readInfo()
	indented := before != "" || fence[0] != '`'
	if indented && b.Filled() {
		return 0, b.Errorf("write the block without indentation and with ```, so that it can be filled")
	}
	length := slices.IndexFunc(p.lines[opening+1:], func(line string) bool {
		return b.closedBy(line) || before != "" && strings.Trim(line, ">\n"+blanks) == fence
	})
	b.closing = opening + 1 + length
	if length < 0 || !indented && strings.TrimRight(p.lines[b.closing], "\n"+blanks) != fence {
		return 0, b.Errorf("the block is not closed with %s on a line of its own", fence)
	}
	if b.end = b.closing + 1; indented || len(b.Info) == 0 {
		return b.end, nil // plain text
	}
	b.Body = p.text(opening+1, b.closing)
	if b.Filled() && !b.Console() {
		b.addSurroundings()
	}
	c.Blocks = append(c.Blocks, b)
	return b.end, c.addToExercise(b)
}

// blanks can stand behind a fence.
const blanks = " \t\r"

// What a tool folds below a block: a difference, or a line.
var below = regexp.MustCompile("^(\n<details><summary>" +
	"(?:What has changed|What was believed, and what catches it|As a whole)</summary>\n\n" +
	"(?:```(?:diff|go)\n(?:[^`\n].*\n|\n)*```|(?:.+\n)*.+)\n\n</details>\n)(?:\n|$)")

// Fold returns a text as it is folded below a block.
func Fold(summary, text string) string {
	return fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n\n</details>\n", summary, text)
}

// addSurroundings takes what a tool has written above and below the block for a part of it.
func (b *Block) addSurroundings() {
	p := b.Page
	if line := p.lines[max(b.opening-1, 0)]; strings.HasPrefix(line, "<sub>") && strings.HasSuffix(line, "</sub>\n") {
		b.begin, b.Caption = b.opening-1, strings.TrimSuffix(line, "\n")
	}
	if match := below.FindStringSubmatch(p.text(b.end, len(p.lines))); match != nil {
		b.Below = match[1]
		b.end += strings.Count(b.Below, "\n")
	}
}

// comment is what a comment says to the tools.
var (
	comment  = regexp.MustCompile(`<!--\s*((step:|exercise:|scenario:|aside\b)\s*(.*?))\s*-->`)
	stepName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

func (c *Chapter) addComment(p *Page, line int, match []string) error {
	switch place := p.place(line); match[2] {
	case "aside":
		c.Aside = true
	case "step:":
		name, finished := strings.CutSuffix(match[3], ", all else finished")
		switch {
		case !stepName.MatchString(name):
			return place.Errorf("give the step a name, for example: <!-- step: naive -->")
		case p.Code():
			return place.Errorf("a step is one of the lesson")
		case slices.Contains(c.Steps, name):
			return place.Errorf("a second step %s", name)
		}
		c.Steps, c.Finished = append(c.Steps, name), c.Finished || finished
	default:
		return c.beginExercise(match[1], p, line)
	}
	return nil
}

func (b *Block) readInfo() {
	if len(b.Info) < 2 {
		return
	}
	switch language, words := b.Info[0], b.Info[1:]; {
	case language == "go" && slices.Equal(words, []string{"stub"}):
		b.Stub = true
	case language == "go" && len(words) > 2 && slices.Equal(words[:2], []string{"stub", "without"}):
		b.Stub, b.Without = true, words[2:]
	case language == "go", language == "diff" && len(words) > 1:
		b.readDeclarations(words)
	case language == "diff" && len(words) == 1:
		b.Wrong = words[0]
	case language == "lab":
		b.Step, b.File = strings.Join(words, " "), "labs/"+b.Chapter.Slug+"/lab.txtar"
	case language != "diff" && len(words) == 1 && strings.Contains(words[0], "/"):
		b.File = words[0]
	}
}

func (b *Block) readDeclarations(words []string) {
	b.Package = words[0]
	for _, word := range words[1:] {
		switch word {
		case "roster":
			b.Roster = true
		case "exercise":
			b.Exercise = true
		case "whole":
			b.Exercise, b.Whole = true, true
		default:
			if step, isStep := strings.CutPrefix(word, "after:"); isStep {
				b.Awaits = step
			} else {
				b.Names = append(b.Names, word)
			}
		}
	}
}

// Precedes tells whether the block stands before an exercise.
func (b *Block) Precedes(e *Exercise) bool {
	return b.Chapter.Number < e.Chapter.Number || b.Chapter == e.Chapter && b.number < e.before
}

// Console tells whether the block shows commands and what they print.
func (b *Block) Console() bool { return len(b.Info) > 0 && b.Info[0] == "console" }

// Shell tells whether the block shows commands without what they print.
func (b *Block) Shell() bool { return len(b.Info) > 0 && b.Info[0] == "sh" }

// Filled tells whether a tool fills the block or compiles it.
func (b *Block) Filled() bool {
	return b.Package != "" || b.Stub || b.Console() || b.File != "" || b.Wrong != ""
}

// Position returns path and line of a line of the body, counted from 0.
func (b *Block) Position(line int) string {
	return Place{b.Path, b.Line + 1 + line}.String()
}

// Fill returns the texts of the pages with other texts for some blocks.
func (c *Chapter) Fill(texts map[*Block]Text) ([][]byte, error) {
	var pages [][]byte
	for _, p := range c.Pages {
		var out bytes.Buffer
		done := 0
		for _, b := range c.Blocks {
			text, ok := texts[b]
			if !ok || b.Page != p {
				continue
			}
			if slices.ContainsFunc(strings.Split(text.Body, "\n"), b.closedBy) {
				return nil, b.Errorf("what the block is to hold has a line that closes it: open and close it with %s`", b.fence)
			}
			out.WriteString(p.text(done, b.begin))
			if text.Caption != "" {
				out.WriteString(text.Caption + "\n")
			}
			opening := p.lines[b.opening]
			if b.Package != "" {
				opening = strings.Replace(opening, b.Info[0], map[bool]string{false: "go", true: "diff"}[text.Differs], 1)
			}
			out.WriteString(opening + text.Body + p.lines[b.closing] + text.Below)
			if done = b.end; text.Below != "" && p.lines[done] != "" && p.lines[done] != "\n" {
				out.WriteByte('\n')
			}
		}
		out.WriteString(p.text(done, len(p.lines)))
		pages = append(pages, out.Bytes())
	}
	return c.timed(pages), nil
}

// Write writes the pages whose texts have changed, and returns their paths.
func (c *Chapter) Write(root string, texts [][]byte) ([]string, error) {
	var changed []string
	for i, p := range c.Pages {
		if bytes.Equal(texts[i], p.Source) {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(p.Path)), texts[i], 0o644); err != nil {
			return changed, err
		}
		changed = append(changed, p.Path)
	}
	return changed, nil
}

// closedBy tells whether a line of a body would end the block.
func (b *Block) closedBy(line string) bool {
	fence := strings.TrimLeft(line, " ")
	return len(line)-len(fence) <= 3 && strings.HasPrefix(fence, b.fence) &&
		strings.Trim(fence, b.fence[:1]+"\n\v\f"+blanks) == ""
}
