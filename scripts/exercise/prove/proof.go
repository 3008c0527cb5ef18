package prove

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/scripts/book/solutions"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
)

// proof is what has been proved of an exercise.
type proof struct {
	*weave.Exercise
	program *program

	cut     *variant
	rights  []*variant // those of the exercise's Solutions, in their order
	wrongs  []*variant
	mutants []mutant
	changed []*variant // by the mutants

	// behaviours are the full names of the subtests that have none themselves, as go
	// prints them.
	behaviours []string
	rejected   int
	// patience is how long a wrong body may run. Many hang.
	patience time.Duration
	// mutated is the number of mutants that compile.
	killed, mutated int
	took            time.Duration
	failures        []error
}

// programsOf returns the programs that prove exercises, and the proofs to be.
func programsOf(root, temporary string, exercises []*weave.Exercise) []*program {
	var programs []*program
	for _, e := range exercises {
		at := slices.IndexFunc(programs, func(p *program) bool { return p.dir == e.Dir })
		if at < 0 {
			at = len(programs)
			programs = append(programs, &program{root: root, dir: e.Dir, temporary: filepath.Join(temporary, strconv.Itoa(at))})
		}
		p := programs[at]
		p.proofs = append(p.proofs, &proof{Exercise: e, program: p})
	}
	return programs
}

// addVariants adds all bodies that the exercise needs to its program.
func (p *proof) addVariants() error {
	texts, cut := map[string]string{}, map[string]string{}
	for _, f := range p.Functions {
		texts[f.Name], cut[f.Name] = f.Text, f.Cut
		mutants, err := mutantsOf(f)
		if err != nil {
			return err
		}
		p.mutants = append(p.mutants, mutants...)
	}
	p.cut = p.program.add(cut)
	for _, right := range p.Solutions.Right {
		if p.Whole() {
			continue // it is a program of its own
		}
		found, err := parts(right.Text, p.Functions)
		v := p.program.add(found)
		if err != nil {
			v.failure = fmt.Errorf("is no solution: %w", err)
		}
		p.rights = append(p.rights, v)
	}
	for _, wrong := range p.Solutions.Wrong {
		applied, err := wrong.Apply(texts)
		for name, text := range applied {
			if text == texts[name] {
				delete(applied, name)
			}
		}
		v := p.program.add(applied)
		if err != nil {
			v.failure = fmt.Errorf("does not fit: %w", err)
		}
		p.wrongs = append(p.wrongs, v)
	}
	for _, m := range p.mutants {
		p.changed = append(p.changed, p.program.add(map[string]string{m.function.Name: m.text}))
	}
	return nil
}

func (p *proof) variants() []*variant {
	return slices.Concat([]*variant{p.cut}, p.rights, p.wrongs, p.changed)
}

// fail notes, in a line, what is not as it has to be.
func (p *proof) fail(format string, args ...any) {
	line := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", " / ")
	p.failures = append(p.failures, p.Errorf("%s: %s", p.Name, line))
}

func (p *proof) mark() string {
	if len(p.failures) > 0 {
		return "✗"
	}
	return "✓"
}

func (p *proof) percentage() int { return 100 * p.killed / max(p.mutated, 1) }

// prove proves what Run promises. Its error says why it could not.
func (p *proof) prove(ctx context.Context) error {
	begin := time.Now()
	defer func() { p.took = time.Since(begin) }()
	for _, step := range []func(context.Context) error{p.proveBook, p.proveRights, p.proveCut, p.proveWrongs, p.proveMutants} {
		if err := step(ctx); err != nil {
			return err
		}
		if len(p.behaviours) == 0 {
			return nil // without tests that pass, the rest means nothing
		}
	}
	return nil
}

// proveBook finds the behaviours and proves that the book's body has them.
func (p *proof) proveBook(ctx context.Context) error {
	begin := time.Now()
	o, err := p.program.run(ctx, 0, behaviours.Any(p.Tests...), 1, limit)
	if err != nil {
		return err
	}
	p.patience = min(2*time.Second+10*time.Since(begin), limit)
	if !o.Passed {
		p.fail("the book's solution fails: %s", says(o))
		return nil
	}
	for _, test := range p.Tests {
		if !slices.Contains(o.Order, test) {
			p.fail("%s does not run", test)
		}
	}
	seen := map[string]bool{}
	for _, name := range o.Behaviours() {
		sentence := sentenceOf(name)
		if seen[sentence] {
			p.fail("two behaviours are called %q", sentence)
		}
		if seen[sentence] = true; o.Results[name] == "SKIP" {
			p.fail("%q is skipped", sentence)
		}
		p.behaviours = append(p.behaviours, name)
	}
	return nil
}

