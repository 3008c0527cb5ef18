package site

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// recordings is the folder with what was recorded of the loops: pages that play it.
const recordings = "labs/view/recordings"

func (s *Site) isDirectory(name string) bool {
	info, err := fs.Stat(s.files, name)
	return err == nil && info.IsDir()
}

// addressOfFile returns where a file or a directory of the repository is shown, from the root of the site.
func (s *Site) addressOfFile(file string) string {
	scenario := strings.TrimSuffix(strings.TrimPrefix(file, "labs/scenarios/"), ".txtar")
	isMeant := func(one scenarioFile) bool { return one.Folder == scenario || one.Name == scenario }
	switch {
	case s.byPath[file] != nil:
		return s.byPath[file].Out
	case file == "chapters":
		return "index.html"
	case file == "labs/scenarios":
		return "scenarios.html"
	case slices.ContainsFunc(s.scenarios, isMeant):
		return "scenarios.html#" + scenario
	case path.Dir(file) == recordings && path.Ext(file) == ".html":
		played, _ := fs.Glob(s.files, path.Join(path.Dir(recordings), "page/*.[cj]s*")) // by each of them
		for _, copied := range append(played, file) {
			s.copied["pictures/"+copied], _ = fs.ReadFile(s.files, copied)
		}
		return "pictures/" + file // as far below the root as the recording takes it to be
	}
	if !slices.Contains(s.wanted, file) {
		s.wanted = append(s.wanted, file)
	}
	return s.outOf(file)
}

func (s *Site) outOf(file string) string {
	if s.isDirectory(file) {
		return "source/" + file + "/index.html"
	}
	return "source/" + file + ".html"
}

// addressOfLine returns where a line of a file is shown, or "" where it has no such line.
func (s *Site) addressOfLine(file, line string) string {
	text, _ := fs.ReadFile(s.files, file)
	if i := slices.Index(strings.Split(string(text), "\n"), line); i >= 0 {
		return fmt.Sprintf("%s#L%d", s.addressOfFile(file), i+1)
	}
	return ""
}

// addressOfScript returns where a script is shown. The words of the link to it say which step of a lab is meant.
func (s *Site) addressOfScript(file, words string) string {
	step := ""
	if path.Base(file) == "lab.txtar" {
		step = s.addressOfLine(file, "step "+words)
	}
	return cmp.Or(step, s.addressOfFile(file))
}

// addressOfTest returns where a test of a package is shown.
func (s *Site) addressOfTest(dir, name string) string {
	files, _ := fs.Glob(s.files, dir+"/*_test.go")
	for _, file := range files {
		if address := s.addressOfLine(file, "func "+name+"(t *testing.T) {"); address != "" {
			return address
		}
	}
	return s.addressOfFile(dir)
}

var sizeOfPicture = regexp.MustCompile(`viewBox="[-0-9.]+ [-0-9.]+ ([0-9]+)[0-9.]* ([0-9]+)`)

// picture returns the address of a picture, and its size as attributes, so that the page does not jump when it comes.
func (s *Site) picture(file string) (address, size string, err error) {
	content, err := fs.ReadFile(s.files, file)
	if err != nil {
		return "", "", err
	}
	address = "pictures/" + file
	s.copied[address] = content
	if match := sizeOfPicture.FindSubmatch(content); match != nil {
		size = fmt.Sprintf(" width=\"%s\" height=\"%s\"", match[1], match[2])
	}
	return address, size, nil
}

func (s *Site) renderFiles(put func(string) func([]byte, error)) (failed error) {
	for _, shown := range s.view.All {
		if shown.File != "" {
			s.addressOfFile(shown.File)
			s.addressOfFile(shown.Dir)
		}
	}
	for i := 0; i < len(s.wanted); i++ { // a page can lead to more files
		page := &Page{Path: s.wanted[i], Out: s.outOf(s.wanted[i]), Title: s.wanted[i]}
		body, err := s.fileBody(page)
		if err != nil {
			err = fmt.Errorf("%s, which a page links to: %w", page.Path, err)
		}
		failed = errors.Join(failed, err)
		put(page.Out)(s.layOut(page, body))
	}
	return failed
}

