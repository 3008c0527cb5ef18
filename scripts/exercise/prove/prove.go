// Package prove proves that the exercises of the book are sound: that the tests of
// each accept what is right, and tell what is wrong from it.
package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Run proves of the exercises of some chapters, or of all where none is given, that
// the book's solution and another one pass all tests; that the body that the reader
// begins with fails each; and that each wrong solution, of five or more, fails the
// behaviour that it names. Where the reader writes a scenario, it proves nothing. What models draw
// is up to RAPID_SEED.
//
// All bodies of a package's exercises are compiled into one test binary. Run says what
// it is at, and ends with a table. Its error has a line for each failure.
func Run(ctx context.Context, root string, numbers []string, out io.Writer) error {
	exercises, err := choose(root, numbers)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "exercises-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	var programs []*program
	for _, e := range exercises {
		at := slices.IndexFunc(programs, func(p *program) bool { return p.dir == e.Dir })
		if at < 0 {
			at = len(programs)
			programs = append(programs, &program{root: root, dir: e.Dir, temporary: filepath.Join(temporary, fmt.Sprint(at))})
		}
		programs[at].add(e)
	}
	var proofs []*proof
	var failures []error
	for some := range slices.Chunk(programs, 2) {
		var group errgroup.Group
		for _, p := range some {
			fmt.Fprintf(out, "%s: building %d bodies of %d exercises\n", p.dir, len(p.variants), len(p.proofs))
			group.Go(func() error {
				p.failure = p.build(ctx)
				return ctx.Err()
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, p := range some {
			if p.failure != nil {
				failures = append(failures, p.failure)
				continue
			}
			for _, proof := range p.proofs {
				if err := proof.prove(ctx); err != nil {
					return err
				}
				proofs = append(proofs, proof)
				fmt.Fprintf(out, "%d of %d: %s %02d %s, %.1f s\n", len(proofs), len(exercises), proof.mark(), proof.Chapter.Number, proof.Name, proof.took.Seconds())
			}
			if err := os.RemoveAll(p.temporary); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(proofs, func(a, b *proof) int { return a.Chapter.Number - b.Chapter.Number })
	return errors.Join(append(failures, tell(proofs, out))...)
}

// choose returns the exercises in which the reader writes code.
func choose(root string, numbers []string) ([]*weave.Exercise, error) {
	book, err := weave.Open(root)
	if err != nil {
		return nil, err
	}
	chosen, err := chapters.Choose(book.Chapters(), numbers...)
	if err != nil {
		return nil, err
	}
	all, err := book.Exercises(math.MaxInt)
	return slices.DeleteFunc(all, func(e *weave.Exercise) bool {
		return e == nil || e.Scenario() || !slices.Contains(chosen, e.Chapter)
	}), err
}

// tell prints the table.
func tell(proofs []*proof, out io.Writer) error {
	var failures []error
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nchapter\texercise\tminutes\tbehaviours\twrong rejected\ttime\t")
	for _, p := range proofs {
		fmt.Fprintf(table, "%02d\t%s\t%d\t%d\t%d of %d\t%.1f s\t%s\n", p.Chapter.Number, p.Name, p.Minutes, len(p.behaviours),
			p.rejected, len(p.Solutions.Wrong), p.took.Seconds(), p.mark())
		failures = append(failures, p.failures...)
	}
	return errors.Join(append(failures, table.Flush())...)
}