func (p *proof) proveRights(ctx context.Context) error {
	if len(p.Solutions.Right) == 0 {
		p.fail("%s has no right solution: write one, another-way.go, differently from the book's", p.Solutions.Path)
	}
	if p.Whole() {
		return p.proveWhole(ctx)
	}
	return p.each(ctx, p.rights, func(i int, v *variant) (func(), error) {
		name := p.Solutions.Right[i].Name
		if v.failure != nil {
			return func() { p.fail("%s.go %s", name, v.failure) }, nil
		}
		o, err := p.program.run(ctx, v.number, behaviours.Any(p.Tests...), 1, limit)
		return func() {
			if err == nil && !o.Passed {
				p.fail("%s.go fails: %s", name, says(o))
			}
		}, err
	})
}

// proveWhole proves the right solutions of a package that is written as a whole. Each is
// a program of its own.
func (p *proof) proveWhole(ctx context.Context) error {
	for _, right := range p.Solutions.Right {
		program, failure, err := p.program.withPackage(ctx, p, right)
		if err != nil {
			return err
		}
		if failure != nil {
			p.fail("%s.go %s", right.Name, failure)
			continue
		}
		o, err := program.run(ctx, 0, behaviours.Any(p.Tests...), 1, limit)
		if err != nil {
			return err
		}
		if !o.Passed {
			p.fail("%s.go fails: %s", right.Name, says(o))
		}
	}
	return nil
}

// proveCut proves that each test fails as long as nothing is written.
func (p *proof) proveCut(ctx context.Context) error {
	if p.cut.failure != nil {
		p.fail("what the reader begins with %s", p.cut.failure)
		return nil
	}
	for _, test := range p.Tests {
		o, err := p.program.run(ctx, p.cut.number, behaviours.Any(test), 1, limit)
		if err != nil {
			return err
		}
		if o.Passed {
			p.fail("%s passes before anything is written", test)
		}
	}
	return nil
}

// fewest is how many wrong solutions an exercise has at least.
const fewest = 5

func (p *proof) proveWrongs(ctx context.Context) error {
	if len(p.wrongs) < fewest {
		p.fail("%s has %d wrong solutions: %d likely misconceptions are the least", p.Solutions.Path, len(p.wrongs), fewest)
	}
	return p.each(ctx, p.wrongs, func(i int, v *variant) (func(), error) {
		failure, err := p.reject(ctx, p.Solutions.Wrong[i], v)
		return func() {
			if failure != nil {
				p.fail("%s.diff %s", p.Solutions.Wrong[i].Name, failure)
			} else {
				p.rejected++
			}
		}, err
	})
}

// seeds are those of rapid with which a wrong solution is tried. It has to fail with
// each, as its reader has only one.
const seeds = 3

// reject returns why a wrong solution is not rejected by the behaviour that it names,
// or nil.
func (p *proof) reject(ctx context.Context, wrong *solutions.Wrong, v *variant) (failure, err error) {
	if v.failure != nil {
		return v.failure, nil
	}
	at := slices.IndexFunc(p.behaviours, func(name string) bool { return sentenceOf(name) == asGo(wrong.CaughtBy) })
	if at < 0 {
		return fmt.Errorf("is said to be caught by %q, which no test is called", wrong.CaughtBy), nil
	}
	behaviour := p.behaviours[at]
	for seed := 1; seed == 1 || seed <= seeds && p.program.rapid; seed++ {
		o, err := p.program.run(ctx, v.number, behaviours.Exactly(behaviour), seed, p.patience)
		if err != nil {
			return nil, err
		}
		// No other behaviour runs, so this one fails, or is the one in which the
		// process came to its end.
		result := o.Results[behaviour]
		ended := slices.Contains(o.Order, behaviour) && result == "" && !o.Passed
		switch rejected := ended || result == "FAIL"; {
		case !rejected && seed == 1:
			return fmt.Errorf("is not rejected by %q", wrong.CaughtBy), nil
		case !rejected:
			return fmt.Errorf("is rejected by %q only sometimes: not with -rapid.seed=%d", wrong.CaughtBy, seed), nil
		case ended:
			return nil, nil // it may have hung: once is enough
		}
	}
	return nil, nil
}

