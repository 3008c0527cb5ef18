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
//	go kcm/till Till New add whole  declarations of a package that the reader writes whole
//	diff release/too-early          a wrong solution of an exercise of the chapter
//	go kcm/app delay later          on code.md: what is not there yet at the first step of the lesson
//
// A block with another info string is nobody's business but the reader's.
//
// A chapter has one page or more: README.md, on which its lesson begins; further pages of the lesson, such as
// 2-own-writes.md; and code.md, the rest of its code. They are read as one text, in this order.
package chapters

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// Chapter is one chapter of the book.
type Chapter struct {
	// Number is the one that its directory begins with.
	Number int
	// Slug is the name of its directory, number included.
	Slug string
	// Path is that of its README.md, relative to the root of the repository,
	// with forward slashes.
	Path string
	// Pages are README.md, further pages of the lesson, and code.md.
	Pages []*Page
	// Source is the text of all pages, one after the other.
	Source []byte
	// Blocks are the fenced blocks, in the order of the text.
	Blocks []*Block
	// Steps are places up to which the chapter is a program by itself.
	Steps []Step
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
	// begin is the offset of the page in the chapter.
	begin int
}

// end is the offset of what follows the page in the chapter.
func (p *Page) end() int { return p.begin + len(p.Source) }

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

// Page returns the page on which the block stands.
func (b *Block) Page() *Page { return b.Chapter.page(b.opening) }

// OfRest tells whether the block stands on the page with the rest of the code.
func (b *Block) OfRest() bool { return b.Page().Code() }

// Place is a line of a page, counted from 1.
type Place struct {
	Path string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.Path, p.Line) }

// Span is code in a line of prose.
type Span struct {
	Place
	Text string
	// begin is the offset of Text in the chapter.
	begin int
}

// Block is a fenced block.
type Block struct {
	Chapter *Chapter
	// Info are the words of its info string.
	Info []string
	// Place is that of its opening fence.
	Place
	// After is how many steps stand before it.
	After int
	// Folded tells whether a reader has to unfold it.
	Folded bool
	Text

	// Package is the directory of the package of what the block declares, or "", and Names are the declarations that it
	// shows.
	Package string
	Names   []string
	// Roster tells whether they grow from chapter to chapter, and Later whether they come after the first step of the
	// lesson, although the rest of the code is there from the beginning.
	Roster, Later bool
	// Exercise tells whether the reader writes what the block shows, Whole whether as a whole package of which this is a
	// part, and Stub whether it shows what the reader finds.
	Exercise, Whole, Stub bool
	// Wrong is the wrong solution that the block shows, as EXERCISE/WRONG, Step the sentence of a step of the chapter's
	// lab, and File the file that it shows, be it in part; or "".
	Wrong, Step, File string

	// These are offsets in the chapter: of the caption, of the opening fence, of
	// the body and its end, of the end of the closing fence, and of the end of the
	// changes.
	begin, opening, body, bodyEnd, closed, end int
	fence                                      string
}

// Text is what a tool can write about a block and into it.
type Text struct {
	// Caption is the line above the block, between <sub> and </sub>.
	Caption string
	// Body is what stands between the fences.
	Body string
	// Below is what is folded below the block, see [Fold].
	Below string
}

// Step is a place in a lesson that a comment marks: <!-- step: naive -->
type Step struct {
	Place
	Name string
}

var chapterDirectory = regexp.MustCompile(`^(\d\d)-[a-z0-9-]+$`)

// Read reads the chapters in chapters/ under root, in their order.
func Read(root string) ([]*Chapter, error) {
	readmes, err := filepath.Glob(filepath.Join(root, "chapters", "*", "README.md"))
	if err != nil {
		return nil, err
	}
	var chapters []*Chapter
	for _, readme := range readmes {
		slug := filepath.Base(filepath.Dir(readme))
		match := chapterDirectory.FindStringSubmatch(slug)
		if match == nil {
			return nil, fmt.Errorf("chapters/%s: a chapter's directory is named like 03-leader-election", slug)
		}
		pages, err := readPages(filepath.Dir(readme))
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
		return nil, fmt.Errorf("there is no chapter in %s: run this in the root of the repository", filepath.Join(root, "chapters"))
	}
	return chapters, nil
}

// pageName matches what a page of a chapter is called.
var pageName = regexp.MustCompile(`^(README|[2-9]-.*|code)\.md$`)

