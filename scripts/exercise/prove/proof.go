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
	book, cut      *variant
	rights, wrongs []*variant

	// behaviours are the full names of the subtests that have none themselves, as go prints them.
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

// String is the row of the table.
func (p *proof) String() string {
	mark := "✓"
	if len(p.failures) > 0 {
		mark = "✗"
	}
	return fmt.Sprintf("%s %02d %-20s %3d minutes %4d behaviours %4d of %d wrong ones rejected %6.1f s",
		mark, p.Chapter.Number, p.Name, p.Minutes, len(p.behaviours), p.rejected, len(p.wrongs), p.took.Seconds())
}

// prove proves what Run promises. Its error says why it could not.
func (p *proof) prove(ctx context.Context) error {
	begin := time.Now()
	defer func() { p.took = time.Since(begin) }()
	o, err := p.book.run(ctx, behaviours.Exactly(p.Tests...), limit)
	if err != nil {
		return err
	}
	p.patience = min(2*time.Second+10*time.Since(begin), limit)
	if !o.Passed { // then the rest means nothing
		p.fail("the book's solution fails: %s", says(o))
		return nil
	}
	p.find(o)
	if err := p.proveRights(ctx); err != nil {
		return err
	}
	for _, test := range p.Tests {
		o, err := p.cut.run(ctx, behaviours.Exactly(test), limit)
		if err != nil {
			return err
		}
		if o.Passed {
			p.fail("%s passes before anything is written", test)
		}
	}
	return p.proveWrongs(ctx)
}

// find finds the behaviours that the book's solution has.
func (p *proof) find(o *behaviours.Outcome) {
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
}

func (p *proof) proveRights(ctx context.Context) error {
	if len(p.rights) == 0 {
		p.fail("%s has no right solution: write one, another-way.go, differently from the book's", p.Solutions.Path)
	}
	for _, v := range p.rights {
		if v.failure != nil {
			p.fail("%s %s", v.name, v.failure)
			continue
		}
		o, err := v.run(ctx, behaviours.Exactly(p.Tests...), limit)
		if err != nil {
			return err
		}
		if !o.Passed {
			p.fail("%s fails: %s", v.name, says(o))
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
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, v := range p.wrongs {
		group.Go(func() error { return p.reject(ctx, v) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, v := range p.wrongs {
		if v.failure != nil {
			p.fail("%s %s", v.name, v.failure)
		} else {
			p.rejected++
		}
	}
	return nil
}

// reject finds out whether a wrong solution is rejected by the behaviour that it names.
func (p *proof) reject(ctx context.Context, v *variant) error {
	if v.failure != nil {
		return nil
	}
	sentence := strings.ReplaceAll(v.caughtBy, "_", " ") // as Go writes names
	at := slices.IndexFunc(p.behaviours, func(name string) bool {
		return name == v.caughtBy || behaviours.Sentence(name) == sentence
	})
	if at < 0 {
		v.failure = fmt.Errorf("is said to be caught by %q, which no test is called", v.caughtBy)
		return nil
	}
	behaviour := p.behaviours[at]
	o, err := v.run(ctx, behaviours.Exactly(behaviour), p.patience)
	if err == nil && o.Late && !slices.Contains(o.Order, behaviour) { // so busy is the machine that it has not even begun
		o, err = v.run(ctx, behaviours.Exactly(behaviour), limit)
	}
	if err != nil {
		return err
	}
	// No other behaviour runs, so this one fails, or is the one in which the process came to its end.
	result := o.Results[behaviour]
	if result != "FAIL" && (result != "" || o.Passed || !slices.Contains(o.Order, behaviour)) {
		v.failure = fmt.Errorf("is not rejected by %q", v.caughtBy)
	}
	return nil
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
