package chapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Each does something for every chapter, for as many side by side as are allowed at once, and prints what do says
// about a chapter when it is done. Its error has those of the chapters in the order of the book. When the context
// ends, nothing more is begun.
func Each(ctx context.Context, all []*Chapter, atOnce int, out io.Writer, do func(*Chapter) (string, error)) error {
	var group errgroup.Group
	group.SetLimit(max(atOnce, 1))
	failures := make([]error, len(all))
	var printing sync.Mutex
	done := 0
	for i, chapter := range all {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			begin, mark := time.Now(), "✓"
			said, err := do(chapter)
			if failures[i] = err; err != nil {
				mark = "✗"
			}
			printing.Lock()
			defer printing.Unlock()
			done++
			_, err = fmt.Fprintf(out, "chapter %02d: %s %s %.1f s (%d of %d)\n",
				chapter.Number, said, mark, time.Since(begin).Seconds(), done, len(all))
			return err
		})
	}
	return errors.Join(append(failures, group.Wait(), ctx.Err())...)
}
