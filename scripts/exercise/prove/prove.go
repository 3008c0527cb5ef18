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
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Run proves of the exercises of some chapters, or of all where none is given, that
// the book's solution and another one pass all tests; that the body that the reader
// begins with fails each; and that each wrong solution, of five or more, fails the
// behaviour that it names. Where the reader writes a scenario, it proves nothing. With
// several seeds a wrong solution has to fail with each of those that rapid gets, from 1,
// as its reader has only one.
//
// All bodies of a package's exercises are compiled into one test binary. Run says what
// it is at, and ends with a table. Its error has a line for each failure.
func Run(ctx context.Context, root string, numbers []string, seeds int, out io.Writer) error {
	exercises, err := choose(root, numbers)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "exercises-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	programs := programsOf(root, temporary, exercises)
	var proofs []*proof
	var failures []error
	for _, p := range programs {
		if err := p.prepare(); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(programs, 2) {
		if err := build(ctx, some, out); err != nil {
			return err
		}
		for _, p := range some {
			if p.failure != nil {
				failures = append(failures, p.failure)
				continue
			}
			for _, proof := range p.proofs {
				if err := proof.prove(ctx, seeds); err != nil {
					return err
				}
				proofs = append(proofs, proof)
				fmt.Fprintf(out, "%d of %d: %s %02d %s, %.1f s\n", len(proofs), len(exercises), proof.mark(), proof.Chapter.Number, proof.Name, proof.took.Seconds())
			}
			if err := os.Remove(p.binary()); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(proofs, func(a, b *proof) int { return a.Chapter.Number - b.Chapter.Number })
	return errors.Join(append(failures, tell(proofs, out))...)
}

// build builds programs, side by side. Those that do not build say why.
func build(ctx context.Context, programs []*program, out io.Writer) error {
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range programs {
		fmt.Fprintf(out, "%s: building %d bodies of %d exercises\n", p.dir, len(p.variants), len(p.proofs))
		group.Go(func() error {
			p.failure = p.build(ctx)
			return ctx.Err()
		})
	}
	err := group.Wait()
	fmt.Fprintf(out, "built in %.1f s\n", time.Since(begin).Seconds())
	return err
}

// choose returns the exercises in which the reader writes code.
func choose(root string, numbers []string) ([]*weave.Exercise, error) {
	book, err := weave.Open(root)
	if err != nil {
		return nil, err
	}
	chosen := map[int]bool{}
	for _, number := range numbers {
		chapter, err := book.Chapter(number)
		if err != nil {
			return nil, err
		}
		chosen[chapter.Number] = true
	}
	all, err := book.Exercises(math.MaxInt)
	return slices.DeleteFunc(all, func(e *weave.Exercise) bool {
		return e == nil || e.Scenario() || len(chosen) > 0 && !chosen[e.Chapter.Number]
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
