package weave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Open reads the code and the chapters in a directory.
func Open(root string) (*Book, error) {
	all, err := chapters.Read(root)
	if err != nil {
		return nil, err
	}
	source, err := loadSource(root)
	if err != nil {
		return nil, err
	}
	return newBook(source, all)
}

// Fill brings the blocks of all chapters up to date with the code, and says which
// chapters it has changed.
func (w *Book) Fill(out io.Writer) error {
	filled, err := w.filled()
	if err != nil {
		return err
	}
	for _, chapter := range w.chapters {
		if string(filled[chapter]) == string(chapter.Source) {
			continue
		}
		if err := os.WriteFile(filepath.Join(w.source.root, chapter.Path), filled[chapter], 0o644); err != nil {
			return err
		}
		fmt.Fprintln(out, "filled", chapter.Path)
	}
	return w.fillNames(out)
}

// Check says how many declarations the chapters show. Its error has a line for
// each mistake in the book.
func (w *Book) Check(out io.Writer) error {
	mistakes := w.mistakes()
	missing, total := w.unshown()
	fmt.Fprintf(out, "declarations shown: %d of %d\n", total-len(missing), total)
	return errors.Join(mistakes...)
}

// BuildStage writes the code of the chapter with this number and builds its kcm.
func (w *Book) BuildStage(ctx context.Context, number string, out io.Writer) error {
	chosen, err := chapters.Choose(w.chapters, number)
	if err != nil {
		return err
	}
	s, err := w.compiling(chosen[0].Number)
	if err != nil {
		return err
	}
	if len(s.packages) == 0 {
		return fmt.Errorf("chapter %02d has no code yet: its kcm is the finished one", s.number)
	}
	files, err := s.write()
	if err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "stage %02d: %d files in %s, kcm in %s/bin\n", s.number, files, s.directory(), s.directory())
	return nil
}

// TestStages writes, compiles, vets and tests the code of every chapter, two side by
// side. It links no kcm: BuildStage does, when somebody wants to run one.
func (w *Book) TestStages(ctx context.Context, out io.Writer) error {
	stages := map[*chapters.Chapter]*Stage{}
	var withCode []*chapters.Chapter
	for _, chapter := range w.chapters {
		s, err := w.compiling(chapter.Number)
		if err != nil {
			return err
		}
		if len(s.packages) == 0 {
			continue // no code yet
		}
		if _, err := s.write(); err != nil {
			return err
		}
		stages[chapter] = s
		withCode = append(withCode, chapter)
	}
	return chapters.Each(ctx, withCode, 2, out, func(chapter *chapters.Chapter) (string, error) {
		s := stages[chapter]
		return fmt.Sprintf("%d packages, unit tests of %d", len(s.packages), s.tested()), s.test(ctx)
	})
}
