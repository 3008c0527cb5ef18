package prove

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
)

// proof is what has been proved of an exercise.
type proof struct {
	*weave.Exercise
	program *program

	cut            *variant
	rights, wrongs []*variant // those of the exercise's Solutions, in their order

	// behaviours are the full names of the subtests that have none themselves, as go
	// prints them.
	behaviours []string
	rejected   int
	// patience is how long a wrong body may run. Many hang.
	patience time.Duration
	took     time.Duration
	failures []error
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
func (p *proof) prove(ctx context.Context) error {
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
	return p.proveWrongs(ctx)
}

// proveBook finds the behaviours and proves that the book's body has them.
func (p *proof) proveBook(ctx context.Context) error {
	begin := time.Now()
	o, err := run(ctx, p.program.tests, 0, behaviours.Any(p.Tests...), limit)
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
	p.behaviours = o.Behaviours()
	for i, name := range p.behaviours {
		sentence := behaviours.Sentence(name)
		if slices.IndexFunc(p.behaviours, func(other string) bool { return behaviours.Sentence(other) == sentence }) < i {
			p.fail("two behaviours are called %q", sentence)
		}
		if o.Results[name] == "SKIP" {
			p.fail("%q is skipped", sentence)
		}
	}
	return nil
}

func (p *proof) proveRights(ctx context.Context) error {
	if len(p.Solutions.Right) == 0 {
		p.fail("%s has no right solution: write one, another-way.go, differently from the book's", p.Solutions.Path)
	}
	for i, right := range p.Solutions.Right {
		tests, number, failure := p.program.tests, 0, error(nil)
		if p.Whole() {
			if tests, failure = p.program.another(ctx, p.Exercise, right.Name+".go", right.Text); failure != nil {
				failure = fmt.Errorf("does not compile: %w", failure)
			}
		} else {
			number, failure = p.rights[i].number, p.rights[i].failure
		}
		if failure != nil {
			p.fail("%s.go %s", right.Name, failure)
			continue
		}
		o, err := run(ctx, tests, number, behaviours.Any(p.Tests...), limit)
		if err != nil {
			return err
		}
		if !o.Passed {
			p.fail("%s.go fails: %s", right.Name, says(o))
		}
	}
	return ctx.Err()
}

// proveCut proves that each test fails as long as nothing is written.
func (p *proof) proveCut(ctx context.Context) error {
	for _, test := range p.Tests {
		o, err := run(ctx, p.program.tests, p.cut.number, behaviours.Any(test), limit)
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

// proveWrongs tries the wrong solutions side by side.
func (p *proof) proveWrongs(ctx context.Context) error {
	if len(p.wrongs) < fewest {
		p.fail("%s has %d wrong solutions: %d likely misconceptions are the least", p.Solutions.Path, len(p.wrongs), fewest)
	}
	failures := make([]error, len(p.wrongs))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, v := range p.wrongs {
		group.Go(func() (err error) {
			failures[i], err = p.reject(ctx, p.Solutions.Wrong[i].CaughtBy, v)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, failure := range failures {
		if failure != nil {
			p.fail("%s.diff %s", p.Solutions.Wrong[i].Name, failure)
		} else {
			p.rejected++
		}
	}
	return nil
}

// reject returns why a wrong solution is not rejected by the behaviour that it names,
// or nil.
func (p *proof) reject(ctx context.Context, caughtBy string, v *variant) (failure, err error) {
	if v.failure != nil {
		return v.failure, nil
	}
	sentence := strings.ReplaceAll(caughtBy, "_", " ") // as Go writes names
	at := slices.IndexFunc(p.behaviours, func(name string) bool {
		return name == caughtBy || behaviours.Sentence(name) == sentence
	})
	if at < 0 {
		return fmt.Errorf("is said to be caught by %q, which no test is called", caughtBy), nil
	}
	behaviour := p.behaviours[at]
	o, err := run(ctx, p.program.tests, v.number, behaviours.Exactly(behaviour), p.patience)
	if err != nil {
		return nil, err
	}
	// No other behaviour runs, so this one fails, or is the one in which the process came
	// to its end.
	result := o.Results[behaviour]
	if result != "FAIL" && (result != "" || o.Passed || !slices.Contains(o.Order, behaviour)) {
		return fmt.Errorf("is not rejected by %q", caughtBy), nil
	}
	return nil, nil
}

// says returns the behaviours that failed, or else how the process ended, in one line.
func says(o *behaviours.Outcome) string {
	var sentences []string
	for _, name := range o.Behaviours() {
		if o.Results[name] == "FAIL" {
			sentences = append(sentences, strconv.Quote(behaviours.Sentence(name)))
		}
	}
	if o.Late {
		sentences = append(sentences, "it has not ended in time")
	}
	lines := strings.Split(strings.TrimSpace(o.Said()), "\n")
	return cmp.Or(strings.Join(sentences, ", "), o.Crash(), lines[len(lines)-1])
}
