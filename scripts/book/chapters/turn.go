package chapters

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// turned is where the end of a page leads.
var turned = regexp.MustCompile(`\n(?:Back|Next|Beside this lesson): (?:.+\n)+$`)

// WithoutTurn returns a page without the line at its end that leads back and on.
func WithoutTurn(text []byte) []byte { return turned.ReplaceAll(text, nil) }

// Turn writes that line on the pages of all lessons, in the order of the book. Where a chapter has no page with the
// rest of its code, a line that is there is written anew.
func Turn(all []*Chapter, texts map[*Chapter][][]byte) {
	var route []*Page
	for _, c := range all {
		route = append(route, slices.DeleteFunc(slices.Clone(c.Pages), (*Page).Code)...)
	}
	for _, c := range all {
		for i, p := range c.Pages {
			at := slices.Index(route, p)
			if at < 0 || !c.standsApart() && !turned.Match(texts[c][i]) {
				continue
			}
			var said []string
			if at > 0 {
				said = append(said, "Back: "+p.linkTo(route[at-1]))
			}
			if at+1 < len(route) {
				said = append(said, "Next: "+p.linkTo(route[at+1]))
			}
			if c.standsApart() {
				said = append(said, "Beside this lesson: [the rest of the code](code.md)")
			}
			texts[c][i] = append(WithoutTurn(texts[c][i]), "\n"+strings.Join(said, ". ")+".\n"...)
		}
	}
}

// linkTo links to another page by its title.
func (p *Page) linkTo(to *Page) string {
	path, _ := filepath.Rel(filepath.Dir(p.Path), to.Path) // both are below the root
	return "[" + strings.TrimPrefix(strings.TrimSpace(to.lines[0]), "# ") + "](" + filepath.ToSlash(path) + ")"
}
