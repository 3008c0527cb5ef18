package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// pages are the Markdown files whose links are checked.
var pages = []string{"*.md", "chapters/*/README.md", "labs/*/README.md"}

// page is a Markdown file: where it can be linked to, and where it links to.
type page struct {
	path    string
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
	known := map[string]*page{}
	var mistakes []error
	for _, pattern := range pages {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return []error{err}
		}
		for _, path := range paths {
			p, err := readPage(path)
			if err != nil {
				return []error{err}
			}
			known[path] = p
		}
	}
	for path, p := range known {
		name, err := filepath.Rel(root, path)
		if err != nil {
			return []error{err}
		}
		for _, l := range p.links {
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
	p := &page{path: path, anchors: map[string]bool{}}
	for _, match := range htmlAnchor.FindAllSubmatch(source, -1) {
		p.anchors[string(match[1])] = true
	}
	line := 1
	err = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if node.Type() == ast.TypeBlock && node.Lines() != nil && node.Lines().Len() > 0 {
			line = 1 + strings.Count(string(source[:node.Lines().At(0).Start]), "\n")
		}
		switch node := node.(type) {
		case *ast.Heading:
			p.addHeading(string(node.Lines().Value(source)))
		case *ast.Link:
			p.links = append(p.links, link{line, string(node.Destination)})
		case *ast.Image:
			p.links = append(p.links, link{line, string(node.Destination)})
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// addHeading adds the anchor that code hosts give a heading: in lower case, with
// hyphens for spaces, without punctuation, and with a number when it comes again.
func (p *page) addHeading(heading string) {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, strings.TrimSpace(heading))
	numbered := anchor
	for i := 1; p.anchors[numbered]; i++ {
		numbered = fmt.Sprintf("%s-%d", anchor, i)
	}
	p.anchors[numbered] = true
}
