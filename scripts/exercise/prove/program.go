package prove

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/solutions"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
)

// program is the test binary of a package, with all variants of the exercises in it.
type program struct {
	root, dir string
	// temporary is a directory for what is generated. It is there already.
	temporary string
	// name is that of the package, as its files say.
	name     string
	proofs   []*proof
	variants []*variant
	// rapid tells that its tests take rapid's flags.
	rapid bool
	// failure says why it could not be built.
	failure error
}

// add adds a variant of an exercise.
func (p *program) add(texts map[string]string) *variant {
	v := &variant{texts: texts, number: len(p.variants) + 1}
	p.variants = append(p.variants, v)
	return v
}

func (p *program) binary() string { return filepath.Join(p.temporary, "test") }

// build builds the binary. Variants that do not compile are left out and say why.
func (p *program) build(ctx context.Context) error {
	replaced, err := p.otherTests() // paths of what is generated, by the path in the package
	if err != nil {
		return err
	}
	if err := p.writeOriginals(replaced); err != nil {
		return err
	}
	for {
		if err := p.writeVariants(replaced); err != nil {
			return err
		}
		failed, err := p.compile(ctx, replaced)
		if err != nil {
			return err
		}
		if !failed {
			break
		}
	}
	usage, _ := exec.CommandContext(ctx, p.binary(), "-help").CombinedOutput()
	p.rapid = bytes.Contains(usage, []byte("-rapid.seed"))
	return ctx.Err()
}

