package workspace

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
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
	// name is as the book has it: decide, (*Controller).sync, or the first of a group.
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
		names := ""
		switch node := node.(type) {
		case *ast.FuncDecl:
			doc, names = node.Doc, nameOf(node)
		case *ast.GenDecl:
			if node.Tok == token.IMPORT {
				continue
			}
			doc, names = node.Doc, firstOf(node)
		}
		if doc != nil {
			begin = doc.Pos()
		}
		d := declaration{name: names, begin: s.fset.Position(begin).Offset, end: s.fset.Position(node.End()).Offset}
		d.text = s.text[d.begin:d.end]
		s.declarations = append(s.declarations, d)
	}
	return s, nil
}

// nameOf returns the name of a function, or of a method with its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver, pointer := f.Recv.List[0].Type, ""
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver, pointer = star.X, "*"
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	name := "?"
	if ident, ok := receiver.(*ast.Ident); ok {
		name = ident.Name
	}
	return fmt.Sprintf("(%s%s).%s", pointer, name, f.Name.Name)
}

func firstOf(group *ast.GenDecl) string {
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			return spec.Name.Name
		case *ast.ValueSpec:
			return spec.Names[0].Name
		}
	}
	return ""
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

// reachable returns the added declarations that some texts use, directly or not.
func reachable(texts []string, added []declaration) []declaration {
	wanted := map[string]bool{}
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
	for _, text := range texts {
		note(text)
	}
	var kept []declaration
	for more := true; more; {
		more = false
		for _, d := range added {
			short := d.name[strings.LastIndexByte(d.name, '.')+1:]
			if wanted[short] && !slices.ContainsFunc(kept, func(k declaration) bool { return k.name == d.name }) {
				kept, more = append(kept, d), true
				note(d.text)
			}
		}
	}
	return kept
}
