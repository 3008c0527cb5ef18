package weave

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// pages are the Markdown files whose links are checked.
var pages = []string{"*.md", "chapters/*.md", "chapters/*/*.md", "labs/*/README.md"}

// page is a Markdown file: where it can be linked to, and where it links to.
type page struct {
	anchors map[string]bool
	links   []link
}

type link struct {
	line        int
	destination string
}

// checkLinks finds links to files and anchors that are not there. Links to other
// sites are left alone: a check must not depend on the network.
func checkLinks(root string) []error {
	var mistakes []error
	known := map[string]*page{}
	for _, pattern := range pages {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return []error{err}
		}
		for _, path := range paths {
			if known[path], err = readPage(path); err != nil {
				return []error{err}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		name := strings.TrimPrefix(path, root+string(filepath.Separator))
		for _, l := range known[path].links {
			if wrong := l.check(path, known); wrong != "" {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: the link to %s: %s", name, l.line, l.destination, wrong))
			}
		}
	}
	return mistakes
}

// check says what is wrong with a link in a page.
func (l link) check(from string, known map[string]*page) string {
	to, err := url.Parse(l.destination)
	if err != nil {
		return err.Error()
	}
	if to.Scheme != "" || to.Host != "" {
		return ""
	}
	path := from
	if to.Path != "" {
		path = filepath.Join(filepath.Dir(from), filepath.FromSlash(to.Path))
	}
	if _, err := os.Stat(path); err != nil {
		return "there is no such file"
	}
	if to.Fragment == "" {
		return ""
	}
	if p := known[path]; p == nil || !p.anchors[to.Fragment] {
		return "there is no such heading or anchor"
	}
	return ""
}

var htmlAnchor = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)

func readPage(path string) (*page, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &page{anchors: map[string]bool{}}
	for _, match := range htmlAnchor.FindAllSubmatch(source, -1) {
		p.anchors[string(match[1])] = true
	}
	offset := 0
	err = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if node.Type() == ast.TypeBlock && node.Lines() != nil && node.Lines().Len() > 0 {
			offset = node.Lines().At(0).Start
		}
		switch node := node.(type) {
		case *ast.Heading:
			p.addHeading(chapters.Plain(node, source))
		case *ast.Text:
			offset = node.Segment.Start
		case *ast.Link:
			p.addLink(node, node.Destination, source, offset)
		case *ast.Image:
			p.addLink(node, node.Destination, source, offset)
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// addLink adds a link, with the line in which its text begins.
func (p *page) addLink(node ast.Node, destination, source []byte, offset int) {
	for child := node.FirstChild(); child != nil; child = child.FirstChild() {
		if words, ok := child.(*ast.Text); ok {
			offset = words.Segment.Start
		}
	}
	p.links = append(p.links, link{1 + bytes.Count(source[:offset], []byte("\n")), string(destination)})
}

// addHeading adds the anchor of a heading, with a number when it comes again.
func (p *page) addHeading(heading string) {
	anchor := chapters.Anchor(heading)
	numbered := anchor
	for i := 1; p.anchors[numbered]; i++ {
		numbered = fmt.Sprintf("%s-%d", anchor, i)
	}
	p.anchors[numbered] = true
}