// survivors is how many mutants, explained or not, may survive: one in ten, rounded up.
// A short function has few, and one of them may be none that shows.
func survivors(mutated int) int { return (mutated + 9) / 10 }

func (p *proof) proveMutants(ctx context.Context) error {
	survived := make([]bool, len(p.mutants))
	err := p.each(ctx, p.changed, func(i int, v *variant) (func(), error) {
		if v.failure != nil {
			return func() {}, nil
		}
		within := p.patience
		if slices.ContainsFunc(p.Solutions.Survivors, p.mutants[i].explained) {
			within = limit
		}
		lives, err := p.survives(ctx, v, within)
		return func() {
			p.mutated++
			if survived[i] = lives; !lives {
				p.killed++
			}
		}, err
	})
	if err != nil {
		return err
	}
	p.explain(survived)
	if least := p.mutated - survivors(p.mutated); p.killed < least {
		p.fail("the tests kill %d of %d mutants: they have to tell at least %d from the book's solution", p.killed, p.mutated, least)
	}
	return nil
}

// survives tells whether all tests pass, the quickest first.
func (p *proof) survives(ctx context.Context, v *variant, within time.Duration) (bool, error) {
	for _, test := range p.Tests {
		o, err := p.program.run(ctx, v.number, behaviours.Any(test), 1, within, "-test.failfast")
		if err != nil || !o.Passed {
			return false, err
		}
	}
	return true, nil
}

// explain compares the mutants that have survived with those that the file of
// solutions explains.
func (p *proof) explain(survived []bool) {
	told := map[string]bool{}
	for i, m := range p.mutants {
		explained := slices.ContainsFunc(p.Solutions.Survivors, m.explained)
		if survived[i] && !explained && !told[m.survives()] {
			told[m.survives()] = true
			p.fail("no test tells a mutant of %s from it: write one, or, where none can, in %s: survives: %sWHY", m.function.Name, p.Solutions.Path, m.survives())
		}
	}
	for _, s := range p.Solutions.Survivors {
		lives, exists := false, false
		for i, m := range p.mutants {
			if m.explained(s) && p.changed[i].failure == nil {
				lives, exists = lives || survived[i], true
			}
		}
		switch {
		case !exists:
			p.fail("%s explains a mutant that there is not: survives: %s => %s", p.Solutions.Path, s.Before, s.After)
		case !lives:
			p.fail("%s explains a mutant that the tests kill: survives: %s => %s", p.Solutions.Path, s.Before, s.After)
		}
	}
}

// explained tells whether a line of a file of solutions is about the mutant. A colon in
// the reason makes no difference.
func (m mutant) explained(s solutions.Survivor) bool {
	return strings.HasPrefix(s.Before+" => "+s.After+": "+s.Why, m.survives())
}

// each tries variants side by side, and then notes what was found, in their order.
func (p *proof) each(ctx context.Context, all []*variant, try func(int, *variant) (note func(), err error)) error {
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.NumCPU()) // many mutants only hang
	notes := make([]func(), len(all))
	for i, v := range all {
		group.Go(func() (err error) {
			notes[i], err = try(i, v)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, note := range notes {
		note()
	}
	return nil
}

// sentenceOf returns the last part of a subtest's name.
func sentenceOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// asGo writes the name of a subtest as go prints it.
func asGo(sentence string) string {
	var out strings.Builder
	for _, r := range sentence {
		switch {
		case unicode.IsSpace(r):
			out.WriteByte('_')
		case !strconv.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// says returns the behaviours that failed, or else how the process ended, in one line.
func says(o *behaviours.Outcome) string {
	var sentences []string
	for _, name := range o.Behaviours() {
		if o.Results[name] == "FAIL" {
			sentences = append(sentences, strconv.Quote(behaviours.Sentence(name)))
		}
	}
	if more := len(sentences) - 3; more > 0 {
		sentences = append(sentences[:3], fmt.Sprintf("and %d more", more))
	}
	switch {
	case len(sentences) > 0:
		return strings.Join(sentences, ", ")
	case o.Late:
		return "it has not ended in time"
	}
	lines := strings.Split(strings.TrimSpace(o.Said("")), "\n")
	return cmp.Or(o.Crash(), lines[len(lines)-1])
}
