package weave

import (
	"fmt"
	"go/types"
	"io"
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

// known returns by how many declarations, methods and fields a name is known, alone
// or behind its package or type.
func (s *Source) known() map[string]int {
	known := map[string]int{}
	for _, p := range s.packages {
		for _, object := range p.info.Defs {
			if object == nil {
				continue // the name of the package, for example
			}
			_, function := object.(*types.Func)
			variable, _ := object.(*types.Var)
			declared := object.Parent() == object.Pkg().Scope()
			if function || declared || variable != nil && variable.IsField() {
				known[object.Name()]++
			}
			if declared {
				known[p.name+"."+object.Name()]++
				for _, member := range membersOf(object) {
					known[object.Name()+"."+member]++
				}
			}
		}
		for name := range p.byName {
			if receiver, method, ok := strings.Cut(name, ")."); ok {
				known[strings.TrimLeft(receiver, "(*")+"."+method]++
			}
		}
	}
	return known
}

// membersOf returns the names of the fields or methods that a type lists.
func membersOf(object types.Object) []string {
	var members []string
	switch t := object.Type().Underlying().(type) {
	case *types.Struct:
		for field := range t.Fields() {
			members = append(members, field.Name())
		}
	case *types.Interface:
		for method := range t.Methods() {
			members = append(members, method.Name())
		}
	}
	return members
}

// isKnown tells whether the last two components of a name are known, or the only one.
func isKnown(known map[string]int, components []string) bool {
	return known[strings.Join(components[max(len(components)-2, 0):], ".")] > 0
}

// readNames returns what nameFile has, what it ought to have, and what is wrong in the
// prose.
func (w *Book) readNames() (is, ought string, mistakes []error) {
	text, _ := os.ReadFile(filepath.Join(w.source.root, nameFile)) // there is none as long as there are no names
	recorded := strings.Fields(string(text))
	known := w.source.known()
	for k := range w.showings {
		known[shortName(k.Name)]++ // drafts have names, too
	}
	var names []string
	for _, chapter := range w.chapters {
		for _, span := range chapter.Spans {
			components := componentsOf(span.Text)
			name := strings.Join(components, ".")
			switch {
			case components == nil:
			case isKnown(known, components):
				names = append(names, name)
			case slices.Contains(recorded, name):
				names = append(names, name)
				mistakes = append(mistakes, fmt.Errorf("%s: kcm has no %s any more; if that is something else now, take it out of %s",
					span.Place, span.Text, nameFile))
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		ought += name + "\n"
	}
	return string(text), ought, mistakes
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
