package site

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

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

// epubTemplates are the files that say what an e-book consists of, as EPUB 3 has it (https://www.w3.org/TR/epub-33).
var epubTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"mediaType": func(name string) string { return mime.TypeByExtension(path.Ext(name)) },
}).ParseFS(static, "static/epub/*.tmpl"))

// epub returns the book as an e-book: an archive whose first file says that it is one, and is not compressed. What the
// book links to in the repository is named there and not linked.
func (s *Site) epub(modified time.Time) ([]byte, error) {
	book := struct {
		Title, Modified string
		Pages           []*Page
		Pictures        []string
	}{Title: s.pages[0].Title, Pages: s.inBook(), Modified: modified.UTC().Format(time.RFC3339)}
	var out bytes.Buffer
	var failed error
	archive := zip.NewWriter(&out)
	add := func(name string, method uint16, content []byte) {
		file, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = file.Write(content)
		}
		failed = errors.Join(failed, err)
	}
	fill := func(name, template string, data any) {
		var content bytes.Buffer
		failed = errors.Join(failed, epubTemplates.ExecuteTemplate(&content, template, data))
		add(name, zip.Deflate, content.Bytes())
	}
	add("mimetype", zip.Store, []byte("application/epub+zip"))
	pictures := map[string]bool{}
	for _, page := range s.inBook() {
		body, err := s.epubBody(page, pictures)
		failed = errors.Join(failed, err)
		fill("book/"+page.Stem()+".xhtml", "page.xhtml.tmpl", struct{ Title, Body string }{page.Title, body})
	}
	book.Pictures = slices.Sorted(maps.Keys(pictures))
	for _, name := range book.Pictures {
		add("book/"+name, zip.Deflate, s.copied[name])
	}
	fill("META-INF/container.xml", "container.xml.tmpl", book)
	fill("book/package.opf", "package.opf.tmpl", book)
	fill("book/contents.xhtml", "contents.xhtml.tmpl", book)
	style, err := static.ReadFile("static/epub/book.css")
	add("book/book.css", zip.Deflate, style)
	failed = errors.Join(failed, err, archive.Close())
	return out.Bytes(), failed
}

// epubBody returns what a page says as XHTML, which is how HTML is rendered here, and notes which pictures it shows.
func (s *Site) epubBody(page *Page, pictures map[string]bool) (string, error) {
	section, err := relink(page, func(address string) string {
		file, fragment, _ := strings.Cut(address, "#")
		switch stem := s.stem(file); {
		case stem != "":
			return withFragment(stem+".xhtml", fragment)
		case s.copied[file] != nil && path.Ext(file) != ".html":
			pictures[file] = true
			return address
		case strings.Contains(address, "://"):
			return address
		}
		return ""
	})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = html.Render(&out, section)
	return out.String(), err
}
