package site

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"golang.org/x/net/html"
)

// epubTemplates are the files that say what an e-book consists of, as EPUB 3 has it (https://www.w3.org/TR/epub-33).
var epubTemplates = template.Must(template.ParseFS(static, "static/epub/*.tmpl"))

// epub returns the book as an e-book. What it links to in the repository is named there and not linked.
func (s *Site) epub(bodies map[*Page][]byte, modified time.Time) ([]byte, error) {
	book := struct {
		Title, Modified string
		Pages           []epubPage
		Pictures        []string
	}{Title: s.pages[0].Title, Modified: modified.UTC().Format(time.RFC3339)}
	files, pictures := map[string][]byte{}, map[string]bool{}
	for _, page := range s.inBook() {
		text, err := s.epubPage(page, bodies[page], pictures)
		if err != nil {
			return nil, err
		}
		book.Pages = append(book.Pages, epubPage{stem(page), page.Title, page.sections()})
		files["book/"+stem(page)+".xhtml"] = text
	}
	book.Pictures = slices.Sorted(maps.Keys(pictures))
	for _, name := range book.Pictures {
		files["book/"+name] = epubPicture(s.files.copied[name])
	}
	for name, to := range map[string]string{"container.xml": "META-INF/container.xml", "package.opf": "book/package.opf", "contents.xhtml": "book/contents.xhtml"} {
		var out bytes.Buffer
		if err := epubTemplates.ExecuteTemplate(&out, name+".tmpl", book); err != nil {
			return nil, err
		}
		files[to] = out.Bytes()
	}
	style, err := static.ReadFile("static/epub/book.css")
	if err != nil {
		return nil, err
	}
	files["book/book.css"] = style
	return pack(files)
}

// What Mermaid writes and readers of e-books refuse, by what is put in its place: a role that they do not know, rectangles
// without a size, and attributes that SVG does not have.
var inPictures = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(` role="graphics-document document"`), ` role="img"`},
	{regexp.MustCompile(`<rect(?: class="background" style="[^"]*")?/>`), `<rect width="0" height="0"/>`},
	{regexp.MustCompile(`(<(?:rect|line) [^>]*?) name="[^"]*"`), `$1`},
	{regexp.MustCompile(`(<circle [^>]*?) width="[^"]*" height="[^"]*"`), `$1`},
}

// epubPicture returns a picture as EPUB allows it.
func epubPicture(svg []byte) []byte {
	for _, one := range inPictures {
		svg = one.pattern.ReplaceAll(svg, []byte(one.instead))
	}
	return svg
}

type epubPage struct {
	Name, Title string
	Sections    []*Heading
}

// epubPage returns a page as XHTML, and notes which pictures it shows.
func (s *Site) epubPage(page *Page, body []byte, pictures map[string]bool) ([]byte, error) {
	section, err := relink(page, body, func(address string) string {
		file, fragment, _ := strings.Cut(address, "#")
		for _, other := range s.inBook() {
			if other.Out == file {
				return withFragment(stem(other)+".xhtml", fragment)
			}
		}
		if _, ok := s.files.copied[file]; ok {
			pictures[file] = true
			return address
		}
		if strings.Contains(address, "://") {
			return address
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en-GB" xml:lang="en-GB">
<head><title>%s</title><link rel="stylesheet" href="book.css"/></head>
<body>
`, html.EscapeString(page.Title))
	writeXHTML(&out, section)
	out.WriteString("\n</body>\n</html>\n")
	return out.Bytes(), nil
}

// writeXHTML writes a node as XML.
func writeXHTML(out *bytes.Buffer, node *html.Node) {
	if node.Type == html.TextNode {
		out.WriteString(html.EscapeString(node.Data))
		return
	}
	if node.Type != html.ElementNode {
		return
	}
	out.WriteString("<" + node.Data)
	for _, attribute := range node.Attr {
		fmt.Fprintf(out, ` %s="%s"`, attribute.Key, html.EscapeString(attribute.Val))
	}
	if node.FirstChild == nil && slices.Contains([]string{"br", "hr", "img", "wbr"}, node.Data) {
		out.WriteString("/>")
		return
	}
	out.WriteString(">")
	for child := range node.ChildNodes() {
		writeXHTML(out, child)
	}
	out.WriteString("</" + node.Data + ">")
}

// pack returns files as an archive whose first file says that it is an e-book, and is not compressed.
func pack(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	first, err := archive.CreateHeader(&zip.FileHeader{Name: "mimetype", Method: zip.Store})
	if err != nil {
		return nil, err
	}
	if _, err := first.Write([]byte("application/epub+zip")); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := archive.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err = archive.Close()
	return out.Bytes(), err
}
