package prove

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

const clause = "package p\n"

// variant is another body of some functions of an exercise.
type variant struct {
	// name is that of the solution, .go or .diff.
	name string
	// number is the variant's in its package, from 1. 0 is the book's.
	number int
	// cases call its bodies, by the names of functions.
	cases map[string]string
	// others are declarations that the book does not have. They belong into file.
	others, file string
	// caughtBy is the behaviour that a wrong one does not show.
	caughtBy string
	// tests is the binary that has it, and failure says why it cannot be tried.
	tests   *behaviours.Program
	failure error
}

// limit is how long a variant may run at most, on a machine however busy. One that takes longer hangs.
const limit = 5 * time.Minute

// run runs the tests that a pattern matches, for at most so long.
func (v *variant) run(ctx context.Context, pattern string, within time.Duration) (*behaviours.Outcome, error) {
	tests := *v.tests
	tests.Limit = within
	return tests.Try(ctx, pattern, "", fmt.Sprintf("%s=%d", variable, v.number))
}

// variantOf reads a solution. The compiler will say that a mistake is in EXERCISE/NAME.
func variantOf(exercise, name, text string, number int, functions []weave.Function) *variant {
	v := &variant{name: name, number: number, cases: map[string]string{}, file: functions[0].File}
	name = exercise + "/" + name
	text = clause + text
	file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		v.failure = err
		return v
	}
	source := func(node ast.Node) string { return text[node.Pos()-file.FileStart : node.End()-file.FileStart] }
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		at := slices.IndexFunc(functions, func(known weave.Function) bool { return ok && known.Name == weave.NameOf(f) })
		if at < 0 {
			v.others += fmt.Sprintf("//line %s:1\n%s\n", name, source(declaration))
			continue
		}
		// A function of its own, so that its labels and results are, too.
		call, after := "func()", "\nreturn"
		if f.Type.Results.NumFields() > 0 {
			call, after = "return func() "+source(f.Type.Results), ""
		}
		body := fmt.Sprintf("//line %s:1\n%s %s()%s\n", name, call, source(f.Body), after)
		v.cases[weave.NameOf(f)] = fmt.Sprintf("case %d:\n%s", number, body)
	}
	if len(v.cases) == 0 {
		v.failure = fmt.Errorf("is no solution: it declares none of the exercise's functions")
	}
	return v
}

// withVariants returns a file in which the functions of exercises do first what the
// chosen variant does, with what the variants declare besides and more behind it.
func withVariants(name, text, more string, variants []*variant) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	done := 0
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		cases := ""
		for _, v := range variants {
			cases += v.cases[weave.NameOf(f)]
		}
		if cases != "" {
			begin := int(f.Body.Lbrace-file.FileStart) + 1
			out.WriteString(text[done:begin] + "\nswitch chosenVariant {\n" + cases + "}\n")
			done = begin
		}
	}
	out.WriteString(text[done:] + more)
	for _, v := range variants {
		if v.file == name {
			out.WriteString(v.others)
		}
	}
	return workspace.WithImports(name, out.String(), importsOf(chooserImports))
}

// importsOf returns what solutions can import by which names: what is harmless, and what the book does.
func importsOf(books map[string]string) map[string]string {
	imports := map[string]string{}
	for _, harmless := range slices.Backward(workspace.Harmless) {
		imports[path.Base(harmless)] = harmless // of two that end alike the first
	}
	maps.Copy(imports, books)
	return imports
}
