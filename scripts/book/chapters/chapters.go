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
//	go kcm/till Till New add whole  declarations of a package that the reader writes whole
//	diff release/too-early          a wrong solution of an exercise of the chapter
//
// A block with another info string is nobody's business but the reader's.
package chapters

import (
	"bytes"
	"fmt"
	"maps"
	"os"
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
	Path   string
	Source []byte
	// Blocks are the fenced blocks, in the order of the text.
	Blocks []*Block
	// Retired are the declarations that the chapter takes out of the stages.
	Retired []Retirement
	// Aside says that what the chapter adds to the packages of others is nothing that their tests see.
	Aside bool
	// Spans are the code spans in the prose.
	Spans []Span
	// Exercises are what the reader writes.
	Exercises []*Exercise
	// marks are where exercises begin and end, in the order of the text.
	marks []mark
}

// Span is code in a line of prose.
type Span struct {
	Text string
	// Line is counted from 1, begin is the offset of Text in the chapter.
	Line, begin int
}

// Block is a fenced block.
type Block struct {
	Chapter *Chapter
	// Info are the words of its info string.
	Info []string
	// Line is that of its opening fence, counted from 1.
	Line int
	Text
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
	// Changes is the diff that is folded below the block, Since the title of it.
	Since, Changes string
}

// Retirement says that a declaration has had its time.
type Retirement struct {
	Chapter       *Chapter
	Line          int
	Package, Name string
}

var chapterDirectory = regexp.MustCompile(`^(\d\d)-[a-z0-9-]+$`)

// Read reads the chapters in chapters/ under root, in their order.
func Read(root string) ([]*Chapter, error) {
	paths, err := filepath.Glob(filepath.Join(root, "chapters", "*", "README.md"))
	if err != nil {
		return nil, err
	}
	var chapters []*Chapter
	for _, path := range paths {
		slug := filepath.Base(filepath.Dir(path))
		match := chapterDirectory.FindStringSubmatch(slug)
		if match == nil {
			return nil, fmt.Errorf("chapters/%s: a chapter's directory is named like 03-leader-election", slug)
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		number, _ := strconv.Atoi(match[1]) // two digits, by the expression
		chapter, err := Parse(number, slug, source)
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
			if b.Roster() && slices.Contains(b.Names(), "NewControllerDescriptors") && strings.Contains(b.Body, strconv.Quote(name)) {
				return c
			}
		}
	}
	return nil
}

// Parse reads the text of one chapter.
func Parse(number int, slug string, source []byte) (*Chapter, error) {
	c := &Chapter{Number: number, Slug: slug, Path: "chapters/" + slug + "/README.md", Source: source}
	document := goldmark.DefaultParser().Parse(text.NewReader(source))
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
			return ast.WalkContinue, c.addRemarks(lines.At(0).Start, max(lines.At(lines.Len()-1).Stop, node.ClosureLine.Stop))
		case *ast.RawHTML:
			segments := node.Segments
			return ast.WalkContinue, c.addRemarks(segments.At(0).Start, segments.At(segments.Len()-1).Stop)
		case *ast.Heading:
			c.addHeading(node)
		case *ast.List:
			c.addList(node)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.findExercises(); err != nil {
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
		c.Spans = append(c.Spans, Span{string(words.Segment.Value(c.Source)), c.LineAt(begin), begin})
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
		Line:    c.LineAt(info.Start),
		opening: c.lineStart(info.Start),
	}
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
	if b.Declares() || b.File() != "" || b.Wrong() != "" {
		b.addSurroundings()
	}
	c.Blocks = append(c.Blocks, b)
	return nil
}

// blanks can stand behind a fence.
const blanks = " \t\r"

var changes = regexp.MustCompile("^(\n<details><summary>(What has changed since .*)</summary>\n\n```diff\n((?:[^`\n].*\n|\n)*)```\n\n</details>\n)(?:\n|$)")

// addSurroundings takes what a tool has written above and below the block for a
// part of it.
func (b *Block) addSurroundings() {
	source := b.Chapter.Source
	above := b.Chapter.lineStart(max(b.opening-1, 0))
	if line, ok := strings.CutSuffix(string(source[above:b.opening]), "</sub>\n"); ok && strings.HasPrefix(line, "<sub>") {
		b.begin, b.Caption = above, line+"</sub>"
	}
	if match := changes.FindSubmatch(source[b.closed:]); match != nil {
		b.Since, b.Changes = string(match[2]), string(match[3])
		b.end += len(match[1])
	}
}

var (
	retirement = regexp.MustCompile(`(?s)<!--\s*retire:(.*?)-->`)
	aside      = regexp.MustCompile(`<!--\s*aside\s*-->`)
)

// addRemarks finds what comments say to the tools in a part of the text that is HTML.
func (c *Chapter) addRemarks(begin, end int) error {
	c.addComments(begin, end)
	c.Aside = c.Aside || aside.Match(c.Source[begin:end])
	for _, match := range retirement.FindAllSubmatchIndex(c.Source[begin:end], -1) {
		line := c.LineAt(begin + match[0])
		words := strings.Fields(string(c.Source[begin+match[2] : begin+match[3]]))
		if len(words) < 2 {
			return fmt.Errorf("%s:%d: say what is retired, for example: <!-- retire: kcm/app waitForSignal -->", c.Path, line)
		}
		for _, name := range words[1:] {
			c.Retired = append(c.Retired, Retirement{Chapter: c, Line: line, Package: words[0], Name: name})
		}
	}
	return nil
}

