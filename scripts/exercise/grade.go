package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// point is what one behaviour has brought.
type point struct {
	Exercise string `json:"exercise"`
	Sentence string `json:"behaviour"`
	Holds    bool   `json:"holds"`
	Said     string `json:"said,omitempty"`
}

// graded is what a submission has brought.
type graded struct {
	Name    string  `json:"name"`
	Chapter int     `json:"chapter"`
	Score   int     `json:"score"`
	Of      int     `json:"of"`
	Points  []point `json:"points"`
}

func (g *graded) Failures() int { return g.Of - g.Score }

// grade grades a workspace, or each folder in a directory. Its error is that grading
// did not work; a submission without any points is none.
func grade(ctx context.Context, root, dir string) error {
	name := os.Getenv("FORMAT")
	format, err := formatOf(name)
	if err != nil {
		return err
	}
	submissions, err := submissionsIn(dir)
	if err != nil {
		return err
	}
	if len(submissions) > 1 && (name == "gradescope" || name == "classroom50") {
		return fmt.Errorf("FORMAT=%s is about one submission: DIR has to be a workspace", name)
	}
	book, err := weave.Open(root)
	if err != nil {
		return err
	}
	g := &grader{book: book, pristine: map[*chapters.Chapter][]*pristine{}}
	if g.temp, err = os.MkdirTemp("", "grade-"); err != nil {
		return err
	}
	defer os.RemoveAll(g.temp)
	var all []*graded
	var unknown []error
	for i, submission := range submissions {
		begin := time.Now()
		chapter, err := g.chapterOf(submission)
		if err != nil {
			unknown = append(unknown, fmt.Errorf("%s has not been graded: %w", filepath.Base(submission), err))
			continue
		}
		result, err := g.grade(ctx, submission, chapter)
		if err != nil {
			return fmt.Errorf("grade %s: %w", submission, err)
		}
		fmt.Fprintf(os.Stderr, "%d of %d: %s, %d of %d points, %.0f s\n",
			i+1, len(submissions), result.Name, result.Score, result.Of, time.Since(begin).Seconds())
		all = append(all, result)
	}
	if len(all) > 0 {
		unknown = append(unknown, format(os.Stdout, all))
	}
	return errors.Join(unknown...)
}

