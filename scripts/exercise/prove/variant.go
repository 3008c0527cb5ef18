package prove

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

const clause = "package p\n"

// variant is another body of some functions of an exercise.
type variant struct {
	// texts are the declarations that differ, by the names of functions; declarations
	// that the book does not have go by other names.
	texts map[string]string
	// number is the variant's in its package, from 1. 0 is the book's.
	number int
	// failure says why it does not compile.
	failure error
}

// file returns a Go file that declares the variant beside the book's functions, under
// names that end with its number.
func (v *variant) file(pkg string, functions []weave.Function) (string, error) {
	text := fmt.Sprintf("package %s\n", pkg)
	names := map[string]bool{}
	var theirs []weave.Function
	for _, f := range functions {
		names[f.Name] = true
		if v.texts[f.Name] != "" {
			theirs = append(theirs, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.texts)) {
		text += "\n" + v.texts[name]
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return "", err
	}
	return withImports(parsed, importsOf(theirs), edited(text, v.renamings(parsed, names))), nil
}

// importsOf returns what solutions can import by which names: what is harmless, and what
// the book's functions do.
func importsOf(functions []weave.Function) map[string]string {
	imports := map[string]string{}
	for _, harmless := range slices.Backward(workspace.Harmless) {
		imports[path.Base(harmless)] = harmless // of two that end alike the first
	}
	for _, f := range functions {
		maps.Copy(imports, f.Imports)
	}
	return imports
}

// whole returns a package's only file, of a solution that is a whole package.
func whole(pkg, solution string, e *weave.Exercise) (string, error) {
	text := fmt.Sprintf("package %s\n%s", pkg, solution)
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return "", err
	}
	imports := importsOf(nil)
	maps.Copy(imports, e.Imports)
	return withImports(parsed, imports, text), nil
}

// renamings returns what the variant's own names are to be, by their offsets. Calls of
// the exercise's functions keep their names, and so choose the variant again.
func (v *variant) renamings(file *ast.File, functions map[string]bool) map[int]renaming {
	renamings := map[int]renaming{}
	rename := func(ident *ast.Ident) {
		renamings[int(ident.Pos()-file.FileStart)] = renaming{ident.Name, v.named(ident.Name)}
	}
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && functions[weave.NameOf(f)] {
			rename(f.Name)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && !functions[ident.Name] && ident.Obj != nil && ident.Obj == file.Scope.Lookup(ident.Name) {
			rename(ident) // the file declares it, and no function does inside
		}
		return true
	})
	return renamings
}

// named returns what the variant calls something that the book calls by that name.
func (v *variant) named(name string) string { return fmt.Sprintf("%s_variant_%d", name, v.number) }

// renaming puts one name in the place of another.
type renaming struct{ before, after string }

// edited returns a text with other names at some offsets.
func edited(text string, renamings map[int]renaming) string {
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(renamings))) {
		text = text[:at] + renamings[at].after + text[at+len(renamings[at].before):]
	}
	return text
}

// withImports adds to the text of a file those imports that it uses.
func withImports(file *ast.File, imports map[string]string, text string) string {
	used := map[string]bool{}
	for _, ident := range file.Unresolved {
		if path := imports[ident.Name]; path != "" {
			used[fmt.Sprintf("import %s %q\n", ident.Name, path)] = true
		}
	}
	first, rest, _ := strings.Cut(text, "\n")
	return first + "\n" + strings.Join(slices.Sorted(maps.Keys(used)), "") + rest
}

// parts returns the declarations of a right solution by name. What the exercise does
// not have is part of the first.
func parts(text string, functions []weave.Function) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", clause+text, 0)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, declaration := range file.Decls {
		name := ""
		if f, ok := declaration.(*ast.FuncDecl); ok {
			name = weave.NameOf(f)
		}
		if !slices.ContainsFunc(functions, func(f weave.Function) bool { return f.Name == name }) {
			name = ""
		}
		from, to := int(declaration.Pos()-file.FileStart), int(declaration.End()-file.FileStart)
		found[name] += (clause + text)[from:to] + "\n"
	}
	if len(found) == 0 || len(found) == 1 && found[""] != "" {
		return nil, fmt.Errorf("it declares none of the exercise's functions")
	}
	return found, nil
}

// dispatcher returns a Go file with a function that has the name and the signature of
// the book's, and calls the variant that has been chosen.
func dispatcher(pkg string, function weave.Function, variants []*variant) (string, error) {
	text := clause + function.Text
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return "", err
	}
	source := func(node ast.Node) string {
		return text[node.Pos()-file.FileStart : node.End()-file.FileStart]
	}
	f := file.Decls[0].(*ast.FuncDecl)
	declared, passed := signature(f, source)
	var out strings.Builder
	fmt.Fprintf(&out, "package %s\n\n%s {\n\tswitch chosenVariant {\n", pkg, declared)
	call := func(label string, v *variant) {
		returns, receiver := "", ""
		if f.Type.Results.NumFields() > 0 {
			returns = "return "
		}
		if f.Recv != nil {
			receiver = "r."
		}
		fmt.Fprintf(&out, "\t%s:\n\t\t%s%s%s%s\n", label, returns, receiver, v.named(f.Name.Name), passed)
	}
	for _, v := range variants {
		if v.texts[function.Name] != "" && v.failure == nil {
			call(fmt.Sprint("case ", v.number), v)
		}
	}
	call("default", &variant{})
	out.WriteString("\t}\n}\n")
	parsed, err := parser.ParseFile(token.NewFileSet(), "", out.String(), 0)
	if err != nil {
		return "", err
	}
	return withImports(parsed, function.Imports, out.String()), nil
}

// signature returns a function without its body, in which all parameters have names,
// and the arguments, type arguments included, that hand them on.
func signature(f *ast.FuncDecl, source func(ast.Node) string) (declared, passed string) {
	declared = "func "
	if f.Recv != nil {
		declared += "(r " + source(f.Recv.List[0].Type) + ") "
	}
	declared += f.Name.Name
	if f.Type.TypeParams != nil {
		declared += source(f.Type.TypeParams)
		var names []string
		for _, field := range f.Type.TypeParams.List {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
		}
		passed = "[" + strings.Join(names, ", ") + "]"
	}
	var parameters, arguments []string
	for _, field := range f.Type.Params.List {
		for range max(len(field.Names), 1) {
			name := fmt.Sprintf("p%d", len(parameters))
			parameters = append(parameters, name+" "+source(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			arguments = append(arguments, name)
		}
	}
	declared += "(" + strings.Join(parameters, ", ") + ")"
	if results := f.Type.Results; results.NumFields() > 0 {
		var types []string
		for _, field := range results.List {
			types = append(types, slices.Repeat([]string{source(field.Type)}, max(len(field.Names), 1))...)
		}
		declared += " (" + strings.Join(types, ", ") + ")"
	}
	return declared, passed + "(" + strings.Join(arguments, ", ") + ")"
}
