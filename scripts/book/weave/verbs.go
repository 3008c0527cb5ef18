package weave

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// Fill brings the blocks of all chapters up to date with the code, and says which chapters it has changed.
func (w *Book) Fill(out io.Writer) error {
	filled, err := w.filled()
	if err != nil {
		return err
	}
	for _, chapter := range w.Chapters {
		changed, err := chapter.Write(w.source.root, filled[chapter])
		for _, path := range changed {
			fmt.Fprintln(out, "filled", path)
		}
		if err != nil {
			return err
		}
	}
	if is, ought, _ := w.readNames(); is != ought {
		fmt.Fprintln(out, "filled", nameFile)
		return os.WriteFile(filepath.Join(w.source.root, nameFile), []byte(ought), 0o644)
	}
	return nil
}

// Check says how long the pages of the lessons are, and how many declarations the chapters show. Its error has a line
// for each mistake in the book.
func (w *Book) Check(out io.Writer) error {
	mistakes := w.mistakes()
	chapters.Table(w.Chapters, out)
	missing, total := w.unshown()
	fmt.Fprintf(out, "declarations shown: %d of %d\n", total-len(missing), total)
	return errors.Join(mistakes...)
}

// BuildStage writes the code of the chapter with this number, all or up to a step, and builds its kcm.
func (w *Book) BuildStage(ctx context.Context, number, step string, out io.Writer) error {
	chapter, err := w.Chapter(number)
	if err != nil {
		return err
	}
	at := endOf(chapter.Number)
	if step != "" {
		i := slices.Index(chapter.Steps, step)
		if i < 0 {
			known := cmp.Or(strings.Join(chapter.Steps, ", "), "none")
			return fmt.Errorf("chapter %02d has no step %s: there is %s", chapter.Number, step, known)
		}
		at = momentOf(chapter.Number, i)
	}
	s, err := w.compiling(at)
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
	if err := s.run(ctx, "build", "-ldflags", os.Getenv("KCM_LDFLAGS"), "-o", "bin/", "./kcm/cmd/kcm"); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d files in %s, kcm in %s/bin\n", s.name(), len(files), s.directory(), s.directory())
	return nil
}

// TestStages writes and compiles the code of every chapter, two side by side, and vets and tests the packages that are
// not as in the stage before, or all packages. It links no kcm: BuildStage does, when somebody wants to run one.
func (w *Book) TestStages(ctx context.Context, all bool, out io.Writer) error {
	stages := map[*chapters.Chapter][]*Stage{}
	before := map[string][]byte{} // the files of the stage before
	var withCode []*chapters.Chapter
	for _, chapter := range w.Chapters {
		for _, at := range momentsOf(chapter) {
			s, err := w.compiling(at)
			if err != nil {
				return err
			}
			if len(s.packages) == 0 {
				continue // no code yet
			}
			files, err := s.write()
			if err != nil {
				return err
			}
			if s.toTest = s.changedSince(before, files); all {
				s.toTest = slices.Sorted(maps.Keys(s.packages))
			}
			before = files
			stages[chapter] = append(stages[chapter], s)
		}
		if stages[chapter] != nil {
			withCode = append(withCode, chapter)
		}
	}
	return chapters.Each(ctx, withCode, 2, out, func(chapter *chapters.Chapter) (string, error) {
		said := ""
		for _, s := range stages[chapter] {
			if step := w.step(s.at); step != "" {
				said += step + ", "
			} else {
				said += fmt.Sprintf("%d packages, %d vetted and tested", len(s.packages), len(s.toTest))
			}
			if err := s.test(ctx); err != nil {
				return said, err
			}
		}
		return said, nil
	})
}
