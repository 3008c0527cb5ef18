package site

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The book as one thing: a page for print, and an e-book. Both have the bodies of the pages with other links in them.

// inBook returns the pages that the book as one thing has, in its order: all but the start page.
func (s *Site) inBook() []*Page { return s.pages[1:] }

// stem is what a page is called in the book as one thing, or "" where it is no part of that.
func (s *Site) stem(out string) string {
	if slices.ContainsFunc(s.inBook(), func(page *Page) bool { return page.Out == out }) {
		return strings.TrimSuffix(out, ".html")
	}
	return ""
}

// Stem is what a page of the book as one thing is called in it.
func (p *Page) Stem() string { return strings.TrimSuffix(p.Out, ".html") }

// relink parses the body of a page at the root of the site, and changes each link in it, which change gets as from that
// root. A link that becomes "" is taken out, but for its words.
func relink(page *Page, change func(address string) string) (*html.Node, error) {
	section := &html.Node{Type: html.ElementNode, Data: "section", DataAtom: atom.Section}
	nodes, err := html.ParseFragment(bytes.NewReader(page.body), section)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page.Path, err)
	}
	for _, node := range nodes {
		section.AppendChild(node)
	}
	for node := range section.Descendants() {
		for i, attribute := range node.Attr {
			if attribute.Key == "href" || attribute.Key == "src" {
				if strings.HasPrefix(attribute.Val, "#") {
					attribute.Val = page.Out + attribute.Val
				}
				node.Attr[i].Val = change(attribute.Val)
			}
		}
		node.Attr = slices.DeleteFunc(node.Attr, func(a html.Attribute) bool { return a.Key == "href" && a.Val == "" })
	}
	return section, nil
}

// whole returns the book as one page.
func (s *Site) whole() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<div class=\"whole\">\n<section>\n<h1>%s</h1>\n<ul>\n", html.EscapeString(s.pages[0].Title))
	for _, page := range s.inBook() {
		fmt.Fprintf(&out, "<li><a href=\"#%s\">%s</a></li>\n", page.Stem(), html.EscapeString(page.Title))
	}
	out.WriteString("</ul>\n</section>\n")
	for _, page := range s.inBook() {
		section, err := relink(page, func(address string) string {
			file, fragment, found := strings.Cut(address, "#")
			switch stem := s.stem(file); {
			case stem == "":
				return address
			case found:
				return "#" + stem + "." + fragment
			default:
				return "#" + stem
			}
		})
		if err != nil {
			return nil, err
		}
		for node := range section.Descendants() {
			for i, attribute := range node.Attr {
				if attribute.Key == "id" {
					node.Attr[i].Val = page.Stem() + "." + attribute.Val
				}
			}
		}
		section.Attr = []html.Attribute{{Key: "id", Val: page.Stem()}, {Key: "data-page", Val: page.Out}}
		if err := html.Render(&out, section); err != nil {
			return nil, err
		}
	}
	out.WriteString("\n</div>\n")
	return s.layOut(&Page{Out: "book.html", Title: "The whole book"}, out.Bytes())
}