// otherTests returns the test files that no exercise needs, with nothing in their
// place: some of them want a cluster.
func (p *program) otherTests() (map[string]string, error) {
	needed := map[string]bool{}
	for _, proof := range p.proofs {
		for _, file := range proof.TestFiles {
			needed[file] = true
		}
	}
	paths, err := filepath.Glob(filepath.Join(p.root, p.dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	others := map[string]string{}
	for _, path := range paths {
		if !needed[filepath.Base(path)] {
			others[path] = ""
		}
	}
	return others, nil
}

// writeOriginals writes the package's files in which the exercises' functions have the
// names of variant 0.
func (p *program) writeOriginals(replaced map[string]string) error {
	functions := map[string]map[string]bool{} // names by file
	for _, proof := range p.proofs {
		for _, f := range proof.Functions {
			if functions[f.File] == nil {
				functions[f.File] = map[string]bool{}
			}
			functions[f.File][f.Name] = true
		}
	}
	for name, ours := range functions {
		path := filepath.Join(p.root, p.dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.name = file.Name.Name
		renamings := map[int]renaming{}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && ours[weave.NameOf(f)] {
				renamings[int(f.Name.Pos()-file.FileStart)] = renaming{f.Name.Name, (&variant{}).named(f.Name.Name)}
			}
		}
		if err := p.write(replaced, name, edited(string(text), renamings)); err != nil {
			return err
		}
	}
	return nil
}

// chooser is the file that says which variant a process is. What a wrong body eats up
// is limited: 4 GiB of addresses, and 64 MiB of one stack.
const chooser = `package %s

import (
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
)

var chosenVariant = func() int {
	debug.SetMaxStack(64 << 20)
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 4 << 30, Max: 4 << 30})
	number, _ := strconv.Atoi(os.Getenv("` + variable + `"))
	return number
}()
`

// variable is the one of the environment that has the number of the variant.
const variable = "KCM_VARIANT"

// writeVariants writes those variants that have not failed to compile, and what
// chooses among them.
func (p *program) writeVariants(replaced map[string]string) error {
	if err := p.write(replaced, "exercise_chooser.go", fmt.Sprintf(chooser, p.name)); err != nil {
		return err
	}
	for _, proof := range p.proofs {
		for _, v := range proof.variants() {
			name := fmt.Sprintf("exercise_variant_%d.go", v.number)
			delete(replaced, filepath.Join(p.root, p.dir, name))
			if v.failure != nil {
				continue
			}
			text, err := v.file(p.name, proof.Functions)
			if err != nil {
				v.failure = fmt.Errorf("does not compile: %w", err)
			} else if err := p.write(replaced, name, text); err != nil {
				return err
			}
		}
		for i, f := range proof.Functions {
			text, err := dispatcher(p.name, f, proof.variants())
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			if err := p.write(replaced, fmt.Sprintf("exercise_of_%s_%d.go", proof.Name, i), text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *program) write(replaced map[string]string, name, text string) error {
	path := filepath.Join(p.temporary, name)
	replaced[filepath.Join(p.root, p.dir, name)] = path
	return os.WriteFile(path, []byte(text), 0o644)
}

// compileError matches an error in a variant, or elsewhere because of one.
var compileError = regexp.MustCompile(`(?m)exercise_variant_(\d+)\.go:\d+:\d+(?:: (.*))?$`)

// compile builds the binary, or tells that some variants have failed.
func (p *program) compile(ctx context.Context, replaced map[string]string) (failed bool, err error) {
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return false, err
	}
	path := filepath.Join(p.temporary, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o644); err != nil {
		return false, err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-ldflags=-s -w",
		"-overlay", path, "-o", p.binary(), "./"+p.dir)
	command.Dir = p.root
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	output, err := command.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return false, ctx.Err()
	}
	for _, match := range compileError.FindAllStringSubmatch(string(output), -1) {
		number, _ := strconv.Atoi(match[1])
		if v := p.variants[number-1]; v.failure == nil {
			v.failure, failed = fmt.Errorf("does not compile: %s", cmp.Or(match[2], "it declares what the package has already")), true
		}
	}
	if !failed {
		return false, fmt.Errorf("the tests of %s do not build: %w\n%s", p.dir, err, output)
	}
	return true, nil
}

// withPackage builds the tests of an exercise with a solution in place of the whole
// package, or says why it does not compile.
func (p *program) withPackage(ctx context.Context, e *proof, right solutions.Right) (built *program, failure, err error) {
	built = &program{root: p.root, dir: p.dir, name: p.name, rapid: p.rapid, proofs: []*proof{e}, temporary: filepath.Join(p.temporary, right.Name)}
	if err := os.Mkdir(built.temporary, 0o755); err != nil {
		return nil, nil, err
	}
	replaced, err := built.otherTests()
	if err != nil {
		return nil, nil, err
	}
	own, err := filepath.Glob(filepath.Join(p.root, p.dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	for _, path := range own {
		if !strings.HasSuffix(path, "_test.go") {
			replaced[path] = ""
		}
	}
	v := built.add(nil)
	text, err := whole(p.name, right.Text, e.Exercise)
	if err != nil {
		return nil, fmt.Errorf("does not compile: %w", err), nil
	}
	if err := built.write(replaced, fmt.Sprintf("exercise_variant_%d.go", v.number), text); err != nil {
		return nil, nil, err
	}
	_, failure = built.compile(ctx, replaced)
	return built, cmp.Or(v.failure, failure), nil
}

// limit is how long a variant may run at most, on a machine however busy. One that
// takes longer hangs.
const limit = 5 * time.Minute

// run runs the tests that a pattern matches, with one variant, for at most so long.
func (p *program) run(ctx context.Context, number int, pattern string, seed int, within time.Duration) (*behaviours.Outcome, error) {
	tests := &behaviours.Program{Path: p.binary(), Dir: filepath.Join(p.root, p.dir), Limit: within}
	return tests.Try(ctx, pattern, "", fmt.Sprintf("%s=%d", variable, number), fmt.Sprintf("RAPID_SEED=%d", seed))
}

// prepare collects all bodies.
func (p *program) prepare() error {
	if err := os.Mkdir(p.temporary, 0o755); err != nil {
		return err
	}
	for _, proof := range p.proofs {
		proof.addVariants()
	}
	return nil
}
