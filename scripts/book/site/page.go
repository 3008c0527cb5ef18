package site

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Page is a page that is written in Markdown.
type Page struct {
	// Path is that of the Markdown in the repository, Out that of the page in the site.
	Path, Out string
	Title     string
	// Chapter is nil for a page that is none.
	Chapter *chapters.Chapter

	source   []byte
	document ast.Node
	headings []*Heading
	// blocks are the chapter's, by what they are in the document. captions belong to the block below them.
	blocks   map[ast.Node]*chapters.Block
	captions map[ast.Node]*ast.FencedCodeBlock
	// within is the anchor of the heading above a block or a table's row.
	within map[ast.Node]string
	body   []byte // as HTML
}

// Heading is one of a page, with those below it.
type Heading struct {
	Title, Anchor string
	Level         int
	Below         []*Heading
}

// markdown parses what code hosts show: CommonMark with tables.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table))

// rest tells whether the page has the rest of a chapter's code. It is read beside the lesson.
func (p *Page) rest() bool { return p.Chapter != nil && path.Base(p.Path) == "code.md" }

func newPage(path, out string, source []byte, chapter *chapters.Chapter) *Page {
	if chapter != nil {
		source = chapters.WithoutTurn(source) // the frame leads back and on
	}
	p := &Page{Path: path, Out: out, Chapter: chapter, source: source, blocks: map[ast.Node]*chapters.Block{},
		captions: map[ast.Node]*ast.FencedCodeBlock{}, within: map[ast.Node]string{}}
	p.document = markdown.Parser().Parse(text.NewReader(source))
	anchors := map[string]int{}
	within := ""
	walk(p.document, func(node ast.Node) {
		switch node := node.(type) {
		case *ast.Heading:
			within = p.addHeading(node, anchors)
		case *ast.FencedCodeBlock:
			p.addBlock(node)
		case *ast.Paragraph:
			p.addCaption(node)
		}
		p.within[node] = within
	})
	return p
}

// walk visits a node and all below it, in the order of the text.
func walk(node ast.Node, visit func(ast.Node)) {
	visit(node)
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		walk(child, visit)
	}
}

// addHeading gives a heading the anchor that code hosts give it.
func (p *Page) addHeading(node *ast.Heading, anchors map[string]int) string {
	title := chapters.Plain(node, p.source)
	anchor := chapters.Anchor(title)
	again := anchors[anchor]
	anchors[anchor]++
	if again > 0 {
		anchor = fmt.Sprintf("%s-%d", anchor, again)
	}
	node.SetAttributeString("id", anchor)
	if node.Level == 1 && p.Title == "" {
		p.Title = title
	}
	p.headings = append(p.headings, &Heading{Title: title, Anchor: anchor, Level: node.Level})
	return anchor
}

func (p *Page) addBlock(node *ast.FencedCodeBlock) {
	if p.Chapter == nil || node.Info == nil {
		return
	}
	place := chapters.Place{Path: p.Path, Line: 1 + bytes.Count(p.source[:node.Info.Segment.Start], []byte("\n"))}
	if i := slices.IndexFunc(p.Chapter.Blocks, func(b *chapters.Block) bool { return b.Place == place }); i >= 0 {
		p.blocks[node] = p.Chapter.Blocks[i]
	}
}

// addCaption finds the small line above a block.
func (p *Page) addCaption(node *ast.Paragraph) {
	block, ok := node.NextSibling().(*ast.FencedCodeBlock)
	first, small := node.FirstChild().(*ast.RawHTML)
	if !ok || !small || string(first.Segments.Value(p.source)) != "<sub>" {
		return
	}
	p.captions[node] = block
	node.RemoveChild(node, first)
	if last, ok := node.LastChild().(*ast.RawHTML); ok {
		node.RemoveChild(node, last)
	}
}

// Sections returns the headings below the title, and those below them.
func (p *Page) Sections() []*Heading {
	var sections []*Heading
	for _, h := range p.headings {
		switch {
		case h.Level == 2:
			sections = append(sections, &Heading{Title: h.Title, Anchor: h.Anchor})
		case h.Level == 3 && len(sections) > 0:
			last := sections[len(sections)-1]
			last.Below = append(last.Below, h)
		}
	}
	return sections
}

// address returns where a link of a page leads in the site, from the root of the site. What is on another host is
// returned as it is.
func (s *Site) address(from *Page, destination, words string) string {
	to, err := url.Parse(destination)
	if err != nil || to.Scheme != "" || to.Host != "" {
		return destination
	}
	file := from.Path
	if to.Path != "" {
		file = path.Join(path.Dir(from.Path), to.Path)
	}
	return withFragment(s.addressOfScript(file, words), to.Fragment)
}

func withFragment(address, fragment string) string {
	if fragment == "" {
		return address
	}
	return address + "#" + fragment
}

// relative returns an address as a page of the site links to it.
func relative(from, address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	file, fragment, _ := strings.Cut(address, "#")
	if file == from && fragment != "" {
		return "#" + fragment
	}
	return withFragment(strings.Repeat("../", strings.Count(from, "/"))+file, fragment)
}

// collectScripts notes which scenarios and steps of labs show what a section says: those that it links to, and those
// that a line of a table names beside a link to the section.
func (s *Site) collectScripts(page *Page) {
	walk(page.document, func(node ast.Node) {
		link, ok := node.(*ast.Link)
		if !ok || !bytes.HasSuffix(link.Destination, []byte(".txtar")) {
			return
		}
		found := script{chapters.Plain(link, page.source), path.Join(path.Dir(page.Path), string(link.Destination))}
		s.addScript(withFragment(page.Out, page.within[link]), found)
		if row := around(link, tables.KindTableRow); row != nil {
			walk(row, func(beside ast.Node) {
				if other, ok := beside.(*ast.Link); ok && bytes.Contains(other.Destination, []byte(".md#")) {
					s.addScript(s.address(page, string(other.Destination), ""), found)
				}
			})
		}
	})
}

// around returns a node, or the innermost that it is a part of, of some kind, or nil.
func around(node ast.Node, kinds ...ast.NodeKind) ast.Node {
	for node != nil && !slices.Contains(kinds, node.Kind()) {
		node = node.Parent()
	}
	return node
}

func (s *Site) addScript(address string, found script) {
	if !slices.Contains(s.scripts[address], found) {
		s.scripts[address] = append(s.scripts[address], found)
	}
}
