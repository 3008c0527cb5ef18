package weave

import (
	"fmt"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// nameFile lists the names of kcm's declarations that the prose has in code spans.
// A name that is in it and in the prose, but not in kcm any more, has been renamed
// or removed. A span that was never in it is no name: a command, a field of an API,
// something of upstream's.
const nameFile = "chapters/names.txt"

// reference matches a span that can be a name: an identifier, with a package, a
// receiver or a call's parentheses.
var reference = regexp.MustCompile(`^(?:\(\*?(\w+)\)|\*?(\w+))((?:\.\w+)*)(?:\([^()]*\))?$`)

// componentsOf returns the identifiers in a span, or nil where it can be no name.
func componentsOf(span string) []string {
	match := reference.FindStringSubmatch(span)
	if match == nil {
		return nil
	}
	return strings.Split(match[1]+match[2]+match[3], ".")
}

// known tells which names declarations, methods and fields have, alone or behind their package or type.
func (s *Source) known() map[string]bool {
	known := map[string]bool{}
	for _, p := range s.packages {
		for _, object := range p.info.Defs {
			if object == nil {
				continue // the name of the package, for example
			}
			name := object.Name()
			_, function := object.(*types.Func)
			variable, _ := object.(*types.Var)
			if function || variable != nil && variable.IsField() {
				known[name] = true
			}
			if object.Parent() != object.Pkg().Scope() {
				continue
			}
			known[name], known[p.name+"."+name] = true, true
			switch t := object.Type().Underlying().(type) {
			case *types.Struct:
				for field := range t.Fields() {
					known[name+"."+field.Name()] = true
				}
			case *types.Interface:
				for method := range t.Methods() {
					known[name+"."+method.Name()] = true
				}
			}
		}
		for name := range p.byName {
			if receiver, method, ok := strings.Cut(name, ")."); ok {
				known[strings.TrimLeft(receiver, "(*")+"."+method] = true
			}
		}
	}
	return known
}

// readNames returns what nameFile has, what it ought to have, and what is wrong in the
// prose.
func (w *Book) readNames() (is, ought string, mistakes []error) {
	text, _ := os.ReadFile(filepath.Join(w.source.root, nameFile)) // there is none as long as there are no names
	recorded, known, names := strings.Fields(string(text)), w.source.known(), map[string]bool{}
	for _, chapter := range w.chapters {
		for _, span := range chapter.Spans {
			components := componentsOf(span.Text)
			name := strings.Join(components, ".")
			if isKnown := known[lastTwo(components)]; isKnown || slices.Contains(recorded, name) {
				if names[name+"\n"] = true; !isKnown {
					mistakes = append(mistakes, fmt.Errorf("%s: kcm has no %s any more; if that is something else now, take it out of %s",
						span.Place, span.Text, nameFile))
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

func (w *Book) checkNames() []error {
	is, ought, mistakes := w.readNames()
	if is != ought {
		mistakes = append(mistakes, fmt.Errorf("%s is not up to date: make weave writes it anew", nameFile))
	}
	return mistakes
}

func (w *Book) fillNames(out io.Writer) error {
	is, ought, _ := w.readNames()
	if is == ought {
		return nil
	}
	fmt.Fprintln(out, "filled", nameFile)
	return os.WriteFile(filepath.Join(w.source.root, nameFile), []byte(ought), 0o644)
}
