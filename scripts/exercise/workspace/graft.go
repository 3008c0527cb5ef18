package workspace

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// source is a Go file cut into its declarations.
type source struct {
	name   string
	syntax *ast.File
	// declarations are all but imports, in their order.
	declarations []declaration
}

// declaration is one at the top level of a file, with the comment above it.
type declaration struct {
	from *source
	// names are as the book has them: decide, (*Controller).sync, or those of a group,
	// of which name is the first.
	names      []string
	name       string
	begin, end int
	text       string
	// uses are all names in it. Those are true that it does not declare itself.
	uses map[string]bool
}

func parse(name string, text []byte) (*source, error) {
	s := &source{name: name}
	fset := token.NewFileSet()
	var err error
	if s.syntax, err = parser.ParseFile(fset, name, text, parser.ParseComments); err != nil {
		return nil, fmt.Errorf("does not compile: %w", err)
	}
	for _, node := range s.syntax.Decls {
		d := declaration{from: s, names: weave.NamesOf(node)}
		if len(d.names) == 0 {
			continue // imports, or a group of nothing
		}
		d.begin, d.end = weave.Extent(fset, node)
		d.name, d.text = d.names[0], string(text[d.begin:d.end])
		d.uses = usesOf(d.text)
		s.declarations = append(s.declarations, d)
	}
	return s, nil
}

// usesOf returns all names in a declaration, which compiles. Those are true that it does
// not declare itself.
func usesOf(text string) map[string]bool {
	uses := map[string]bool{}
	alone, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
	if err != nil {
		return uses
	}
	ast.Inspect(alone.Decls[0], func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok {
			uses[ident.Name] = uses[ident.Name] || slices.Contains(alone.Unresolved, ident)
		}
		return true
	})
	return uses
}

func (s *source) find(name string) *declaration {
	for i := range s.declarations {
		if s.declarations[i].name == name {
			return &s.declarations[i]
		}
	}
	return nil
}

// graft puts a declaration into a file of a module, in place of its own of that name or
// behind all, with what it imports.
func graft(files map[string][]byte, name string, d declaration) error {
	onto := files[name]
	if onto == nil {
		onto = []byte("package " + d.from.syntax.Name.Name + "\n")
	}
	target, err := parse(name, onto)
	if err != nil {
		return err
	}
	text := string(onto) + "\n" + d.text + "\n"
	if own := target.find(d.name); own != nil {
		text = string(onto[:own.begin]) + d.text + string(onto[own.end:])
	}
	imports := map[string]string{}
	for _, spec := range d.from.syntax.Imports {
		imports[importName(spec)] = pathOf(spec)
	}
	files[name], err = WithImports(name, text, imports)
	return err
}

// WithImports returns a file with the imports that it needs: of its own those that it
// uses, and of others, by name, those that it lacks.
func WithImports(name, text string, others map[string]string) ([]byte, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, ident := range syntax.Unresolved {
		used[ident.Name] = true
	}
	for _, spec := range slices.Clone(syntax.Imports) {
		alias, n := "", importName(spec)
		if spec.Name != nil {
			alias = n
		}
		if n != "_" && !used[n] {
			astutil.DeleteNamedImport(fset, syntax, alias, pathOf(spec))
		}
		delete(used, n)
	}
	for _, n := range slices.Sorted(maps.Keys(used)) {
		if path := others[n]; path != "" {
			alias := n
			if n == lastOf(path) {
				alias = ""
			}
			astutil.AddNamedImport(fset, syntax, alias, path)
		}
	}
	var out bytes.Buffer
	err = format.Node(&out, fset, syntax)
	return out.Bytes(), err
}

func pathOf(spec *ast.ImportSpec) string {
	path, _ := strconv.Unquote(spec.Path.Value) // the file has been parsed
	return path
}

// importName returns the name by which a file uses an import.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return lastOf(pathOf(spec))
}

// lastOf returns what an import path ends with, but for a version.
func lastOf(imported string) string {
	base := path.Base(imported)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(imported))
	}
	return base
}

// reachable returns some declarations and those of others that they use, directly or
// not, with the methods of the types among them.
func reachable(some, others []declaration) []declaration {
	wanted, types := map[string]bool{}, map[string]bool{}
	isWanted := func(name string) bool {
		receiver, method, ok := strings.Cut(name, ").")
		return wanted[name] || ok && (wanted[method] || types[strings.Trim(receiver, "(*")])
	}
	reached := slices.Clone(some)
	for i := 0; i < len(reached); i++ {
		for name := range reached[i].uses {
			wanted[name] = true
		}
		if i >= len(some) {
			for _, name := range reached[i].names {
				types[name] = true
			}
		}
		for _, d := range others {
			if slices.ContainsFunc(d.names, isWanted) && !slices.ContainsFunc(reached, func(r declaration) bool { return r.text == d.text }) {
				reached = append(reached, d)
			}
		}
	}
	return reached
}
