package site

import (
	"bytes"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// files are the files and directories of the repository that pages lead to. Each has a page, too.
type files struct {
	site *Site
	// wanted are their paths, in the order in which they were first asked for.
	wanted []string
	// copied are files of the site, by their path in it, that are those of the repository.
	copied map[string][]byte
	// moving are the recordings, which are pages already, by their path in the site.
	moving map[string][]byte
}

// recordings is the folder with what was recorded of the loops: pages that play it.
const recordings = "labs/view/recordings"

// place is a line of a file, counted from 1.
type place struct {
	path string
	line int
}

func newFiles(s *Site) *files {
	return &files{site: s, copied: map[string][]byte{}, moving: map[string][]byte{}}
}

// address returns where a file or a directory of the repository is shown, from the root of the site. The words of the
// link say which step of a lab is meant.
func (f *files) address(file, words string) string {
	folder, script := path.Split(strings.TrimPrefix(file, "labs/scenarios"))
	switch {
	case file == "chapters":
		return "index.html"
	case file == "labs/scenarios":
		return "scenarios.html"
	case strings.HasPrefix(file, "labs/scenarios/") && f.site.isScenario(file):
		return "scenarios.html#" + strings.TrimSuffix(strings.Trim(folder+script, "/"), ".txtar")
	}
	if content, err := os.ReadFile(filepath.Join(f.site.root, file)); err == nil && path.Dir(file) == recordings && path.Ext(file) == ".html" {
		f.moving["pictures/"+file] = content // as far below the root as the recording takes it to be
		return "pictures/" + file
	}
	if !slices.Contains(f.wanted, file) {
		f.wanted = append(f.wanted, file)
	}
	if info, err := os.Stat(filepath.Join(f.site.root, file)); err == nil && info.IsDir() {
		return "source/" + file + "/index.html"
	}
	if path.Base(file) == "lab.txtar" {
		if line := f.lineOf(file, "step "+words); line > 0 {
			return f.line(place{file, line})
		}
	}
	return "source/" + file + ".html"
}

func (f *files) line(at place) string {
	return withFragment(f.address(at.path, ""), fmt.Sprintf("L%d", at.line))
}

// lineOf returns which line of a file says something, or 0.
func (f *files) lineOf(file, words string) int {
	text, err := os.ReadFile(filepath.Join(f.site.root, file))
	if err != nil {
		return 0
	}
	return 1 + slices.Index(strings.Split(string(text), "\n"), words)
}

var sizeOfPicture = regexp.MustCompile(`viewBox="[-0-9.]+ [-0-9.]+ ([0-9]+)[0-9.]* ([0-9]+)`)

// picture returns the address of a picture, and its size as attributes, so that the page does not jump when it comes.
func (f *files) picture(file string) (address, size string, err error) {
	content, err := os.ReadFile(filepath.Join(f.site.root, file))
	if err != nil {
		return "", "", err
	}
	address = "pictures/" + file
	f.copied[address] = content
	if match := sizeOfPicture.FindSubmatch(content); match != nil {
		size = fmt.Sprintf(" width=\"%s\" height=\"%s\"", match[1], match[2])
	}
	return address, size, nil
}

// render adds the pages of files to those of the site, and what is copied.
func (f *files) render(out map[string][]byte) error {
	for _, shown := range f.site.view.All {
		if shown.File != "" {
			f.address(shown.File, "")
			f.address(shown.Dir, "")
		}
	}
	for i := 0; i < len(f.wanted); i++ { // a page can lead to more files
		file := f.wanted[i]
		page, body, err := f.page(file)
		if err != nil {
			return err
		}
		if out[page.Out], err = f.site.layOut(page, body); err != nil {
			return err
		}
	}
	for _, files := range []map[string][]byte{f.copied, f.moving} {
		maps.Copy(out, files)
	}
	return nil
}

// page returns the page of a file or a directory.
func (f *files) page(file string) (*Page, []byte, error) {
	page := &Page{Path: file, Out: "source/" + file + ".html", Title: file}
	full := filepath.Join(f.site.root, filepath.FromSlash(file))
	content, err := os.ReadFile(full)
	if info, failed := os.Stat(full); failed == nil && info.IsDir() {
		page.Out = "source/" + file + "/index.html"
		body, err := f.list(page)
		return page, body, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s, which a page links to: %w", file, err)
	}
	switch path.Ext(file) {
	case ".md":
		page = newPage(file, page.Out, content, nil)
		body, err := f.site.body(page)
		return page, body, err
	case ".svg", ".png":
		address, size, err := f.picture(file)
		return page, fmt.Appendf(nil, "<h1>%s</h1>\n<img src=%q alt=\"the picture %s\"%s>\n", file, relative(page.Out, address), file, size), err
	}
	return page, f.code(page, string(content)), nil
}

// list returns what a directory holds. What is in it is shown, but for directories.
func (f *files) list(page *Page) ([]byte, error) {
	entries, err := os.ReadDir(filepath.Join(f.site.root, filepath.FromSlash(page.Path)))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "<h1>%s</h1>\n<ul>\n", page.Path)
	for _, entry := range entries {
		file := page.Path + "/" + entry.Name()
		if entry.IsDir() && !slices.Contains(f.wanted, file) {
			fmt.Fprintf(&out, "<li>%s/</li>\n", entry.Name())
			continue
		}
		fmt.Fprintf(&out, "<li><a href=%q>%s</a></li>\n", relative(page.Out, f.site.pageOf(file)), entry.Name())
	}
	out.WriteString("</ul>\n")
	return out.Bytes(), nil
}