func (c *Chapter) lineStart(offset int) int {
	return bytes.LastIndexByte(c.Source[:offset], '\n') + 1
}

// LineAt returns the line in which an offset lies, counted from 1.
func (c *Chapter) LineAt(offset int) int {
	return 1 + bytes.Count(c.Source[:offset], []byte("\n"))
}

// Language is the first word of the info string.
func (b *Block) Language() string {
	if len(b.Info) == 0 {
		return ""
	}
	return b.Info[0]
}

// Declares tells whether the block shows declarations.
func (b *Block) Declares() bool { return b.Language() == "go" && len(b.Info) > 1 }

// Names returns the names of the declarations that the block shows.
func (b *Block) Names() []string {
	return slices.DeleteFunc(slices.Clone(b.Info[2:]), func(word string) bool { return slices.Contains([]string{"roster", "exercise", "whole"}, word) })
}

// Roster tells whether what the block shows grows from chapter to chapter.
func (b *Block) Roster() bool { return b.Declares() && slices.Contains(b.Info[2:], "roster") }

// Exercise tells whether the reader writes what the block shows.
func (b *Block) Exercise() bool {
	return b.Declares() && slices.Contains(b.Info[2:], "exercise") || b.Whole()
}

// Whole tells whether the reader writes the package as a whole of which the block shows
// a part.
func (b *Block) Whole() bool { return b.Declares() && slices.Contains(b.Info[2:], "whole") }

// Wrong returns the wrong solution that the block shows, as EXERCISE/WRONG, or "".
func (b *Block) Wrong() string {
	if b.Language() == "diff" && len(b.Info) == 2 {
		return b.Info[1]
	}
	return ""
}

// Step returns the sentence of the step that the block shows of the chapter's lab,
// or "".
func (b *Block) Step() string {
	if b.Language() == "lab" {
		return strings.Join(b.Info[1:], " ")
	}
	return ""
}

// File returns the file that the block shows, be it in part, or "".
func (b *Block) File() string {
	if b.Step() != "" {
		return "labs/" + b.Chapter.Slug + "/lab.txtar"
	}
	if len(b.Info) == 2 && b.Language() != "go" && b.Language() != "diff" && strings.Contains(b.Info[1], "/") {
		return b.Info[1]
	}
	return ""
}

// Console tells whether the block shows commands and what they print.
func (b *Block) Console() bool { return b.Language() == "console" }

// Shell tells whether the block shows commands without what they print.
func (b *Block) Shell() bool { return b.Language() == "sh" }

// Filled tells whether a tool fills the block or compiles it.
func (b *Block) Filled() bool {
	return b.Declares() || b.Console() || b.File() != "" || b.Wrong() != ""
}

// Position returns path and line of a line of the body, counted from 0.
func (b *Block) Position(line int) string {
	return fmt.Sprintf("%s:%d", b.Chapter.Path, b.Line+1+line)
}

// Errorf returns an error about the block that begins with its path and line.
func (b *Block) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", b.Chapter.Path, b.Line, fmt.Errorf(format, args...))
}

// Fill returns the text of the chapter with other texts for some blocks.
func (c *Chapter) Fill(texts map[*Block]Text) ([]byte, error) {
	var out bytes.Buffer
	done := 0
	for _, b := range slices.SortedFunc(maps.Keys(texts), func(x, y *Block) int { return x.begin - y.begin }) {
		text := texts[b]
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
		if text.Changes != "" {
			fmt.Fprintf(&out, "\n<details><summary>%s</summary>\n\n```diff\n%s```\n\n</details>\n", text.Since, text.Changes)
			if rest := c.Source[b.end:]; len(rest) > 0 && rest[0] != '\n' {
				out.WriteByte('\n')
			}
		}
		done = b.end
	}
	out.Write(c.Source[done:])
	return out.Bytes(), nil
}

// Rename returns the text of the chapter with other names in the info strings and
// retirements that are about a package, or about any if dir is "", and with other
// spans in the prose.
func (c *Chapter) Rename(dir string, name, span func(string) string) string {
	var out strings.Builder
	done := 0
	replace := func(begin, end int, with string) {
		out.WriteString(string(c.Source[done:begin]) + with)
		done = end
	}
	names := func(words string) string {
		inside := ""
		return word.ReplaceAllStringFunc(words, func(word string) string {
			switch {
			case inside == "":
				inside = word
			case dir == "" || inside == dir:
				return name(word)
			}
			return word
		})
	}
	parts := map[int]func(){}
	for _, b := range c.Blocks {
		if b.Declares() {
			begin := b.opening + strings.Index(string(c.Source[b.opening:b.body]), b.Info[0]) + len(b.Info[0])
			parts[begin] = func() { replace(begin, b.body, names(string(c.Source[begin:b.body]))) }
		}
	}
	for _, match := range retirement.FindAllSubmatchIndex(c.Source, -1) {
		parts[match[2]] = func() { replace(match[2], match[3], names(string(c.Source[match[2]:match[3]]))) }
	}
	for _, s := range c.Spans {
		parts[s.begin] = func() { replace(s.begin, s.begin+len(s.Text), span(s.Text)) }
	}
	for _, begin := range slices.Sorted(maps.Keys(parts)) {
		parts[begin]()
	}
	replace(len(c.Source), len(c.Source), "")
	return out.String()
}

var word = regexp.MustCompile(`\S+`)

// closedBy tells whether a line of a body would end the block.
func (b *Block) closedBy(body string) bool {
	return regexp.MustCompile("(?m)^ {0,3}" + b.fence + "`*[ \t\v\f\r]*$").MatchString(body)
}
