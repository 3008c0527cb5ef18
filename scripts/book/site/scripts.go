package site

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// index is what site.js searches. It is made here, so that a page from a file needs nothing but to load it.
type index struct {
	// Pages are the titles of pages by their paths in the site.
	Pages map[string]string `json:"pages"`
	// Entries are what can be found: title, address, kind.
	Entries [][3]string `json:"entries"`
	// Words has the words of sections, each with the numbers of the sections that have it.
	Words map[string][]int `json:"words"`
}

// searchIndex returns the index as a script: a page from a file may not fetch it.
func (s *Site) searchIndex(scenarios *Page) ([]byte, error) {
	x := &index{Pages: map[string]string{scenarios.Out: scenarios.Title}, Words: map[string][]int{}}
	glossary := s.byPath["chapters/glossary.md"]
	for _, page := range s.pages {
		x.Pages[page.Out] = page.Title
		if page != glossary {
			x.addSections(page)
		}
	}
	for _, match := range termPattern.FindAllSubmatch(glossary.source, -1) {
		x.add(string(match[2]), glossary.Out+"#"+string(match[1]), "term")
	}
	s.addDeclarations(x)
	for _, one := range s.scenarios {
		x.add(one.Sentence, scenarios.Out+"#"+one.Name, "scenario")
	}
	return asScript("index", x)
}

// asScript returns something as a script that gives it to the book by a name.
func asScript(name string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return fmt.Appendf(nil, "book.%s = %s;\n", name, text), err
}

func (x *index) add(title, address, kind string) {
	x.Entries = append(x.Entries, [3]string{title, address, kind})
}

// has tells whether something of a kind can be found already.
func (x *index) has(title, kind string) bool {
	return slices.ContainsFunc(x.Entries, func(entry [3]string) bool { return entry[0] == title && entry[2] == kind })
}

// addSections adds the sections of a page with their words, code included, and the flags that it is the first to name.
func (x *index) addSections(page *Page) {
	numbers := map[string]int{}
	for _, h := range page.headings {
		numbers[h.Anchor] = len(x.Entries)
		x.add(h.Title, page.Out+"#"+h.Anchor, "section")
	}
	walk(page.document, func(node ast.Node) {
		number, ok := numbers[page.within[node]]
		if !ok {
			return
		}
		switch node := node.(type) {
		case *ast.Text:
			x.addWords(number, string(node.Segment.Value(page.source)))
		case *ast.FencedCodeBlock:
			x.addWords(number, string(node.Lines().Value(page.source)))
		case *ast.CodeSpan:
			if name := flagPattern.FindString(chapters.Plain(node, page.source)); name != "" && !x.has(name, "flag") {
				x.add(name, page.Out+"#"+page.within[node], "flag")
			}
		}
	})
}

var wordPattern = regexp.MustCompile(`[\pL\pN]+(?:[-'][\pL\pN]+)*`)

// addWords notes that a section has some words. Numbers and what has one letter is not searched for.
func (x *index) addWords(number int, text string) {
	for _, word := range wordPattern.FindAllString(strings.ToLower(text), -1) {
		if len(word) < 2 || len(word) > 40 || strings.Trim(word, "0123456789-") == "" {
			continue
		}
		if found := x.Words[word]; len(found) == 0 || found[len(found)-1] != number {
			x.Words[word] = append(found, number)
		}
	}
}

// termPattern matches a term of the glossary: what stands in bold behind an anchor.
var termPattern = regexp.MustCompile(`(?m)^<a id="(term-[^"]+)"></a>(?:<a [^>]+></a>)*\*\*([^*]+)\*\*`)

var (
	flagPattern = regexp.MustCompile(`^--[a-z][a-z0-9-]{2,}`)
	// reasonConstant and reasonOfEvent match reasons of conditions and of events.
	reasonConstant = regexp.MustCompile(`(?m)^\s*(?:const )?(?:reason|Successful|Failed)\w+ += "([A-Z]\w+)"`)
	reasonOfEvent  = regexp.MustCompile(`[eE]vent\w*\((?s:[^"]{0,120})"([A-Z][a-z]+[A-Z]\w+|[A-Z][a-z]+)"`)
)

// addDeclarations adds what the blocks show, each once and where it has its final form, and the reasons in it.
func (s *Site) addDeclarations(x *index) {
	for i, shown := range s.view.All {
		again := func(later *weave.Shown) bool { return later.Dir == shown.Dir && later.Name == shown.Name }
		if len(shown.Names) == 0 || slices.ContainsFunc(s.view.All[i+1:], again) {
			continue
		}
		address := s.addressOf(shown)
		for _, name := range shown.Names {
			x.add(plain.Replace(name), address, "code")
		}
		text := shown.Block.Body[shown.Begin:shown.End]
		for _, pattern := range []*regexp.Regexp{reasonConstant, reasonOfEvent} {
			for _, match := range pattern.FindAllStringSubmatch(text, -1) {
				if !x.has(match[1], "reason") {
					x.add(match[1], address, "reason")
				}
			}
		}
	}
}

// version is a declaration as of a chapter, or of a step of it.
type version struct {
	// Chapter is its number, with the step behind it, Address where it is shown there, or "" where it is not.
	Chapter string `json:"chapter"`
	Address string `json:"address,omitempty"`
	// Lines are those of its text, each behind a sign that says whether it is new, gone or as before: +, - or a blank.
	Lines []string `json:"lines"`
}

// histories returns, as a script that a page loads when it is asked for, how each declaration that changes does so.
func (s *Site) histories() ([]byte, error) {
	all := map[string][]version{}
	for _, shown := range s.view.All {
		if len(shown.History) < 2 || all[anchorOf(shown)] != nil {
			continue
		}
		before := ""
		for _, then := range shown.History {
			v := version{Chapter: fmt.Sprintf("%02d", then.Chapter.Number), Lines: weave.Changes(before, then.Text)}
			if then.Step != "" {
				v.Chapter += ", " + then.Step
			}
			if then.Shown != nil {
				v.Address = s.addressOf(then.Shown)
			}
			all[anchorOf(shown)] = append(all[anchorOf(shown)], v)
			before = then.Text
		}
	}
	return asScript("histories", all)
}