// fileBody returns what the page of a file or a directory shows. Of one in Markdown the page becomes what is written
// there.
func (s *Site) fileBody(page *Page) ([]byte, error) {
	if s.isDirectory(page.Path) {
		return s.list(page)
	}
	content, err := fs.ReadFile(s.files, page.Path)
	if err != nil {
		return nil, err
	}
	switch path.Ext(page.Path) {
	case ".md":
		*page = *newPage(page.Path, page.Out, content, nil)
		return s.body(page)
	case ".svg", ".png":
		address, size, err := s.picture(page.Path)
		return fmt.Appendf(nil, "<h1>%[1]s</h1>\n<img src=%[2]q alt=\"the picture %[1]s\"%[3]s>\n",
			page.Path, relative(page.Out, address), size), err
	}
	return s.code(page, string(content)), nil
}

// list returns what a directory holds. What is in it is shown, but for directories.
func (s *Site) list(page *Page) ([]byte, error) {
	entries, err := fs.ReadDir(s.files, page.Path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "<h1>%s</h1>\n<ul>\n", page.Path)
	for _, entry := range entries {
		file := page.Path + "/" + entry.Name()
		if entry.IsDir() && !slices.Contains(s.wanted, file) {
			fmt.Fprintf(&out, "<li>%s/</li>\n", entry.Name())
			continue
		}
		fmt.Fprintf(&out, "<li><a href=%q>%s</a></li>\n", relative(page.Out, s.addressOfFile(file)), entry.Name())
	}
	out.WriteString("</ul>\n")
	return out.Bytes(), nil
}

// code returns a file with numbered lines, and where the book shows what it declares.
func (s *Site) code(page *Page, content string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<h1>%s</h1>\n", page.Path)
	var links []string
	for _, shown := range s.view.All {
		if shown.File == page.Path && len(shown.Names) > 0 {
			links = append(links, fmt.Sprintf("<a href=%q>%s</a> (%02d)",
				relative(page.Out, s.addressOf(shown)), html.EscapeString(shown.Name), shown.Block.Chapter.Number))
		}
	}
	if len(links) > 0 {
		fmt.Fprintf(&out, "<p>In the book: %s.</p>\n", strings.Join(links, ", "))
	}
	out.WriteString("<figure class=\"code numbered\"><pre><code>")
	language := strings.TrimPrefix(path.Ext(page.Path), ".")
	if !slices.Contains([]string{"go", "yaml", "yml", "json", "diff"}, language) {
		language = ""
	}
	for i, line := range strings.Split(strings.TrimSuffix(highlight(language, content, nil), "\n"), "\n") {
		fmt.Fprintf(&out, "<span id=\"L%d\">%s\n</span>", i+1, line)
	}
	out.WriteString("</code></pre></figure>\n")
	return out.Bytes()
}

// scenarioFile is one of labs/scenarios. Its sentence is its name, which has the folder before it.
type scenarioFile struct{ Folder, Name, Sentence, Text string }

func (s *Site) readScenarios() error {
	files, failed := fs.Glob(s.files, "labs/scenarios/*/*.txtar")
	for _, file := range files {
		text, err := fs.ReadFile(s.files, file)
		failed = errors.Join(failed, err)
		name := strings.TrimSuffix(strings.TrimPrefix(file, "labs/scenarios/"), ".txtar")
		words := strings.ReplaceAll(path.Base(name), "-", " ")
		sentence := strings.ToUpper(words[:1]) + words[1:]
		s.scenarios = append(s.scenarios, scenarioFile{path.Dir(name), name, sentence, string(text)})
	}
	return failed
}

// scenarioList returns all scenarios, folded below their sentences.
func (s *Site) scenarioList(page *Page) ([]byte, error) {
	for _, one := range s.scenarios {
		if n := len(page.headings); n == 0 || page.headings[n-1].Title != one.Folder {
			page.headings = append(page.headings, &Heading{Title: one.Folder, Anchor: one.Folder, Level: 2})
		}
	}
	var out bytes.Buffer
	err := pageTemplate.ExecuteTemplate(&out, "scenarios.html", s.scenarios)
	return out.Bytes(), err
}
