package prove

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// program is the test binary of a package, with all bodies of the exercises in it.
type program struct {
	root, dir string
	// temporary is a directory for what is generated.
	temporary string
	proofs    []*proof
	variants  []*variant
	// failure says why they do not build.
	failure error
}

func (p *program) add(e *weave.Exercise) {
	proof := &proof{Exercise: e, book: &variant{}}
	p.proofs = append(p.proofs, proof)
	add := func(name, text string) *variant {
		v := variantOf(e.Name, name, text, len(p.variants)+1, e.Functions)
		p.variants = append(p.variants, v)
		return v
	}
	cut := ""
	for _, f := range e.Functions {
		cut += f.Cut
	}
	proof.cut = add("what-the-reader-begins-with.go", cut)
	for _, right := range e.Solutions.Right {
		v := &variant{name: right.Name + ".go", others: right.Text} // of a whole package it is a program of its own
		if !e.Whole() {
			v = add(v.name, right.Text)
		}
		proof.rights = append(proof.rights, v)
	}
	texts := e.Texts()
	for _, wrong := range e.Solutions.Wrong {
		applied, err := wrong.Apply(texts)
		maps.DeleteFunc(applied, func(name, text string) bool { return text == texts[name] })
		v := add(wrong.Name+".diff", strings.Join(slices.Collect(maps.Values(applied)), "\n"))
		if v.caughtBy = wrong.CaughtBy; err != nil {
			v.failure = fmt.Errorf("does not fit: %w", err)
		}
		proof.wrongs = append(proof.wrongs, v)
	}
}

// chooser says which variant a process is. What a wrong body eats up is limited: 4 GiB of
// addresses, and 64 MiB of one stack.
const chooser = `
var chosenVariant = func() int {
	debug.SetMaxStack(64 << 20)
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 4 << 30, Max: 4 << 30})
	number, _ := strconv.Atoi(os.Getenv("` + variable + `"))
	return number
}()
`

var chooserImports = map[string]string{"debug": "runtime/debug", "os": "os", "strconv": "strconv", "syscall": "syscall"}

// variable is the one of the environment that has the number of the variant.
const variable = "KCM_VARIANT"

// build builds the binary, and those of right solutions that are whole packages.
func (p *program) build(ctx context.Context) error {
	files, more := map[string][]byte{}, chooser
	for _, proof := range p.proofs {
		for _, f := range proof.Functions {
			if files[f.File] != nil {
				continue
			}
			text, err := os.ReadFile(filepath.Join(p.root, p.dir, f.File))
			if err != nil {
				return err
			}
			if files[f.File], err = withVariants(f.File, string(text), more, p.variants); err != nil {
				return fmt.Errorf("%s: %w", p.dir, err)
			}
			more = ""
		}
	}
	tests, err := p.compile(ctx, "test", files, p.isOther)
	if err != nil {
		return fmt.Errorf("%s does not compile: %w", p.dir, err)
	}
	for _, v := range p.variants {
		v.tests = tests
	}
	for _, proof := range p.proofs {
		proof.book.tests = tests
		for _, v := range proof.rights {
			if proof.Whole() {
				v.tests, v.failure = p.another(ctx, proof.Exercise, v)
			}
		}
	}
	return nil
}

// isOther tells whether a file has tests of nothing but other code. Some want a cluster.
func (p *program) isOther(file string) bool {
	return strings.HasSuffix(file, "_test.go") &&
		!slices.ContainsFunc(p.proofs, func(proof *proof) bool { return slices.Contains(proof.TestFiles, file) })
}

// another builds the tests with a solution in place of the whole package.
func (p *program) another(ctx context.Context, e *weave.Exercise, v *variant) (*behaviours.Program, error) {
	source := fmt.Sprintf("package %s\n//line %s/%s:1\n%s", filepath.Base(p.dir), e.Name, v.name, v.others)
	text, err := workspace.WithImports(v.name, source, importsOf(e.Imports))
	if err != nil {
		return nil, err
	}
	tests, err := p.compile(ctx, v.name, map[string][]byte{"exercise_" + v.name: text}, func(file string) bool {
		return p.isOther(file) || !strings.HasSuffix(file, "_test.go")
	})
	if err != nil {
		err = fmt.Errorf("does not compile: %w", err)
	}
	return tests, err
}

// compile builds the tests of the exercises with some files besides the package's, or in their place, and without
// those that are left out.
func (p *program) compile(
	ctx context.Context, name string, files map[string][]byte, isOut func(string) bool,
) (*behaviours.Program, error) {
	paths, _ := filepath.Glob(filepath.Join(p.root, p.dir, "*.go")) // the pattern is well-formed
	generated := filepath.Join(p.temporary, name)
	replaced := map[string]string{}
	for _, path := range paths {
		if isOut(filepath.Base(path)) {
			replaced[path] = ""
		}
	}
	for file := range files {
		replaced[filepath.Join(p.root, p.dir, file)] = filepath.Join(generated, file)
	}
	if err := weave.WriteFiles(generated, files); err != nil {
		return nil, err
	}
	return behaviours.Build(ctx, p.root, p.dir, replaced, filepath.Join(generated, "test"), "-gcflags=-e")
}
