package site

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The book as one thing: a page for print, and an e-book. Both have the bodies of the pages with other links in them.

// inBook returns the pages that the book as one thing has, in its order: all but the start page.
func (s *Site) inBook() []*Page {
	var pages []*Page
	for _, page := range s.pages {
		if page.Out != "index.html" {
			pages = append(pages, page)
		}
	}
	return pages
}

// stem is what a page is called in the book as one thing.
func stem(page *Page) string { return strings.TrimSuffix(page.Out, ".html") }

// relink parses the body of a page at the root of the site, and changes each link in it, which change gets as from that
// root. A link that becomes "" is taken out, but for its words.
func relink(page *Page, body []byte, change func(address string) string) (*html.Node, error) {
	section := &html.Node{Type: html.ElementNode, Data: "section", DataAtom: atom.Section}
	nodes, err := html.ParseFragment(bytes.NewReader(body), section)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page.Path, err)
	}
	for _, node := range nodes {
		section.AppendChild(node)
	}
	for node := range section.Descendants() {
		var kept []html.Attribute
		for _, attribute := range node.Attr {
			if attribute.Key == "href" || attribute.Key == "src" {
				if strings.HasPrefix(attribute.Val, "#") {
					attribute.Val = page.Out + attribute.Val
				}
				attribute.Val = change(attribute.Val)
			}
			if attribute.Key != "href" || attribute.Val != "" {
				kept = append(kept, attribute)
			}
		}
		node.Attr = kept
	}
	return section, nil
}

// whole returns the book as one page.
func (s *Site) whole(bodies map[*Page][]byte) ([]byte, error) {
	var out bytes.Buffer
	names := map[string]string{}
	fmt.Fprintf(&out, "<div class=\"whole\">\n<section>\n<h1>%s</h1>\n<ul>\n", html.EscapeString(s.pages[0].Title))
	for _, page := range s.inBook() {
		names[page.Out] = stem(page)
		fmt.Fprintf(&out, "<li><a href=\"#%s\">%s</a></li>\n", stem(page), html.EscapeString(page.Title))
	}
	out.WriteString("</ul>\n</section>\n")
	for _, page := range s.inBook() {
		section, err := relink(page, bodies[page], func(address string) string {
			file, fragment, _ := strings.Cut(address, "#")
			switch {
			case names[file] == "":
				return address
			case fragment == "":
				return "#" + names[file]
			}
			return "#" + names[file] + "." + fragment
		})
		if err != nil {
			return nil, err
		}
		for node := range section.Descendants() {
			for i, attribute := range node.Attr {
				if attribute.Key == "id" {
					node.Attr[i].Val = stem(page) + "." + attribute.Val
				}
			}
		}
		section.Attr = []html.Attribute{{Key: "id", Val: stem(page)}, {Key: "data-page", Val: page.Out}}
		if err := html.Render(&out, section); err != nil {
			return nil, err
		}
	}
	out.WriteString("\n</div>\n")
	return s.layOut(&Page{Out: "book.html", Title: "The whole book"}, out.Bytes())
}
