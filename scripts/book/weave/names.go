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

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
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
		known[shortName(k.name)]++ // drafts have names, too
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

// Rename gives a declaration or a field another name in the info strings, the
// retirements and the prose of all chapters, and prints the lines that it changes.
// The names are written as in an info string. With a directory, only what is about its
// package changes, and the prose only in chapters that show something of it. The code
// in kcm and in drafts is not touched.
func Rename(root, dir, old, name string, out io.Writer) error {
	if strings.Count(old, ".") != strings.Count(name, ".") {
		return fmt.Errorf("write both names in the same way, for example: (*Loop).Run (*Loop).Start")
	}
	source, err := loadSource(root)
	if err != nil {
		return err
	}
	all, err := chapters.Read(root)
	if err != nil {
		return err
	}
	if dir != "" && source.packages[dir] == nil {
		return fmt.Errorf("%s is no package of kcm: there are %s", dir, strings.Join(source.dirs(), ", "))
	}
	r := &renaming{old: componentsOf(old), name: shortName(name), from: old, to: name, source: source, dir: dir}
	if r.old == nil || componentsOf(name) == nil {
		return fmt.Errorf("%s or %s is no name: write it as in an info string", old, name)
	}
	changed := false
	for _, chapter := range all {
		span := r.span
		if dir != "" && !slices.ContainsFunc(chapter.Blocks, func(b *chapters.Block) bool { return b.Package() == dir }) {
			span = func(text string) string { return text }
		}
		texts := chapter.Rename(dir, r.word, span)
		for i, page := range chapter.Pages {
			before := strings.Split(string(page.Source), "\n")
			for j, line := range strings.Split(string(texts[i]), "\n") {
				if line != before[j] {
					changed = true
					fmt.Fprintf(out, "%s: %s\n", chapters.Place{Path: page.Path, Line: j + 1}, line)
				}
			}
		}
		if _, err := chapter.Write(root, texts); err != nil {
			return err
		}
	}
	if !changed {
		return fmt.Errorf("no chapter names %s", old)
	}
	fmt.Fprintln(out, "the code in kcm and in drafts is yours to change; make weave does the rest")
	return nil
}

// renaming is what one call of Rename is about.
type renaming struct {
	source   *Source
	dir      string
	from, to string
	// old are the components of the old name, name is the last one of the new.
	old  []string
	name string
}

// word returns a word of an info string with the new name.
func (r *renaming) word(word string) string {
	if word == r.from {
		return r.to
	}
	if components := componentsOf(word); len(r.old) == 1 && len(components) == 2 && components[0] == r.from {
		return strings.Replace(word, r.from, r.to, 1) // the type of a method or a field
	}
	return word
}

// span returns a span of the prose with the new name.
func (r *renaming) span(span string) string {
	components := componentsOf(span)
	at := -1
	for i := range components {
		if r.means(components[:i+1]) {
			at = i
		}
	}
	if at < 0 {
		return span
	}
	offset := 0
	for _, before := range components[:at] {
		offset += strings.Index(span[offset:], before) + len(before)
	}
	return span[:offset] + strings.Replace(span[offset:], r.old[len(r.old)-1], r.name, 1)
}

// means tells whether the last of some components stands for what is renamed: it
// stands alone, where nothing else in kcm has that name, or behind its type or package.
func (r *renaming) means(components []string) bool {
	last := len(components) - 1
	if components[last] != r.old[len(r.old)-1] {
		return false
	}
	if len(r.old) == 2 {
		others := r.source.known()[components[last]] - r.source.known()[strings.Join(r.old, ".")]
		return last == 0 && others == 0 || last > 0 && components[last-1] == r.old[0]
	}
	return last == 0 || slices.ContainsFunc(r.source.dirs(), func(dir string) bool {
		return (r.dir == "" || r.dir == dir) && r.source.packages[dir].name == components[last-1]
	})
}
