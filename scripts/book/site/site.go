// Package site writes the book as web pages: the chapters, and what they link to. There is no second source: the words
// come from the Markdown, the code and its history from package weave, scenarios from labs/scenarios.
//
// The pages open from files as well as from any server, under any path, and ask no other host for anything. Without
// JavaScript they can be read whole. With it they have a search, a slider through the history of a declaration, buttons
// that copy, and a memory of where the reader was.
package site

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

//go:embed static
var static embed.FS

var pageTemplate = template.Must(template.ParseFS(static, "static/*.html"))

// Site is the book as pages.
type Site struct {
	files fs.FS // those of the repository
	view  *weave.View
	// pages are in the order of the book, the start page first; byPath has them by their files in the repository.
	pages  []*Page
	byPath map[string]*Page
	// scripts are the scenarios and labs that show what a section says, by its address.
	scripts map[string][]script
	// wanted are the files and directories of the repository that pages lead to, in the order in which they were first
	// asked for. Each has a page, too.
	wanted []string
	// copied are files of the site, by their path in it, that are those of the repository.
	copied    map[string][]byte
	scenarios []scenarioFile
	// behind is what the contents of each page lead to after the pages of the book.
	behind []*Page
}

// script is a scenario or a lab that shows something.
type script struct{ Words, Path string }

// inBuild returns where the site of a book is.
func inBuild(root string) string { return filepath.Join(root, "build", "site") }

// Write writes the site of the book, in the place of the one that is there, and says so. Its pages lead to a PDF, too,
// if make pdf is to print one there.
func Write(root string, pdf bool, out io.Writer) error {
	begin := time.Now()
	s, err := read(root)
	if err != nil {
		return err
	}
	if pdf {
		s.behind = append(s.behind, &Page{Title: "The book as PDF", Out: "book.pdf"})
	}
	count, err := s.write(inBuild(root))
	if err == nil {
		fmt.Fprintf(out, "%s: %d files in %.1f s; open build/site/index.html\n",
			begin.Format(time.TimeOnly), count, time.Since(begin).Seconds())
	}
	return err
}

// write writes what has been read, once, into a directory, and returns how many files that are: rendering changes it.
func (s *Site) write(dir string) (int, error) {
	out, err := s.render()
	if err != nil {
		return 0, err
	}
	whole := dir + ".new" // it takes the place of the old one when it is whole: somebody may look at that
	if err := weave.WriteFiles(whole, out); err != nil {
		return 0, err
	}
	return len(out), errors.Join(os.RemoveAll(dir), os.Rename(whole, dir))
}

// read reads the book and everything that its pages need to know of each other.
func read(root string) (*Site, error) {
	book, err := weave.Open(root)
	if err != nil {
		return nil, err
	}
	view, err := book.View()
	if err != nil {
		return nil, err
	}
	s := &Site{files: os.DirFS(root), view: view, byPath: map[string]*Page{}, scripts: map[string][]script{},
		copied: map[string][]byte{}, behind: []*Page{
			{Title: "Scenarios", Out: "scenarios.html"},
			{Title: "The whole book on one page", Out: "book.html"},
			{Title: "The book as EPUB", Out: "book.epub"},
		}}
	if err := errors.Join(s.readScenarios(), s.addPages(book.Chapters)); err != nil {
		return nil, err
	}
	for _, page := range s.pages {
		s.collectScripts(page)
	}
	return s, nil
}

// addPages reads the start page, the chapters, and the pages beside them.
func (s *Site) addPages(all []*chapters.Chapter) error {
	failed := s.addPage("README.md", "index.html", nil)
	for _, chapter := range all {
		for _, page := range chapter.Pages {
			failed = errors.Join(failed, s.addPage(page.Path, page.Web(), chapter))
		}
	}
	beside, err := fs.Glob(s.files, "chapters/*.md")
	for _, file := range beside {
		failed = errors.Join(failed, s.addPage(file, strings.TrimSuffix(path.Base(file), ".md")+".html", nil))
	}
	return errors.Join(failed, err)
}

func (s *Site) addPage(path, out string, chapter *chapters.Chapter) error {
	source, err := fs.ReadFile(s.files, path)
	if err != nil {
		return err
	}
	page := newPage(path, out, source, chapter)
	s.pages = append(s.pages, page)
	s.byPath[path] = page
	return nil
}

// plain takes from the name of a method what tells it from a field: Type.method.
var plain = strings.NewReplacer("(", "", "*", "", ")", "")

// anchorOf returns the anchor of a declaration on its page: package.Type.method, and behind it the step where the page
// shows it again.
func anchorOf(shown *weave.Shown) string {
	anchor := path.Base(shown.Dir) + "." + plain.Replace(shown.Name)
	if shown.Step != "" {
		anchor += "." + shown.Step
	}
	return anchor
}

// addressOf returns the address of what shows a declaration, from the root of the site.
func (s *Site) addressOf(shown *weave.Shown) string {
	return s.byPath[shown.Block.Path].Out + "#" + anchorOf(shown)
}

func (s *Site) render() (map[string][]byte, error) {
	out := map[string][]byte{}
	var failed error
	put := func(name string) func([]byte, error) {
		return func(content []byte, err error) { out[name], failed = content, errors.Join(failed, err) }
	}
	list := &Page{Out: "scenarios.html", Title: "Scenarios"}
	put("search-index.js")(s.searchIndex(list)) // of what is written, before rendering changes it
	for _, page := range s.pages {
		var err error
		page.body, err = s.body(page)
		failed = errors.Join(failed, err)
		put(page.Out)(s.layOut(page, page.body))
	}
	put("book.html")(s.whole())
	put("book.epub")(s.epub(time.Now()))
	scenarios, err := s.scenarioList(list)
	failed = errors.Join(failed, err)
	put(list.Out)(s.layOut(list, scenarios))
	put("history.js")(s.histories())
	for _, name := range []string{"site.css", "site.js"} {
		put(name)(static.ReadFile("static/" + name))
	}
	failed = errors.Join(failed, s.renderFiles(put))
	maps.Copy(out, s.copied)
	return out, failed
}

// navigation is a line of the contents.
type navigation struct {
	Title, Address string
	Current        bool
	Sections       []*Heading
}

// layOut puts the body of a page into the frame that all pages have.
func (s *Site) layOut(page *Page, body []byte) ([]byte, error) {
	data := struct {
		*Page
		Root             string
		Body             template.HTML
		Chapters, Beside []navigation
		// Rest is the page with the rest of a chapter's code.
		Previous, Next, Rest *navigation
	}{Page: page, Root: strings.Repeat("../", strings.Count(page.Out, "/")), Body: template.HTML(body)}
	for _, other := range s.pages {
		line := navigation{Title: other.Title, Address: data.Root + other.Out, Current: other == page}
		switch {
		case other.Out == "index.html":
			line.Title = "Start"
		case line.Current:
			line.Sections = page.Sections()
		}
		if other.rest() {
			if other.Chapter == page.Chapter && other != page {
				data.Rest = &line
			}
		} else if other.Chapter != nil || other.Out == "index.html" {
			if n := len(data.Chapters); line.Current && n > 0 {
				data.Previous = &data.Chapters[n-1]
			} else if n > 0 && data.Chapters[n-1].Current {
				data.Next = &line
			}
			data.Chapters = append(data.Chapters, line)
		} else {
			data.Beside = append(data.Beside, line)
		}
	}
	for _, other := range s.behind {
		data.Beside = append(data.Beside, navigation{other.Title, data.Root + other.Out, other.Out == page.Out, nil})
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, data)
	return out.Bytes(), err
}
