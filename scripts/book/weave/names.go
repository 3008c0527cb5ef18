package weave

import (
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// nameFile lists the names of kcm's declarations that the prose has in code spans. A name that is in it and in the
// prose, but not in kcm any more, has been renamed or removed. A span that was never in it is no name: a command, a
// field of an API, something of upstream's.
const nameFile = "chapters/names.txt"

// reference matches a span that can be a name: an identifier, with a package, a receiver or a call's parentheses.
var reference = regexp.MustCompile(`^(?:\(\*?(\w+)\)|\*?(\w+))((?:\.\w+)*)(?:\([^()]*\))?$`)

// componentsOf returns the identifiers in a span, or nil where it can be no name.
func componentsOf(span string) []string {
	match := reference.FindStringSubmatch(span)
	if match == nil {
		return nil
	}
	return strings.Split(match[1]+match[2]+match[3], ".")
}

// called returns what the prose can call something of that name: by itself, or behind its package or type.
func (p *Package) called(name string) []string {
	switch of, member, _ := strings.Cut(name, "."); {
	case member == "":
		return []string{name, p.name + "." + name}
	case of[0] == '(':
		return []string{member, strings.Trim(of, "(*)") + "." + member}
	default: // a field
		return []string{name}
	}
}

// known returns what the prose can call the declarations, the methods and the fields of kcm.
func (s *Source) known() map[string]bool {
	known := map[string]bool{}
	for _, p := range s.packages {
		for name, d := range p.byName {
			for _, called := range p.called(name) {
				known[called] = known[called] || len(d.objects) > 0
			}
		}
		for _, object := range p.info.Defs {
			_, function := object.(*types.Func)
			if variable, ok := object.(*types.Var); function || ok && variable.IsField() {
				known[object.Name()] = true
			}
		}
	}
	return known
}

// readNames returns what nameFile has, what it ought to have, and what is wrong in the prose.
func (w *Book) readNames() (is, ought string, mistakes []error) {
	text, _ := os.ReadFile(filepath.Join(w.source.root, nameFile)) // there is none as long as there are no names
	recorded, known, names := strings.Fields(string(text)), w.source.known(), map[string]bool{}
	for _, chapter := range w.Chapters {
		for _, span := range chapter.Spans {
			components := componentsOf(span.Text)
			name := strings.Join(components, ".")
			if isKnown := known[lastTwo(components)]; isKnown || slices.Contains(recorded, name) {
				if names[name+"\n"] = true; !isKnown {
					mistakes = append(mistakes, span.Errorf("kcm has no %s any more; if that is something else now, take it out of %s",
						span.Text, nameFile))
				}
			}
		}
	}
	return string(text), strings.Join(slices.Sorted(maps.Keys(names)), ""), mistakes
}

// lastTwo returns the last two components of a name, or the only one.
func lastTwo(components []string) string {
	return strings.Join(components[max(len(components)-2, 0):], ".")
}
