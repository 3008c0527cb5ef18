package workspace

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Declaration is one at the top level of a file, with the comment above it.
type Declaration struct {
	// Name is as the book has it: decide, (*Controller).sync, or the first of a group's.
	Name, File, Text string
	names            []string // all of the group
	syntax           *ast.File
	// uses are all names in it. Those are true that it does not declare itself.
	uses map[string]bool
}

// parse returns what a file declares but for imports, in its order.
func parse(file string, text []byte) (all []Declaration, err error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, file, text, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("does not compile: %w", err)
	}
	for _, node := range syntax.Decls {
		names := weave.NamesOf(node)
		if len(names) == 0 {
			continue // imports, or a group of nothing
		}
		begin, end := fset.Position(weave.BeginOf(node)).Offset, fset.Position(node.End()).Offset
		own := string(text[begin:end])
		all = append(all, Declaration{Name: names[0], File: file, Text: own, names: names, syntax: syntax, uses: usesOf(own)})
	}
	return all, nil
}

// usesOf returns all names in a declaration, which compiles. Those are true that it does not declare itself.
func usesOf(text string) map[string]bool {
	uses := map[string]bool{}
	alone, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
	if err != nil {
		return uses
	}
	for node := range ast.Preorder(alone.Decls[0]) {
		if ident, ok := node.(*ast.Ident); ok {
			uses[ident.Name] = uses[ident.Name] || slices.Contains(alone.Unresolved, ident)
		}
	}
	return uses
}

// needs tells whether a declaration needs another: it names it, or is the type of which the other is a method.
func (d *Declaration) needs(other *Declaration) bool {
	return slices.ContainsFunc(other.names, func(name string) bool {
		receiver, method, isMethod := strings.Cut(name, ").")
		if isMethod && slices.Contains(d.names, strings.Trim(receiver, "(*")) {
			return true
		}
		if isMethod {
			name = method
		}
		_, uses := d.uses[name]
		return uses
	})
}

// reachable returns some declarations and those of others that they need, directly or not.
func reachable(some, others []Declaration) []Declaration {
	reached, left := slices.Clone(some), slices.Clone(others)
	for i := 0; i < len(reached); i++ {
		left = slices.DeleteFunc(left, func(d Declaration) bool {
			needed := reached[i].needs(&d)
			if needed {
				reached = append(reached, d)
			}
			return needed
		})
	}
	return reached
}

// graft puts a declaration into a file of a module, in place of its own of that name or
// behind all, with what it imports.
func graft(files map[string][]byte, name string, d Declaration) error {
	text := string(files[name])
	if text == "" {
		text = "package " + d.syntax.Name.Name + "\n"
	}
	all, err := parse(name, []byte(text))
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(all, func(own Declaration) bool { return own.Name == d.Name }); at >= 0 {
		text = strings.Replace(text, all[at].Text, d.Text, 1)
	} else {
		text += "\n" + d.Text + "\n"
	}
	files[name], err = WithImports(name, text, weave.ImportsOf(d.syntax))
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
		n, path := weave.Imported(spec)
		if !used[n] && !strings.HasPrefix(n, "_") {
			alias := ""
			if spec.Name != nil {
				alias = n
			}
			astutil.DeleteNamedImport(fset, syntax, alias, path)
		}
		delete(used, n)
	}
	for _, n := range slices.Sorted(maps.Keys(used)) {
		if path := others[n]; path != "" {
			astutil.AddNamedImport(fset, syntax, weave.AliasOf(n, path), path)
		}
	}
	var out bytes.Buffer
	err = format.Node(&out, fset, syntax)
	return out.Bytes(), err
}
