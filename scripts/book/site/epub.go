package site

import (
	"archive/zip"
	"bytes"
	"errors"
	"maps"
	"mime"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"golang.org/x/net/html"
)

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