// submissionsIn returns the directory if it is a submission, or the directories in it.
func submissionsIn(dir string) ([]string, error) {
	dir, _ = filepath.Abs(dir) // the root was found from where we are
	for _, sign := range []string{".book", "kcm", "labs"} {
		if _, err := os.Lstat(filepath.Join(dir, sign)); err == nil {
			return []string{dir}, nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("DIR is to be a workspace, or a directory of workspaces: %w", err)
	}
	var dirs []string
	for _, entry := range entries {
		switch path := filepath.Join(dir, entry.Name()); {
		case strings.HasPrefix(entry.Name(), "."):
		case entry.IsDir():
			dirs = append(dirs, path)
		default:
			fmt.Fprintf(os.Stderr, "%s is no folder, and left out\n", path)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("there is no workspace in %s", dir)
	}
	return dirs, nil
}

// grader grades the submissions of one run.
type grader struct {
	// temp is where modules are written and programs compiled.
	temp     string
	book     *weave.Book
	pristine map[*chapters.Chapter][]*pristine
}

// pristine is what the book has of an exercise.
type pristine struct {
	*weave.Exercise
	files map[string][]byte
	// behaviours are those that the book's solution shows.
	behaviours []string
	// patience is how long one of them may take.
	patience time.Duration
}

// chapterOf returns the chapter that NN names, or else that of the workspace.
func (g *grader) chapterOf(dir string) (*chapters.Chapter, error) {
	if number := os.Getenv("NN"); number != "" {
		return g.book.Chapter(number)
	}
	w, err := workspace.Open("", g.book.Chapters, dir)
	if err != nil {
		return nil, fmt.Errorf("it does not say of which chapter it is, and NN=06 would say so for all: %w", err)
	}
	return w.Chapter, nil
}

// grade grades each exercise by itself, so that what is wrong with one costs nothing in another.
func (g *grader) grade(ctx context.Context, dir string, chapter *chapters.Chapter) (*graded, error) {
	exercises, err := g.open(ctx, chapter)
	if err != nil {
		return nil, err
	}
	result := &graded{Name: filepath.Base(dir), Chapter: chapter.Number, Points: []point{}}
	for _, p := range exercises {
		found, failure := g.try(ctx, p, dir)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for i, test := range p.behaviours {
			one := point{Exercise: p.Name, Sentence: behaviours.Sentence(test)}
			switch {
			case failure != nil:
				one.Said = indented(failure.Error(), "")
			case found[i].Holds:
				one.Holds = true
				result.Score++
			default:
				one.Said = indented(strings.Join(behaviours.Tell(found[i].Said), "\n"), "")
			}
			result.Points = append(result.Points, one)
		}
	}
	result.Of = len(result.Points)
	return result, nil
}

// open returns the exercises of a chapter. It runs their tests on the book's own
// solutions, which says which behaviours there are, and how long a submission may take.
func (g *grader) open(ctx context.Context, chapter *chapters.Chapter) ([]*pristine, error) {
	if known := g.pristine[chapter]; known != nil {
		return known, nil
	}
	fmt.Fprintf(os.Stderr, "building the book's solutions of chapter %02d\n", chapter.Number)
	all, err := g.book.Exercises(chapter.Number)
	if err != nil {
		return nil, err
	}
	files, err := g.book.Module(chapter.Number, func(*weave.Exercise) map[string]string { return nil })
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Chapter != chapter || e.Scenario() {
			continue
		}
		p := &pristine{Exercise: e, files: files, patience: limit}
		program, err := g.build(ctx, p, files)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		var fails error
		err = program.Run(ctx, p.Tests, func(b behaviours.Behaviour) {
			if p.behaviours = append(p.behaviours, b.Test); !b.Holds {
				fails = fmt.Errorf("the book's own solution of %s: %q does not hold: %s", e.Name,
					behaviours.Sentence(b.Test), b.Said)
			}
		})
		if err = errors.Join(err, fails); err != nil {
			return nil, err
		}
		p.patience = min(2*time.Second+10*time.Since(begin), limit)
		g.pristine[chapter] = append(g.pristine[chapter], p)
	}
	return g.pristine[chapter], nil
}

// try finds out which behaviours of an exercise hold by themselves. Its error is about
// what is in the submission, unless the context has ended.
func (g *grader) try(ctx context.Context, p *pristine, dir string) ([]behaviours.Behaviour, error) {
	files := maps.Clone(p.files)
	if err := workspace.Graft(dir, p.Exercise, files, true); err != nil {
		return nil, err
	}
	program, err := g.build(ctx, p, files)
	if err != nil {
		return nil, err
	}
	return program.Each(ctx, p.behaviours)
}

// memory is how many KiB of addresses a process may use. The book's solutions need less
// than 2 GiB, of which they use a tenth.
const memory = 3 << 20

// build compiles the tests of an exercise in a module, with nothing in it of what was there before.
func (g *grader) build(ctx context.Context, p *pristine, files map[string][]byte) (*behaviours.Program, error) {
	module := filepath.Join(g.temp, "module")
	if err := weave.WriteFiles(module, files); err != nil {
		return nil, err
	}
	building, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	program, err := behaviours.Build(building, module, p.Dir, nil, filepath.Join(g.temp, "tests"))
	if err != nil {
		return nil, fmt.Errorf("does not compile:\n%w", err)
	}
	program.Limit = p.patience
	program.Env = []string{"HOME=" + g.temp, "TMPDIR=" + g.temp}
	if runtime.GOOS == "linux" {
		program.Command = []string{"bash", "-c", fmt.Sprintf(`ulimit -v %d -c 0 -u 4096; exec "$@"`, memory), "limited"}
	}
	return program, nil
}
