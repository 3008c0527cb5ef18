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
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Run proves of the exercises of some chapters, or of all where none is given, that the book's solution and another
// one pass all tests; that the body that the reader begins with fails each; and that each wrong solution, of five or
// more, fails the behaviour that it names. Where the reader writes a scenario, it proves nothing. What models draw is
// up to RAPID_SEED.
//
// All bodies of a package's exercises are compiled into one test binary. Run prints a
// row for each exercise. Its error has a line for each failure.
func Run(ctx context.Context, root string, numbers []string, out io.Writer) error {
	book, err := weave.Open(root)
	if err != nil {
		return err
	}
	chosen, err := chapters.Choose(book.Chapters, numbers...)
	if err != nil {
		return err
	}
	exercises, err := book.Exercises(math.MaxInt)
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
		if e.Scenario() || !slices.Contains(chosen, e.Chapter) {
			continue
		}
		at := slices.IndexFunc(programs, func(p *program) bool { return p.dir == e.Dir })
		if at < 0 {
			at = len(programs)
			programs = append(programs, &program{root: root, dir: e.Dir, temporary: filepath.Join(temporary, fmt.Sprint(at))})
		}
		programs[at].add(e)
	}
	var group errgroup.Group
	group.SetLimit(2) // while the exercises of one are proved, the next is built
	var proving sync.Mutex
	for _, p := range programs {
		group.Go(func() error {
			if p.failure = p.build(ctx); p.failure != nil {
				return ctx.Err()
			}
			proving.Lock()
			defer proving.Unlock()
			for _, proof := range p.proofs {
				if err := proof.prove(ctx); err != nil {
					return err
				}
				fmt.Fprintln(out, proof)
			}
			return os.RemoveAll(p.temporary)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var failures []error
	for _, p := range programs {
		failures = append(failures, p.failure)
		for _, proof := range p.proofs {
			failures = append(failures, proof.failures...)
		}
	}
	return errors.Join(failures...)
}