// pageOf returns the page of a file, which is one of the book's if it is a chapter.
func (s *Site) pageOf(file string) string {
	if page := s.byPath[file]; page != nil {
		return page.Out
	}
	return s.files.address(file, "")
}

// code returns a file with numbered lines, and where the book shows what it declares.
func (f *files) code(page *Page, content string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<h1>%s</h1>\n", page.Path)
	var links []string
	for _, shown := range f.site.view.All {
		if shown.File == page.Path && len(shown.Names) > 0 {
			links = append(links, fmt.Sprintf("<a href=%q>%s</a> (%02d)", relative(page.Out, f.site.addressOf(shown)), html.EscapeString(shown.Name), shown.Block.Chapter.Number))
		}
	}
	if len(links) > 0 {
		fmt.Fprintf(&out, "<p>In the book: %s.</p>\n", strings.Join(links, ", "))
	}
	out.WriteString("<figure class=\"code numbered\"><pre><code>")
	lines := strings.Split(strings.TrimSuffix(highlight(languageOf(page.Path), content, nil), "\n"), "\n")
	for i, line := range lines {
		fmt.Fprintf(&out, "<span id=\"L%d\">%s\n</span>", i+1, line)
	}
	out.WriteString("</code></pre></figure>\n")
	return out.Bytes()
}

// scenario is one of labs/scenarios. Its sentence is its name.
type scenario struct{ folder, name, sentence, text string }

// isScenario tells whether a path is that of a scenario, or of a folder of them.
func (s *Site) isScenario(file string) bool {
	return slices.ContainsFunc(s.scenarios, func(one *scenario) bool {
		folder := "labs/scenarios/" + one.folder
		return file == folder || file == folder+"/"+one.name+".txtar"
	})
}

func readScenarios(root string) ([]*scenario, error) {
	paths, err := filepath.Glob(filepath.Join(root, "labs", "scenarios", "*", "*.txtar"))
	if err != nil {
		return nil, err
	}
	var all []*scenario
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		words := strings.ReplaceAll(name, "-", " ")
		all = append(all, &scenario{filepath.Base(filepath.Dir(path)), name, strings.ToUpper(words[:1]) + words[1:], string(text)})
	}
	return all, nil
}

// scenarioList returns all scenarios, folded below their sentences.
func (s *Site) scenarioList(page *Page) []byte {
	var out bytes.Buffer
	out.WriteString("<h1>Scenarios</h1>\n<p>Each is a sentence about what a controller manager does, and a script that shows it. ")
	out.WriteString("<code>make compare ONLY=deployment/the-name</code> plays one with kcm and with the original, whose sentence it is as well.</p>\n")
	folder := ""
	for _, one := range s.scenarios {
		if one.folder != folder {
			folder = one.folder
			page.headings = append(page.headings, &Heading{Title: folder, Anchor: folder, Level: 2})
			fmt.Fprintf(&out, "<h2 id=%q><a href=\"#%s\">%s</a></h2>\n", folder, folder, folder)
		}
		fmt.Fprintf(&out, "<details><summary>%s</summary>\n<figure class=\"code\" id=\"%s/%s\">\n<figcaption><p>labs/scenarios/%s/%s.txtar</p></figcaption>\n<pre><code>%s</code></pre>\n</figure>\n</details>\n",
			html.EscapeString(one.sentence), one.folder, one.name, one.folder, one.name, html.EscapeString(one.text))
	}
	return out.Bytes()
}

var testFunction = regexp.MustCompile(`^func (Test\w+)\(`)

// readTests finds the tests of kcm and of the programs that labs have.
func readTests(root string) (map[string]place, error) {
	tests := map[string]place{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if !slices.Contains([]string{".", "kcm", "labs"}, strings.Split(file, "/")[0]) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		for i, line := range strings.Split(string(text), "\n") {
			if match := testFunction.FindStringSubmatch(line); match != nil {
				tests[path.Dir(file)+" "+match[1]] = place{file, i + 1}
			}
		}
		return err
	})
	return tests, err
}
