package workspace

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Graft puts the functions of an exercise that somebody has written, and what they use that was added, in place of the
// book's into the files of its module. Nothing else of what is in dir is taken. Where it is strict, because somebody
// has handed them in, its error says what the exercise does not allow.
func Graft(dir string, e *weave.Exercise, files map[string][]byte, strict bool) error {
	all, broken := readPackage(dir, e.Dir)
	book := map[string]string{} // in which file what is declared
	for name, text := range files {
		if path.Dir(name) != e.Dir || !strings.HasSuffix(name, ".go") {
			continue
		}
		own, err := parse(name, text)
		if err != nil {
			return err
		}
		for _, d := range own {
			for _, n := range d.names {
				if !e.Whole() || ast.IsExported(n) || !isCode(name) { // of a whole package the reader knows nothing else
					book[n] = name
				}
			}
		}
	}
	var written, added []Declaration
	for _, d := range all {
		switch {
		case strict && (d.Name == "_" || d.Name == "init"): // nothing uses it
		case e.Whole() || functionOf(e, d.Name) != nil:
			written = append(written, d)
		case book[d.Name] == "":
			added = append(added, d)
		}
	}
	if broken != nil && (e.Whole() || len(written) < len(e.Functions)) {
		return broken // else it is a file with another exercise
	}
	written = reachable(written, added)
	if strict {
		if err := allowed(e, written, book); err != nil {
			return err
		}
	}
	if e.Whole() {
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return path.Dir(name) == e.Dir && isCode(name) })
	}
	for _, d := range written {
		name := d.File
		if f := functionOf(e, d.Name); f != nil && !e.Whole() {
			name = e.Dir + "/" + f.File
		}
		if err := graft(files, name, d); err != nil {
			return err
		}
	}
	return nil
}

func functionOf(e *weave.Exercise, name string) *weave.Function {
	for i := range e.Functions {
		if e.Functions[i].Name == name {
			return &e.Functions[i]
		}
	}
	return nil
}

// maxPackage is the size of a package, in bytes, that nobody writes by hand.
const maxPackage = 1 << 19

func isCode(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// readPackage reads what a package in a module declares, but for its tests, and returns it with an error where a file
// does not compile. Files have their names in the module. A link that leads out of it leads nowhere.
func readPackage(module, dir string) ([]Declaration, error) {
	root, err := os.OpenRoot(module)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", dir, err)
	}
	var all []Declaration
	var broken error
	left := int64(maxPackage)
	for _, entry := range entries {
		name := dir + "/" + entry.Name()
		if !isCode(name) {
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
		own, err := parse(name, text)
		broken = errors.Join(broken, err)
		all = append(all, own...)
	}
	return all, broken
}

// Harmless are packages that do nothing to files, processes or the network, so that a solution can use them though the
// book's does not. With one that ends with a slash all below it are. The book's own other solutions have the same.
var Harmless = []string{
	"bytes", "cmp", "context", "errors", "fmt", "iter", "maps", "math", "math/bits", "math/rand", "math/rand/v2", "slices",
	"sort", "strconv", "strings", "sync", "sync/atomic", "time", "unicode", "unicode/utf8",
	"k8s.io/api/", "k8s.io/apimachinery/pkg/api/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/labels",
	"k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/util/errors", "k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/util/sets", "k8s.io/apimachinery/pkg/util/wait", "k8s.io/utils/clock", "k8s.io/utils/ptr",
}

func isHarmless(path string) bool {
	return slices.ContainsFunc(Harmless, func(known string) bool {
		return path == known || strings.HasSuffix(known, "/") && strings.HasPrefix(path, known)
	})
}

// allowed says what in some declarations an exercise does not allow: packages that neither the book's solution uses
// nor are harmless, what the tests declare, and what would change what they see or print.
func allowed(e *weave.Exercise, declarations []Declaration, book map[string]string) error {
	has, written := map[string]bool{}, false
	for _, d := range declarations {
		has[d.Name] = true
		written = written || functionOf(e, d.Name) != nil && !isUnwritten(d.Text)
	}
	if !written {
		return errors.New("not written")
	}
	ours := map[string]bool{}
	for _, path := range e.Imports {
		ours[path] = true
	}
	for _, f := range e.Functions {
		if !has[f.Name] && !f.Unnamed {
			return fmt.Errorf("%s is missing", f.Name)
		}
		for name, foreign := range usesOf(f.Text) {
			ours[f.Imports[name]] = ours[f.Imports[name]] || foreign
		}
	}
	for _, d := range declarations {
		if strings.Contains(d.Text, "//go:") || strings.Contains(d.Text, "//line ") || strings.Contains(d.Text, "/*line ") {
			return fmt.Errorf("%s has a directive for the compiler, which the exercise does not need", d.Name)
		}
		for name, path := range weave.ImportsOf(d.syntax) {
			if d.uses[name] && !ours[path] && !isHarmless(path) {
				return fmt.Errorf("%s uses %s, which the exercise does not need", d.Name, path)
			}
		}
		for name, foreign := range d.uses {
			if foreign && strings.HasSuffix(book[name], "_test.go") {
				return fmt.Errorf("%s uses %s, which only the tests have", d.Name, name)
			}
		}
		if functionOf(e, d.Name) == nil && meddles(d, book) {
			return fmt.Errorf("%s changes what others see: choose another name", d.Name)
		}
	}
	return nil
}

// meddles tells whether a declaration that was added means something to code that does not name it: it has a name of
// Go's own, or is a method by which values of one of the book's types are printed.
func meddles(d Declaration, book map[string]string) bool {
	if receiver, method, ok := strings.Cut(d.Name, ")."); ok {
		printing := []string{"String", "GoString", "Format", "Error", "MarshalJSON"}
		return book[strings.Trim(receiver, "(*")] != "" && slices.Contains(printing, method)
	}
	return slices.ContainsFunc(d.names, func(name string) bool { return types.Universe.Lookup(name) != nil })
}
