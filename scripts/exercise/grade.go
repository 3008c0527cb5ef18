package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/labs/cluster"
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

func (p point) name() string { return p.Exercise + ": " + p.Sentence }

func (p point) score() int {
	if p.Holds {
		return 1
	}
	return 0
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
	// A place that stays, because go compiles anew what lies elsewhere; so only one can be at work there.
	g := &grader{temp: filepath.Join(root, "build", "grade"), book: book, pristine: map[int][]*pristine{}}
	if err := os.MkdirAll(g.temp, 0o755); err != nil {
		return err
	}
	unlock, err := cluster.Lock(filepath.Join(g.temp, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	all := []*graded{}
	var unknown []error
	for i, submission := range submissions {
		begin := time.Now()
		number, err := g.chapterOf(submission)
		if err != nil {
			unknown = append(unknown, fmt.Errorf("%s has not been graded: %w", filepath.Base(submission), err))
			continue
		}
		result, err := g.grade(ctx, submission, number)
		if err != nil {
			return fmt.Errorf("grade %s: %w", submission, err)
		}
		fmt.Fprintf(os.Stderr, "%d of %d: %s, %d of %d points, %.0f s\n", i+1, len(submissions), result.Name, result.Score, result.Of, time.Since(begin).Seconds())
		all = append(all, result)
	}
	if len(all) > 0 {
		unknown = append(unknown, format(os.Stdout, all))
	}
	return errors.Join(unknown...)
}

// submissionsIn returns the directory if it is a submission, or the directories in it.
func submissionsIn(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
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
	pristine map[int][]*pristine // by chapter
}

// pristine is what the book has of an exercise.
type pristine struct {
	*weave.Exercise
	// files are those of the book's module.
	files map[string][]byte
	// behaviours are those that the book's solution shows.
	behaviours []string
	// patience is how long one of them may take.
	patience time.Duration
}

func (g *grader) grade(ctx context.Context, dir string, number int) (*graded, error) {
	exercises, err := g.open(ctx, number)
	if err != nil {
		return nil, err
	}
	result := &graded{Name: filepath.Base(dir), Chapter: number, Points: []point{}}
	for _, p := range exercises {
		points, err := g.points(ctx, p, dir)
		if err != nil {
			return nil, err
		}
		for _, one := range points {
			result.Score += one.score()
		}
		result.Of += len(points)
		result.Points = append(result.Points, points...)
	}
	return result, nil
}

// chapterOf returns the chapter that NN names, or else that of the workspace.
func (g *grader) chapterOf(dir string) (int, error) {
	number := os.Getenv("NN")
	if number == "" {
		w, err := workspace.Open("", g.book.Chapters(), dir)
		if err != nil {
			return 0, fmt.Errorf("it does not say of which chapter it is, and NN=06 would say so for all: %w", err)
		}
		number = strconv.Itoa(w.Number)
	}
	chapter, err := g.book.Chapter(number)
	if err != nil {
		return 0, err
	}
	return chapter.Number, nil
}

// open returns the exercises of a chapter. It runs their tests on the book's own
// solutions, which says which behaviours there are, and how long a submission may take.
func (g *grader) open(ctx context.Context, number int) ([]*pristine, error) {
	if known := g.pristine[number]; known != nil {
		return known, nil
	}
	fmt.Fprintf(os.Stderr, "building the book's solutions of chapter %02d\n", number)
	all, err := g.book.Exercises(number)
	if err != nil {
		return nil, err
	}
	files, err := g.book.Module(number, func(*weave.Exercise) map[string]string { return nil })
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Chapter.Number != number || e.Scenario() {
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
				fails = fmt.Errorf("the book's own solution of %s: %q does not hold: %s", e.Name, b.Sentence(), b.Said)
			}
		})
		if err = errors.Join(err, fails); err != nil {
			return nil, err
		}
		p.patience = min(2*time.Second+10*time.Since(begin), limit)
		g.pristine[number] = append(g.pristine[number], p)
	}
	if g.pristine[number] == nil {
		return nil, errors.New("its chapter has no exercises that could be graded")
	}
	return g.pristine[number], nil
}

// points grades one exercise by itself, so that what is wrong with one costs nothing in
// another.
func (g *grader) points(ctx context.Context, p *pristine, dir string) ([]point, error) {
	files := maps.Clone(p.files)
	var found []behaviours.Behaviour
	failure := workspace.Graft(dir, p.Exercise, files)
	if failure == nil {
		found, failure = g.try(ctx, p, files)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var points []point
	for i, test := range p.behaviours {
		one := point{Exercise: p.Name, Sentence: behaviours.Sentence(test)}
		switch {
		case failure != nil:
			one.Said = indented(failure.Error(), "")
		case found[i].Holds:
			one.Holds = true
		default:
			one.Said = indented(strings.Join(behaviours.Tell(found[i].Said), "\n"), "")
		}
		points = append(points, one)
	}
	return points, nil
}

// try finds out which behaviours of an exercise hold: all, if they do so together, and
// else those that do by themselves. Its error is about what is in the files, unless the
// context has ended.
func (g *grader) try(ctx context.Context, p *pristine, files map[string][]byte) ([]behaviours.Behaviour, error) {
	program, err := g.build(ctx, p, files)
	if err != nil {
		return nil, err
	}
	o, err := program.Try(ctx, behaviours.Any(p.Tests...), "")
	if err != nil {
		return nil, err
	}
	var found []behaviours.Behaviour
	for _, test := range p.behaviours {
		if o.Passed && o.Results[test] == "PASS" {
			found = append(found, behaviours.Behaviour{Test: test, Holds: true})
		}
	}
	if len(found) == len(p.behaviours) {
		return found, nil
	}
	return program.Each(ctx, p.behaviours)
}

// memory is how many KiB of addresses a process may use. The book's solutions need less
// than 2 GiB, of which they use a tenth.
const memory = 3 << 20

// build compiles the tests of an exercise in a module, with nothing in it of what was
// there before.
func (g *grader) build(ctx context.Context, p *pristine, files map[string][]byte) (*behaviours.Program, error) {
	module := filepath.Join(g.temp, fmt.Sprintf("%02d", p.Chapter.Number))
	if err := os.RemoveAll(module); err != nil {
		return nil, err
	}
	if err := workspace.WriteFiles(module, files); err != nil {
		return nil, err
	}
	building, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	program, err := behaviours.Build(building, module, p.Dir, filepath.Join(g.temp, "tests"))
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
