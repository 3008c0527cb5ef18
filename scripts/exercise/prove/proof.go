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

	cut    *variant
	rights []*variant // those of the exercise's Solutions, in their order
	wrongs []*variant

	// behaviours are the full names of the subtests that have none themselves, as go
	// prints them.
	behaviours []string
	rejected   int
	// patience is how long a wrong body may run. Many hang.
	patience time.Duration
	took     time.Duration
	failures []error
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
func (p *proof) addVariants() {
	texts, cut := map[string]string{}, map[string]string{}
	for _, f := range p.Functions {
		texts[f.Name], cut[f.Name] = f.Text, f.Cut
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
}

func (p *proof) variants() []*variant {
	return slices.Concat([]*variant{p.cut}, p.rights, p.wrongs)
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

// prove proves what Run promises. Its error says why it could not.
func (p *proof) prove(ctx context.Context, seeds int) error {
	begin := time.Now()
	defer func() { p.took = time.Since(begin) }()
	for _, step := range []func(context.Context) error{p.proveBook, p.proveRights, p.proveCut} {
		if err := step(ctx); err != nil {
			return err
		}
		if len(p.behaviours) == 0 {
			return nil // without tests that pass, the rest means nothing
		}
	}
	return p.proveWrongs(ctx, seeds)
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

func (p *proof) proveWrongs(ctx context.Context, seeds int) error {
	if len(p.wrongs) < fewest {
		p.fail("%s has %d wrong solutions: %d likely misconceptions are the least", p.Solutions.Path, len(p.wrongs), fewest)
	}
	return p.each(ctx, p.wrongs, func(i int, v *variant) (func(), error) {
		failure, err := p.reject(ctx, p.Solutions.Wrong[i], v, seeds)
		return func() {
			if failure != nil {
				p.fail("%s.diff %s", p.Solutions.Wrong[i].Name, failure)
			} else {
				p.rejected++
			}
		}, err
	})
}

// reject returns why a wrong solution is not rejected by the behaviour that it names,
// or nil.
func (p *proof) reject(ctx context.Context, wrong *solutions.Wrong, v *variant, seeds int) (failure, err error) {
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

// each tries variants side by side, and then notes what was found, in their order.
func (p *proof) each(ctx context.Context, all []*variant, try func(int, *variant) (note func(), err error)) error {
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
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
	lines := strings.Split(strings.TrimSpace(o.Said()), "\n")
	return cmp.Or(o.Crash(), lines[len(lines)-1])
}