// readPages reads the pages of a chapter in their order, which is that of their names but for README.md.
func readPages(dir string) ([]*Page, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	var pages []*Page
	for _, file := range files {
		page := &Page{Path: filepath.Base(file)}
		if !pageName.MatchString(page.Path) {
			return nil, fmt.Errorf("%s: a page of a chapter is README.md, then such as 2-own-writes.md, and code.md for the rest of the code", file)
		}
		if page.Source, err = os.ReadFile(file); err != nil {
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

// Choose returns the chapters with these numbers, in the order of the book, or all
// where none is given.
func Choose(all []*Chapter, numbers ...string) ([]*Chapter, error) {
	if len(numbers) == 0 {
		return all, nil
	}
	wanted := map[int]bool{}
	for _, word := range numbers {
		number, err := strconv.Atoi(word)
		if err != nil || !slices.ContainsFunc(all, func(c *Chapter) bool { return c.Number == number }) {
			return nil, fmt.Errorf("there is no chapter %s: the book has %02d to %02d", word, all[0].Number, all[len(all)-1].Number)
		}
		wanted[number] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *Chapter) bool { return !wanted[c.Number] }), nil
}

// OfController returns the first chapter whose roster of controllers has one of that
// name or alias, or nil.
func OfController(all []*Chapter, name string) *Chapter {
	for _, c := range all {
		for _, b := range c.Blocks {
			if b.Roster && slices.Contains(b.Names, "NewControllerDescriptors") && strings.Contains(b.Body, strconv.Quote(name)) {
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
		p.begin = len(c.Source)
		c.Source = append(c.Source, p.Source...)
	}
	document := goldmark.DefaultParser().Parse(text.NewReader(c.Source))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.FencedCodeBlock:
			return ast.WalkContinue, c.addBlock(node)
		case *ast.CodeSpan:
			c.addSpan(node)
		case *ast.HTMLBlock:
			lines := node.Lines()
			c.folds += bytes.Count(lines.Value(c.Source), []byte("<details")) - bytes.Count(lines.Value(c.Source), []byte("</details"))
			return ast.WalkContinue, c.addComments(lines.At(0).Start, max(lines.At(lines.Len()-1).Stop, node.ClosureLine.Stop))
		case *ast.RawHTML:
			segments := node.Segments
			return ast.WalkContinue, c.addComments(segments.At(0).Start, segments.At(segments.Len()-1).Stop)
		case *ast.Heading:
			return ast.WalkContinue, c.addHeading(node)
		case *ast.List:
			c.addList(node)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.endExercise(len(c.Source)); err != nil {
		return nil, err
	}
	c.Spans = slices.DeleteFunc(c.Spans, func(s Span) bool {
		return slices.ContainsFunc(c.Blocks, func(b *Block) bool { return b.begin <= s.begin && s.begin < b.end }) // a caption's
	})
	return c, nil
}

// addSpan adds a span of code, unless it is broken over two lines.
func (c *Chapter) addSpan(node *ast.CodeSpan) {
	if words, ok := node.FirstChild().(*ast.Text); ok && node.ChildCount() == 1 {
		begin := words.Segment.Start
		c.Spans = append(c.Spans, Span{c.at(begin), string(words.Segment.Value(c.Source)), begin})
	}
}

func (c *Chapter) addBlock(node *ast.FencedCodeBlock) error {
	if node.Info == nil {
		return nil // plain text
	}
	info := node.Info.Segment
	b := &Block{
		Chapter: c,
		Info:    strings.Fields(string(info.Value(c.Source))),
		Place:   c.at(info.Start),
		After:   len(c.Steps),
		Folded:  c.folds > 0,
		opening: c.lineStart(info.Start),
	}
	b.readInfo()
	b.fence = strings.TrimRight(string(c.Source[b.opening:info.Start]), blanks)
	if n := len(c.Blocks); n > 0 && b.opening < c.Blocks[n-1].end {
		return nil // the changes of the block above
	}
	newline := bytes.IndexByte(c.Source[info.Stop:], '\n')
	if newline < 0 {
		return b.Errorf("the block is not closed")
	}
	b.body = info.Stop + newline + 1
	b.bodyEnd = b.body
	if lines := node.Lines(); lines.Len() > 0 {
		b.bodyEnd = lines.At(lines.Len() - 1).Stop
	}
	b.Body = string(c.Source[b.body:b.bodyEnd])
	if strings.Trim(b.fence, "`") != "" {
		if b.Filled() {
			return b.Errorf("write the block without indentation and with ```, so that it can be filled")
		}
		return nil
	}
	closing, _, _ := strings.Cut(string(c.Source[b.bodyEnd:]), "\n")
	if strings.TrimRight(closing, blanks) != b.fence {
		return b.Errorf("the block is not closed with %s on a line of its own", b.fence)
	}
	b.closed = min(b.bodyEnd+len(closing)+1, len(c.Source))
	b.begin, b.end = b.opening, b.closed
	if b.Filled() && !b.Console() {
		b.addSurroundings()
	}
	c.Blocks = append(c.Blocks, b)
	return c.addToExercise(b)
}

// blanks can stand behind a fence.
const blanks = " \t\r"

// What a tool folds below a block: a difference, or a line.
var below = regexp.MustCompile("^(\n<details><summary>(?:What has changed since .*|What catches it)</summary>\n\n" +
	"(?:```diff\n(?:[^`\n].*\n|\n)*```|(?:.+\n)*.+)\n\n</details>\n)(?:\n|$)")

// Fold returns a text as it is folded below a block.
func Fold(summary, text string) string {
	return fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n\n</details>\n", summary, text)
}

// addSurroundings takes what a tool has written above and below the block for a
// part of it.
func (b *Block) addSurroundings() {
	source := b.Chapter.Source
	above := b.Chapter.lineStart(max(b.opening-1, 0))
	if line, ok := strings.CutSuffix(string(source[above:b.opening]), "</sub>\n"); ok && strings.HasPrefix(line, "<sub>") {
		b.begin, b.Caption = above, line+"</sub>"
	}
	if match := below.FindSubmatch(source[b.closed:b.Page().end()]); match != nil {
		b.Below = string(match[1])
		b.end += len(b.Below)
	}
}

// comment is what a comment says to the tools.
var (
	comment  = regexp.MustCompile(`(?s)<!--\s*((step:|exercise:|scenario:|aside\b)\s*(.*?))\s*-->`)
	stepName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// addComments finds what comments say to the tools in a part of the text that is HTML.
func (c *Chapter) addComments(begin, end int) error {
	for _, match := range comment.FindAllSubmatchIndex(c.Source[begin:end], -1) {
		group := func(n int) string { return string(c.Source[begin+match[2*n] : begin+match[2*n+1]]) }
		place := c.at(begin + match[0])
		switch group(2) {
		case "aside":
			c.Aside = true
		case "step:":
			s := Step{place, group(3)}
			switch {
			case !stepName.MatchString(s.Name):
				return fmt.Errorf("%s: give the step a name, for example: <!-- step: naive -->", place)
			case c.page(begin).Code():
				return fmt.Errorf("%s: a step is one of the lesson", place)
			case slices.ContainsFunc(c.Steps, func(other Step) bool { return other.Name == s.Name }):
				return fmt.Errorf("%s: a second step %s", place, s.Name)
			}
			c.Steps = append(c.Steps, s)
		default:
			if err := c.beginExercise(group(1), begin+match[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Chapter) lineStart(offset int) int {
	return bytes.LastIndexByte(c.Source[:offset], '\n') + 1
}

// page returns the page on which an offset lies.
func (c *Chapter) page(offset int) *Page {
	last := c.Pages[0]
	for _, p := range c.Pages {
		if p.begin <= offset {
			last = p
		}
	}
	return last
}

// at returns the place at which an offset lies.
func (c *Chapter) at(offset int) Place {
	p := c.page(offset)
	return Place{p.Path, 1 + bytes.Count(c.Source[p.begin:offset], []byte("\n"))}
}

// readInfo says what the info string means.
func (b *Block) readInfo() {
	if len(b.Info) < 2 {
		return
	}
	switch language, words := b.Info[0], b.Info[1:]; {
	case language == "go" && slices.Equal(words, []string{"stub"}):
		b.Stub = true
	case language == "go":
		b.readDeclarations(words)
	case language == "diff" && len(words) == 1:
		b.Wrong = words[0]
	case language == "lab":
		b.Step, b.File = strings.Join(words, " "), "labs/"+b.Chapter.Slug+"/lab.txtar"
	case language != "diff" && len(words) == 1 && strings.Contains(words[0], "/"):
		b.File = words[0]
	}
}

// readDeclarations takes words for a package, names, and what they are.
func (b *Block) readDeclarations(words []string) {
	b.Package = words[0]
	for _, word := range words[1:] {
		switch word {
		case "roster":
			b.Roster = true
		case "later":
			b.Later = true
		case "exercise":
			b.Exercise = true
		case "whole":
			b.Exercise, b.Whole = true, true
		default:
			b.Names = append(b.Names, word)
		}
	}
}

// Precedes tells whether the block stands before an exercise.
func (b *Block) Precedes(e *Exercise) bool {
	return b.Chapter.Number < e.Chapter.Number || b.Chapter == e.Chapter && b.begin < e.begin
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

// Errorf returns an error about the block that begins with its path and line.
func (b *Block) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", b.Place, fmt.Errorf(format, args...))
}

// Fill returns the texts of the pages with other texts for some blocks.
func (c *Chapter) Fill(texts map[*Block]Text) ([][]byte, error) {
	var pages [][]byte
	for _, p := range c.Pages {
		var out bytes.Buffer
		done := p.begin
		for _, b := range c.Blocks {
			text, ok := texts[b]
			if !ok || b.Page() != p {
				continue
			}
			if b.closedBy(text.Body) {
				return nil, b.Errorf("what the block is to hold has a line that closes it: open and close it with %s`", b.fence)
			}
			out.Write(c.Source[done:b.begin])
			if text.Caption != "" {
				out.WriteString(text.Caption + "\n")
			}
			out.Write(c.Source[b.opening:b.body])
			out.WriteString(text.Body)
			out.Write(c.Source[b.bodyEnd:b.closed])
			out.WriteString(text.Below)
			if done = b.end; text.Below != "" && done < p.end() && c.Source[done] != '\n' {
				out.WriteByte('\n')
			}
		}
		out.Write(c.Source[done:p.end()])
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
func (b *Block) closedBy(body string) bool {
	return regexp.MustCompile("(?m)^ {0,3}" + b.fence + "`*[ \t\v\f\r]*$").MatchString(body)
}
