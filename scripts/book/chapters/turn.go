package chapters

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// turned is where a reader is led to at the end of a page.
var turned = regexp.MustCompile(`(?:\n(?:Back|Previous|Next|Beside this lesson): (?:.+\n)+)+$`)

// WithoutTurn returns a page without the line at its end that leads back and on.
func WithoutTurn(text []byte) []byte { return turned.ReplaceAll(text, nil) }

// Turn writes the last line of the pages of all lessons: where a reader goes back and on in the order of the book, and
// where the rest of the code is. Where a chapter has no such page, a line that is there is written anew.
func Turn(all []*Chapter, texts map[*Chapter][][]byte) {
	var route []*Page
	for _, c := range all {
		for _, p := range c.Pages {
			if !p.Code() {
				route = append(route, p)
			}
		}
	}
	for _, c := range all {
		for i, p := range c.Pages {
			if text := texts[c][i]; c.Lesson(p) || !p.Code() && turned.Match(text) {
				texts[c][i] = append(WithoutTurn(text), "\n"+c.turn(p, route)+"\n"...)
			}
		}
	}
}

// turn returns the last line of a page that is one of the route.
func (c *Chapter) turn(p *Page, route []*Page) string {
	var said []string
	lead := func(word string, to *Page) {
		path, _ := filepath.Rel(filepath.Dir(p.Path), to.Path) // both are below the root
		said = append(said, fmt.Sprintf("%s: [%s](%s)", word, to.title(), filepath.ToSlash(path)))
	}
	for i, one := range route {
		if i+1 < len(route) && route[i+1] == p {
			lead("Back", one)
		}
		if i > 0 && route[i-1] == p {
			lead("Next", one)
		}
	}
	if c.standsApart() {
		said = append(said, "Beside this lesson: [the rest of the code](code.md)")
	}
	return strings.Join(said, ". ") + "."
}

func (p *Page) title() string { return strings.TrimSpace(strings.TrimPrefix(p.lines[0], "# ")) }
