package workspace

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
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
	from, err := s.read(e.Dir)
	if err != nil {
		return err
	}
	book := declaredIn(files, e.Dir)
	if e.Whole() {
		return replaceWhole(e, from, book, files)
	}
	written := map[string][]declaration{} // by file
	var texts []string
	var added []declaration
	addedIn := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		for _, d := range from[name].declarations {
			switch {
			case isFunction(e, d.name):
				written[name] = append(written[name], d)
				texts = append(texts, d.text)
			case d.name == "_" || d.name == "init": // nothing uses it
			case book[d.name] == "":
				added = append(added, d)
				addedIn[d.text] = name
			}
		}
	}
	if !anyWritten(e, texts) {
		return errNotWritten
	}
	for _, d := range reachable(texts, added) {
		written[addedIn[d.text]] = append(written[addedIn[d.text]], d)
	}
	for name, declarations := range written {
		if err := allowed(e, declarations, from[name], book); err != nil {
			return err
		}
	}
	return graftAll(e, written, from, files)
}

var errNotWritten = errors.New("not written")

func anyWritten(e *weave.Exercise, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(text, unwritten(e.Name)) })
}

// replaceWhole puts a package that was written as a whole in place of what the reader
// finds of it.
func replaceWhole(e *weave.Exercise, from map[string]*source, book map[string]string, files map[string][]byte) error {
	var texts []string
	for _, s := range from {
		s.declarations = slices.DeleteFunc(s.declarations, func(d declaration) bool { return d.name == "_" || d.name == "init" })
		if err := allowed(e, s.declarations, s, book); err != nil {
			return err
		}
		for _, d := range s.declarations {
			if isFunction(e, d.name) {
				texts = append(texts, d.text)
			}
		}
	}
	if !anyWritten(e, texts) {
		return errNotWritten
	}
	return putWhole(e.Dir, from, files)
}

// putWhole puts a package in place of another, with nothing but its declarations.
func putWhole(dir string, from map[string]*source, files map[string][]byte) error {
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return path.Dir(name) == dir && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
	})
	for name, s := range from {
		var err error
		if files[name], err = graft(name, []byte("package "+s.syntax.Name.Name+"\n"), s, nil, s.declarations); err != nil {
			return fmt.Errorf("does not compile: %w", err)
		}
	}
	return nil
}

// maxPackage is the size of a package, in bytes, that nobody writes by hand.
const maxPackage = 1 << 19

// read reads the Go files of a package, but for its tests, by their names in the
// module. A link that leads out of the submission leads nowhere.
func (s *Submission) read(dir string) (map[string]*source, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", dir, err)
	}
	from := map[string]*source{}
	left := int64(maxPackage)
	for _, entry := range entries {
		name := dir + "/" + entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		if left -= info.Size(); !info.Mode().IsRegular() || left < 0 {
			return nil, fmt.Errorf("%s is no file of Go code, or its package is greater than %d bytes", name, maxPackage)
		}
		text, err := root.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if from[name], err = parse(name, text); err != nil {
			return nil, fmt.Errorf("does not compile: %w", err)
		}
	}
	return from, nil
}

// graftAll puts declarations where the book has them, and the others behind.
func graftAll(e *weave.Exercise, written map[string][]declaration, from map[string]*source, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(written)) {
		changed := map[string][]declaration{} // by the book's file
		var added []declaration
		for _, d := range written[name] {
			if i := slices.IndexFunc(e.Functions, func(f weave.Function) bool { return f.Name == d.name }); i >= 0 {
				onto := e.Dir + "/" + e.Functions[i].File
				changed[onto] = append(changed[onto], d)
			} else {
				added = append(added, d)
			}
		}
		if len(added) > 0 && changed[name] == nil {
			changed[name] = []declaration{}
		}
		for onto, declarations := range changed {
			behind := added
			if onto != name {
				behind = nil
			}
			if files[onto] == nil {
				files[onto] = []byte("package " + from[name].syntax.Name.Name + "\n")
			}
			var err error
			if files[onto], err = graft(onto, files[onto], from[name], declarations, behind); err != nil {
				return fmt.Errorf("does not compile: %w", err)
			}
		}
	}
	return nil
}

