package workspace

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// source is a Go file cut into its declarations.
type source struct {
	text   string
	fset   *token.FileSet
	syntax *ast.File
	// declarations are all but imports, in their order.
	declarations []declaration
}

// declaration is one at the top level of a file, with the comment above it.
type declaration struct {
	// names are as the book has them: decide, (*Controller).sync, or those of a group,
	// of which name is the first.
	names      []string
	name       string
	begin, end int
	text       string
}

func parse(name string, text []byte) (*source, error) {
	s := &source{text: string(text), fset: token.NewFileSet()}
	var err error
	if s.syntax, err = parser.ParseFile(s.fset, name, text, parser.ParseComments); err != nil {
		return nil, err
	}
	for _, node := range s.syntax.Decls {
		begin := node.Pos()
		var doc *ast.CommentGroup
		var names []string
		switch node := node.(type) {
		case *ast.FuncDecl:
			doc, names = node.Doc, []string{weave.NameOf(node)}
		case *ast.GenDecl:
			if node.Tok == token.IMPORT {
				continue
			}
			doc, names = node.Doc, namesOf(node)
		}
		if doc != nil {
			begin = doc.Pos()
		}
		if len(names) == 0 {
			continue // a group of nothing
		}
		d := declaration{name: names[0], names: names, begin: s.fset.Position(begin).Offset, end: s.fset.Position(node.End()).Offset}
		d.text = s.text[d.begin:d.end]
		s.declarations = append(s.declarations, d)
	}
	return s, nil
}

func namesOf(group *ast.GenDecl) []string {
	var names []string
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func (s *source) find(name string) *declaration {
	for i := range s.declarations {
		if s.declarations[i].name == name {
			return &s.declarations[i]
		}
	}
	return nil
}

// changes returns the declarations of a file that differ from those of another, and
// those that the other does not have.
func (s *source) changes(from *source) (changed, added []declaration) {
	for _, d := range s.declarations {
		switch before := from.find(d.name); {
		case before == nil:
			added = append(added, d)
		case before.text != d.text:
			changed = append(changed, d)
		}
	}
	return changed, added
}

// graft returns a file with some declarations in place of its own and others behind
// them, and with what they import from the file that they come from.
func graft(name string, onto []byte, from *source, changed, added []declaration) ([]byte, error) {
	target, err := parse(name, onto)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	done := 0
	for _, d := range target.declarations {
		i := slices.IndexFunc(changed, func(c declaration) bool { return c.name == d.name })
		if i < 0 {
			continue
		}
		out.WriteString(target.text[done:d.begin] + changed[i].text)
		done = d.end
	}
	out.WriteString(target.text[done:])
	for _, d := range added {
		out.WriteString("\n" + d.text + "\n")
	}
	return withImports(name, out.String(), target, from)
}

// withImports returns a file with the imports that it needs: its own, and those of
// the file that parts of it come from.
func withImports(name, text string, own, from *source) ([]byte, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	used := qualifiers(syntax)
	has := map[string]bool{}
	for _, spec := range own.syntax.Imports {
		has[importName(spec)] = true
	}
	for _, spec := range from.syntax.Imports {
		if n := importName(spec); !has[n] && used[n] {
			astutil.AddNamedImport(fset, syntax, aliasOf(spec), pathOf(spec))
		}
	}
	for _, spec := range own.syntax.Imports {
		if n := importName(spec); n != "_" && !used[n] {
			astutil.DeleteNamedImport(fset, syntax, aliasOf(spec), pathOf(spec))
		}
	}
	var out bytes.Buffer
	if err := format.Node(&out, fset, syntax); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// qualifiers returns the names before dots that a file does not declare.
func qualifiers(syntax *ast.File) map[string]bool {
	unresolved := map[*ast.Ident]bool{}
	for _, ident := range syntax.Unresolved {
		unresolved[ident] = true
	}
	used := map[string]bool{}
	ast.Inspect(syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if base, ok := selector.X.(*ast.Ident); ok && unresolved[base] {
				used[base.Name] = true
			}
		}
		return true
	})
	return used
}

func pathOf(spec *ast.ImportSpec) string {
	path, _ := strconv.Unquote(spec.Path.Value) // the file has been parsed
	return path
}

func aliasOf(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return ""
}

// importName returns the name by which a file uses an import: its alias, or what
// its path ends with, but for a version.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(pathOf(spec))
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(pathOf(spec)))
	}
	return base
}

// reachable returns the added declarations that some texts use, directly or not, with
// the methods of the types among them.
func reachable(texts []string, added []declaration) []declaration {
	wanted, types := map[string]bool{}, map[string]bool{}
	note := func(text string) {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
		if err != nil {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if ident, ok := node.(*ast.Ident); ok {
				wanted[ident.Name] = true
			}
			return true
		})
	}
	isWanted := func(name string) bool {
		receiver, method, ok := strings.Cut(name, ").")
		return wanted[name] || ok && (wanted[method] || types[strings.Trim(receiver, "(*")])
	}
	for _, text := range texts {
		note(text)
	}
	var kept []declaration
	left := slices.Clone(added)
	for more := true; more; {
		more = false
		for i, d := range left {
			if slices.ContainsFunc(d.names, isWanted) {
				kept, more = append(kept, d), true
				note(d.text)
				for _, name := range d.names {
					types[name] = true
				}
				left[i].names = nil
			}
		}
	}
	return kept
}
