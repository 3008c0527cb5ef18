package workspace

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Submission is what somebody hands in. Nothing in it is run as it is: what belongs
// to an exercise is put into the book's own module.
type Submission struct{ Dir string }

// Graft puts the functions of an exercise into the files of the book's module, with
// what they use that was added. Its error says what the exercise does not allow.
func (s *Submission) Graft(e *weave.Exercise, files map[string][]byte) error {
	written := map[string][]declaration{} // by file
	from := map[string]*source{}
	var texts []string
	var added []declaration
	addedIn := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(s.Dir, e.Dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		name := e.Dir + "/" + filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := readSmall(path)
		if err != nil {
			return err
		}
		mine, err := parse(name, text)
		if err != nil {
			return fmt.Errorf("does not compile: %w", err)
		}
		from[name] = mine
		for _, d := range mine.declarations {
			switch {
			case isFunction(e, d.name):
				written[name] = append(written[name], d)
				texts = append(texts, d.text)
			case !declares(files, e.Dir, d.name):
				added = append(added, d)
				addedIn[d.name] = name
			}
		}
	}
	for _, d := range reachable(texts, added) {
		written[addedIn[d.name]] = append(written[addedIn[d.name]], d)
	}
	for name, declarations := range written {
		if err := allowed(e, declarations, from[name]); err != nil {
			return err
		}
	}
	return graftAll(e, written, from, files)
}

// graftAll puts declarations where the book has them, and the others behind.
func graftAll(e *weave.Exercise, written map[string][]declaration, from map[string]*source, files map[string][]byte) error {
	results := map[string][]byte{}
	for name, declarations := range written {
		for _, d := range declarations {
			onto, changed, added := name, []declaration(nil), []declaration{d}
			for _, f := range e.Functions {
				if f.Name == d.name {
					onto, changed, added = e.Dir+"/"+f.File, []declaration{d}, nil
				}
			}
			text := results[onto]
			if text == nil {
				text = files[onto]
			}
			if text == nil {
				text = []byte("package " + from[name].syntax.Name.Name + "\n")
			}
			var err error
			if results[onto], err = graft(onto, text, from[name], changed, added); err != nil {
				return fmt.Errorf("does not compile: %w", err)
			}
		}
	}
	for name, text := range results {
		files[name] = text
	}
	return nil
}

// maxFile is the size of a file, in bytes, that nobody writes by hand.
const maxFile = 1 << 20

func readSmall(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of Go code of at most %d bytes", filepath.Base(path), maxFile)
	}
	return os.ReadFile(path)
}

func isFunction(e *weave.Exercise, name string) bool {
	return slices.ContainsFunc(e.Functions, func(f weave.Function) bool { return f.Name == name })
}

// declares tells whether a package of the book's module declares a name.
func declares(files map[string][]byte, dir, name string) bool {
	for path, text := range files {
		if filepath.Dir(path) != dir || !strings.HasSuffix(path, ".go") {
			continue
		}
		if s, err := parse(path, text); err == nil && s.find(name) != nil {
			return true
		}
	}
	return false
}

// harmless are the packages, or the beginnings of their paths, that do nothing to
// files, processes or the network.
var harmless = []string{
	"bytes", "cmp", "context", "errors", "fmt", "iter", "maps", "math", "slices", "sort", "strconv", "strings", "sync", "time",
	"unicode", "k8s.io/api/", "k8s.io/apimachinery/pkg/", "k8s.io/utils/ptr", "k8s.io/utils/clock",
}

// allowed says what in some declarations an exercise does not allow: packages that
// neither the book's solution uses nor are harmless, and what would change what the
// tests see or print.
func allowed(e *weave.Exercise, declarations []declaration, from *source) error {
	ours := map[string]bool{}
	for _, f := range e.Functions {
		for name := range qualifiersIn(f.Text) {
			ours[name] = true
		}
	}
	paths := map[string]string{}
	for _, spec := range from.syntax.Imports {
		paths[importName(spec)] = pathOf(spec)
	}
	for _, d := range declarations {
		if strings.Contains(d.text, "//go:") || strings.Contains(d.text, "//export") {
			return fmt.Errorf("%s has a directive for the compiler, which the exercise does not need", d.name)
		}
		for name := range qualifiersIn(d.text) {
			path := paths[name]
			if path != "" && !ours[name] && !isHarmless(path) {
				return fmt.Errorf("%s uses %s, which the exercise does not need", d.name, path)
			}
		}
		if isFunction(e, d.name) {
			continue
		}
		short := d.name[strings.LastIndexByte(d.name, '.')+1:]
		if predeclared[short] || short == "init" || slices.Contains([]string{"String", "GoString", "Format", "Error"}, short) && short != d.name {
			return fmt.Errorf("%s changes what others see: choose another name", d.name)
		}
	}
	return nil
}

func isHarmless(path string) bool {
	return slices.ContainsFunc(harmless, func(known string) bool {
		return path == known || strings.HasPrefix(path, strings.TrimSuffix(known, "/")+"/")
	})
}

// predeclared are the names of Go itself that would mean something else in the tests.
var predeclared = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq("any append bool byte cap clear close comparable complex copy delete error false int int32 int64 iota len make map max min new nil panic print println real recover string true uint") {
		names[name] = true
	}
	return names
}()

// qualifiersIn returns the names before dots in a declaration that it does not
// declare.
func qualifiersIn(text string) map[string]bool {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
	if err != nil {
		return nil
	}
	names := qualifiers(syntax)
	ast.Inspect(syntax, func(node ast.Node) bool {
		// println and print write past what is read of the tests.
		if ident, ok := node.(*ast.Ident); ok && (ident.Name == "unsafe" || ident.Name == "C") {
			names[ident.Name] = true
		}
		return true
	})
	return names
}
