package weave

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// pages are the texts of files that belong to the book, by their names below the root: what can link to others,
// scripts, diagrams.
type pages map[string]string

func readPages(root string) (pages, error) {
	texts, tree := pages{}, os.DirFS(root)
	for _, pattern := range []string{"*.md", "chapters/*.md", "chapters/*/*.md", "labs/*.md", "labs/*/README.md",
		"scripts/*.md", "labs/*/*.txtar", "labs/scenarios/*/*.txtar", "diagrams/*.*"} {
		names, _ := fs.Glob(tree, pattern) // the pattern is well-formed
		for _, name := range names {
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return nil, err
			}
			texts[name] = string(text)
		}
	}
	return texts, nil
}

// names returns the names that end so, sorted.
func (p pages) names(end string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p)), func(name string) bool { return !strings.HasSuffix(name, end) })
}

// checkPages finds what is wrong on pages and in what they link to.
func checkPages(root string) []error {
	p, err := readPages(root)
	if err != nil {
		return []error{err}
	}
	return slices.Concat(p.checkLinks(root), p.checkDiagrams(), p.checkQuestions(), p.checkDifferences())
}

type link struct {
	line        int
	destination string
}

// checkLinks finds links to files and anchors that are not there. Links to other
// sites are left alone: a check must not depend on the network.
func (p pages) checkLinks(root string) []error {
	links, anchors := map[string][]link{}, map[string]map[string]bool{}
	for _, name := range p.names(".md") {
		links[name], anchors[name] = linksIn([]byte(p[name]))
	}
	var mistakes []error
	for _, name := range slices.Sorted(maps.Keys(links)) {
		for _, l := range links[name] {
			to, err := url.Parse(l.destination)
			wrong := ""
			switch {
			case err != nil:
				wrong = err.Error()
			case to.Scheme != "" || to.Host != "":
				continue
			default:
				target := name
				if to.Path != "" {
					target = path.Join(path.Dir(name), to.Path)
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					wrong = "there is no such file"
				} else if to.Fragment != "" && !anchors[target][to.Fragment] {
					wrong = "there is no such heading or anchor"
				}
			}
			if wrong != "" {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: the link to %s: %s", name, l.line, l.destination, wrong))
			}
		}
	}
	return mistakes
}

var htmlAnchor = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)

// linksIn returns where a page links to, with the line, and the anchors to which others can.
func linksIn(source []byte) (links []link, anchors map[string]bool) {
	anchors = map[string]bool{}
	for _, match := range htmlAnchor.FindAllSubmatch(source, -1) {
		anchors[string(match[1])] = true
	}
	offset := 0 // of the text that was read last
	add := func(entering bool, destination []byte) {
		if !entering {
			links = append(links, link{1 + bytes.Count(source[:offset], []byte("\n")), string(destination)})
		}
	}
	document := goldmark.DefaultParser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		switch node := node.(type) {
		case *ast.Heading:
			anchor := chapters.Anchor(chapters.Plain(node, source))
			numbered := anchor
			for i := 1; entering && anchors[numbered]; i++ {
				numbered = fmt.Sprintf("%s-%d", anchor, i) // the heading comes again
			}
			anchors[numbered] = true
		case *ast.Text:
			offset = node.Segment.Start
		case *ast.Link:
			add(entering, node.Destination)
		case *ast.Image:
			add(entering, node.Destination)
		}
		return ast.WalkContinue, nil
	})
	return links, anchors
}

// checkDiagrams finds pictures that were not made from the source beside them. scripts/diagrams writes the checksum of
// the source and of its style into the picture, because a clone does not keep the times of files.
func (p pages) checkDiagrams() []error {
	sources, style := p.names(".mmd"), p["diagrams/mermaid.json"]
	var mistakes []error
	for _, name := range sources {
		if !strings.Contains(p[strings.TrimSuffix(name, ".mmd")+".svg"], checksum([]byte(p[name]+style))) {
			mistakes = append(mistakes, fmt.Errorf("%s: its picture was drawn from another text, or not yet: "+
				"make diagrams draws it", name))
		}
	}
	for _, name := range p.names(".svg") {
		if !slices.Contains(sources, strings.TrimSuffix(name, ".svg")+".mmd") {
			mistakes = append(mistakes, fmt.Errorf("%s: a picture without a source", name))
		}
	}
	return mistakes
}

// questionsPage has questions as headings, and below each a short answer; differencesPage lists where kcm differs from
// the original on purpose.
const questionsPage, differencesPage = "chapters/questions.md", "chapters/where-kcm-differs.md"

var (
	sectionLink = regexp.MustCompile(`\]\(\d\d-[^)]+/[a-zA-Z0-9-]+\.md#[^)]+\)`)
	// scriptLink is a link to a script: its words and the path in the repository.
	scriptLink = regexp.MustCompile(`\[([^\]]+)\]\(\.\./(labs/[^)]+\.txtar)\)`)
	// leavesOut is a line of a script that leaves the original out: a whole scenario, or a step of a lab.
	leavesOut = regexp.MustCompile(`(?m)^(\[reference\] skip|only kcm) `)
)

// checkQuestions finds questions whose answer does not lead to the section that explains it and to the script that
// shows it, and steps of labs that are not there. That the links themselves are right is checked with all links.
func (p pages) checkQuestions() []error {
	var mistakes []error
	line := 1
	for i, part := range strings.Split(p[questionsPage], "\n### ") {
		question, answer, _ := strings.Cut(part, "\n")
		line += min(i, 1) // that of the heading
		say := func(wrong bool, format string, args ...any) {
			if wrong && i > 0 {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: %q %s", questionsPage, line, question, fmt.Sprintf(format, args...)))
			}
		}
		say(!strings.HasSuffix(question, "?"), "is no question")
		say(!sectionLink.MatchString(answer), "does not link to the section of a chapter that explains it")
		scripts := scriptLink.FindAllStringSubmatch(answer, -1)
		say(len(scripts) == 0, "does not link to a scenario or a lab that shows it")
		for _, match := range scripts {
			words, name := match[1], match[2]
			say(path.Base(name) == "lab.txtar" && p[name] != "" && !strings.Contains("\n"+p[name], "\nstep "+words+"\n"),
				"names a step that %s does not have: %q", name, words)
		}
		line += strings.Count(part, "\n")
	}
	return mistakes
}

// checkDifferences finds what is played with kcm alone and is not on the page, and
// what the page lists although the original plays it. A scenario is known by its
// path, and a step of a lab by its sentence, which are the words of the link.
func (p pages) checkDifferences() []error {
	alone, listed := map[string]bool{}, map[string]bool{}
	for _, name := range p.names(".txtar") {
		for i, part := range strings.Split("\n"+p[name], "\nstep ") {
			what := name
			if sentence, _, _ := strings.Cut(part, "\n"); i > 0 {
				what += ": " + sentence
			}
			alone[what] = leavesOut.MatchString(part)
		}
	}
	for _, match := range scriptLink.FindAllStringSubmatch(p[differencesPage], -1) {
		words, name := match[1], match[2]
		if path.Base(name) == "lab.txtar" {
			name += ": " + words
		}
		listed[name] = true
	}
	var mistakes []error
	for _, what := range slices.Sorted(maps.Keys(alone)) {
		if alone[what] && !listed[what] {
			mistakes = append(mistakes, fmt.Errorf("%s does not say why the original is left out of %s", differencesPage, what))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(listed)) {
		if !alone[what] {
			mistakes = append(mistakes, fmt.Errorf("%s lists %s, and nothing of that name leaves the original out",
				differencesPage, what))
		}
	}
	return mistakes
}
