package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	tests     *behaviours.Program
	// failure says why they do not build.
	failure error
}

// add adds an exercise and all bodies that it needs.
func (p *program) add(e *weave.Exercise) {
	proof := &proof{Exercise: e, program: p}
	p.proofs = append(p.proofs, proof)
	variant := func(name, text string) *variant {
		v := variantOf(e.Name+"/"+name, text, len(p.variants)+1, e.Functions)
		p.variants = append(p.variants, v)
		return v
	}
	var cut strings.Builder
	for _, f := range e.Functions {
		cut.WriteString(f.Cut)
	}
	proof.cut = variant("what-the-reader-begins-with.go", cut.String())
	for _, right := range e.Solutions.Right {
		if !e.Whole() { // else it is a program of its own
			proof.rights = append(proof.rights, variant(right.Name+".go", right.Text))
		}
	}
	texts := e.Texts()
	for _, wrong := range e.Solutions.Wrong {
		applied, err := wrong.Apply(texts)
		maps.DeleteFunc(applied, func(name, text string) bool { return text == texts[name] })
		v := variant(wrong.Name+".diff", strings.Join(slices.Collect(maps.Values(applied)), "\n"))
		if err != nil {
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

// build builds the binary.
func (p *program) build(ctx context.Context) (err error) {
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
	if p.tests, err = p.compile(ctx, "test", files, false); err != nil {
		return fmt.Errorf("%s does not compile: %w", p.dir, err)
	}
	return nil
}

// compile builds the tests of the exercises with some files in place of the package's, or
// of all of them. The other tests are left out: some want a cluster.
func (p *program) compile(ctx context.Context, name string, files map[string][]byte, ofAll bool) (
	*behaviours.Program, error) {
	paths, err := filepath.Glob(filepath.Join(p.root, p.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		own := filepath.Base(path)
		isLeft := ofAll
		if strings.HasSuffix(own, "_test.go") {
			isLeft = !slices.ContainsFunc(p.proofs, func(proof *proof) bool { return slices.Contains(proof.TestFiles, own) })
		}
		if isLeft {
			files[own] = nil
		}
	}
	generated := filepath.Join(p.temporary, name)
	if err := os.MkdirAll(generated, 0o755); err != nil {
		return nil, err
	}
	replaced := map[string]string{}
	for name, text := range files {
		path := filepath.Join(generated, name)
		if text == nil {
			path = ""
		} else if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
		replaced[filepath.Join(p.root, p.dir, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(generated, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o644); err != nil {
		return nil, err
	}
	return behaviours.Build(ctx, p.root, p.dir, filepath.Join(generated, "test"), "-gcflags=-e", "-overlay="+path)
}

// another builds the tests with a solution in place of the whole package.
func (p *program) another(ctx context.Context, e *weave.Exercise, name, solution string) (*behaviours.Program, error) {
	source := fmt.Sprintf("package %s\n//line %s/%s:1\n%s", filepath.Base(p.dir), e.Name, name, solution)
	text, err := workspace.WithImports(name, source, importsOf(e.Imports))
	if err != nil {
		return nil, err
	}
	return p.compile(ctx, name, map[string][]byte{"exercise_" + name: text}, true)
}

// limit is how long a variant may run at most, on a machine however busy. One that
// takes longer hangs.
const limit = 5 * time.Minute

// run runs the tests that a pattern matches, with one variant, for at most so long.
func run(ctx context.Context, tests *behaviours.Program, variant int, pattern string, within time.Duration) (
	*behaviours.Outcome, error) {
	with := *tests
	with.Limit = within
	return with.Try(ctx, pattern, "", fmt.Sprintf("%s=%d", variable, variant))
}