func isFunction(e *weave.Exercise, name string) bool {
	return slices.ContainsFunc(e.Functions, func(f weave.Function) bool { return f.Name == name })
}

// declaredIn returns what a package of the book's module declares, and in which file.
func declaredIn(files map[string][]byte, dir string) map[string]string {
	declared := map[string]string{}
	for name, text := range files {
		if path.Dir(name) != dir || !strings.HasSuffix(name, ".go") {
			continue
		}
		if s, err := parse(name, text); err == nil {
			for _, d := range s.declarations {
				for _, n := range d.names {
					declared[n] = name
				}
			}
		}
	}
	return declared
}

// Harmless are packages that do nothing to files, processes or the network, so that a
// solution can use them though the book's does not. With one that ends with a slash all
// below it are. The book's own other solutions have the same.
var Harmless = []string{
	"bytes", "cmp", "context", "errors", "fmt", "iter", "maps", "math", "math/bits", "math/rand", "math/rand/v2", "slices", "sort",
	"strconv", "strings", "sync", "sync/atomic", "time", "unicode", "unicode/utf8",
	"k8s.io/api/", "k8s.io/apimachinery/pkg/api/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/labels",
	"k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/util/errors", "k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/util/sets", "k8s.io/apimachinery/pkg/util/wait", "k8s.io/utils/clock", "k8s.io/utils/ptr",
}

func isHarmless(path string) bool {
	return slices.ContainsFunc(Harmless, func(known string) bool {
		return path == known || strings.HasSuffix(known, "/") && strings.HasPrefix(path, known)
	})
}

// allowed says what in some declarations an exercise does not allow: packages that
// neither the book's solution uses nor are harmless, what the tests declare, and what
// would change what they see or print.
func allowed(e *weave.Exercise, declarations []declaration, from *source, book map[string]string) error {
	ours := map[string]bool{}
	for _, path := range e.Imports {
		ours[path] = true
	}
	for _, f := range e.Functions {
		for name := range qualifiersIn(f.Text) {
			ours[f.Imports[name]] = true
		}
	}
	imported := map[string]string{}
	for _, spec := range from.syntax.Imports {
		imported[importName(spec)] = pathOf(spec)
	}
	for _, d := range declarations {
		if strings.Contains(d.text, "//go:") || strings.Contains(d.text, "//line ") || strings.Contains(d.text, "/*line ") {
			return fmt.Errorf("%s has a directive for the compiler, which the exercise does not need", d.name)
		}
		for name := range qualifiersIn(d.text) {
			if path := imported[name]; path != "" && !ours[path] && !isHarmless(path) {
				return fmt.Errorf("%s uses %s, which the exercise does not need", d.name, path)
			}
		}
		for _, name := range unresolvedIn(d.text) {
			if strings.HasSuffix(book[name], "_test.go") {
				return fmt.Errorf("%s uses %s, which only the tests have", d.name, name)
			}
		}
		if !isFunction(e, d.name) && meddles(d, book) {
			return fmt.Errorf("%s changes what others see: choose another name", d.name)
		}
	}
	return nil
}

// meddles tells whether a declaration that was added means something to code that does
// not name it: it has a name of Go's own, or is a method by which values of one of the
// book's types are printed.
func meddles(d declaration, book map[string]string) bool {
	if receiver, method, ok := strings.Cut(d.name, ")."); ok {
		return book[strings.Trim(receiver, "(*")] != "" && slices.Contains([]string{"String", "GoString", "Format", "Error", "MarshalJSON"}, method)
	}
	return slices.ContainsFunc(d.names, func(name string) bool { return types.Universe.Lookup(name) != nil })
}

// qualifiersIn returns the names before dots in a declaration that it does not
// declare.
func qualifiersIn(text string) map[string]bool {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
	if err != nil {
		return nil
	}
	return qualifiers(syntax)
}

// unresolvedIn returns the names in a declaration that it does not declare.
func unresolvedIn(text string) []string {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
	if err != nil {
		return nil
	}
	var names []string
	for _, ident := range syntax.Unresolved {
		names = append(names, ident.Name)
	}
	return names
}
