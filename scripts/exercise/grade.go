package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// Point is what one behaviour has brought.
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

// grade grades a workspace, or each folder in a directory. Its error is that grading
// did not work; a submission without any points is none.
func grade(ctx context.Context, root, dir string) error {
	format, err := formatOf(os.Getenv("FORMAT"))
	if err != nil {
		return err
	}
	submissions, err := submissionsIn(dir)
	if err != nil {
		return err
	}
	book, err := weave.Open(root)
	if err != nil {
		return err
	}
	// A place that stays, because go compiles anew what lies elsewhere; so only one can be at work there.
	g := &grader{root: root, temp: filepath.Join(root, "build", "grade"), book: book, pristine: map[int]*pristine{}}
	if err := os.MkdirAll(g.temp, 0o755); err != nil {
		return err
	}
	unlock, err := cluster.Lock(filepath.Join(g.temp, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	var all []*graded
	for i, submission := range submissions {
		result, err := g.grade(ctx, submission)
		if err != nil {
			return fmt.Errorf("grade %s: %w", submission, err)
		}
		fmt.Fprintf(os.Stderr, "%d of %d: %s, %d of %d points\n", i+1, len(submissions), result.Name, result.Score, result.Of)
		all = append(all, result)
	}
	return format(os.Stdout, all)
}

// submissionsIn returns the directory if it is a workspace, or the workspaces in it.
func submissionsIn(dir string) ([]string, error) {
	if _, err := workspace.Open(dir); err == nil {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("DIR is to be a workspace, or a directory of workspaces: %w", err)
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("there is no workspace in %s", dir)
	}
	return dirs, nil
}

// grader grades the submissions of one run.
type grader struct {
	root string
	// temp is where modules are written and programs compiled.
	temp     string
	book     *weave.Book
	pristine map[int]*pristine // by chapter
}

// pristine is what the book has of a chapter.
type pristine struct {
	// dir is the module that submissions are put into, one after the other.
	dir       string
	files     map[string][]byte // with bodies that nobody has written
	exercises []*weave.Exercise
	// behaviours are those of each exercise, as the book's solution shows them.
	behaviours map[string][]string
}

func (g *grader) grade(ctx context.Context, dir string) (*graded, error) {
	number, err := chapterOf(dir)
	if err != nil {
		return nil, err
	}
	p, err := g.open(ctx, number)
	if err != nil {
		return nil, err
	}
	result := &graded{Name: filepath.Base(dir), Chapter: number}
	for _, e := range p.exercises {
		if err := g.exercise(ctx, p, e, dir, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// chapterOf returns the chapter that NN names, or else that of the workspace.
func chapterOf(dir string) (int, error) {
	if nn := os.Getenv("NN"); nn != "" {
		return strconv.Atoi(nn)
	}
	w, err := workspace.Open(dir)
	if err != nil {
		return 0, fmt.Errorf("it does not say of which chapter it is; NN=06 says so for all: %w", err)
	}
	return w.Chapter, nil
}

// open writes the book's module of a chapter and runs its tests on the book's own
// solutions, which says which behaviours there are.
func (g *grader) open(ctx context.Context, number int) (*pristine, error) {
	if p := g.pristine[number]; p != nil {
		return p, nil
	}
	p := &pristine{dir: filepath.Join(g.temp, fmt.Sprintf("%02d", number)), behaviours: map[string][]string{}}
	all, err := g.book.Exercises(number)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Chapter.Number == number && !e.Scenario() {
			p.exercises = append(p.exercises, e)
		}
	}
	if len(p.exercises) == 0 {
		return nil, fmt.Errorf("chapter %02d has no exercises that could be graded", number)
	}
	solved, err := g.book.Module(number, func(*weave.Exercise) map[string]string { return nil })
	if err != nil {
		return nil, err
	}
	for _, e := range p.exercises {
		program, err := g.build(ctx, p, e, solved)
		if err != nil {
			return nil, err
		}
		err = program.Run(ctx, e.Tests, func(b behaviours.Behaviour) {
			p.behaviours[e.Name] = append(p.behaviours[e.Name], b.Test)
		})
		if err != nil {
			return nil, err
		}
	}
	p.files, err = g.book.Module(number, func(e *weave.Exercise) map[string]string {
		if e.Chapter.Number != number {
			return nil
		}
		return e.Cut()
	})
	g.pristine[number] = p
	return p, err
}

// exercise grades one exercise by itself, so that what is wrong with one costs
// nothing in another.
func (g *grader) exercise(ctx context.Context, p *pristine, e *weave.Exercise, dir string, result *graded) error {
	files := maps.Clone(p.files)
	holds, said := map[string]bool{}, map[string]string{}
	why := ""
	if err := (&workspace.Submission{Dir: dir}).Graft(e, files); err != nil {
		why = err.Error()
	} else {
		program, err := g.build(ctx, p, e, files)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			why = err.Error()
		}
		for _, test := range p.behaviours[e.Name] {
			if err != nil {
				break
			}
			b, err := program.One(ctx, test)
			if err != nil {
				return err
			}
			holds[test], said[test] = b.Holds, brief(b)
		}
	}
	for _, test := range p.behaviours[e.Name] {
		result.Of++
		one := point{Exercise: e.Name, Sentence: behaviours.Sentence(test), Holds: holds[test], Said: said[test]}
		switch {
		case one.Holds:
			result.Score++
			one.Said = ""
		case one.Said == "":
			one.Said = why
		}
		result.Points = append(result.Points, one)
	}
	return nil
}

// brief is what a student is told of a behaviour that does not hold.
func brief(b behaviours.Behaviour) string {
	told := behaviours.Tell(b.Said)
	var parts []string
	for _, part := range []struct{ title, text string }{{"", told.Situation}, {"expected: ", told.Expected}, {"seen: ", told.Seen}, {"", told.Text}} {
		if part.text != "" {
			parts = append(parts, part.title+part.text)
		}
	}
	return strings.ToValidUTF8(indented(strings.Join(parts, "\n"), ""), "?")
}

// memory is how many KiB of addresses a submission may use; 4 GiB is ten times what
// the book's solutions need.
const memory = 4 << 20

// build compiles the tests of an exercise in a module. Its error is about what is in
// the module, unless the context has ended.
func (g *grader) build(ctx context.Context, p *pristine, e *weave.Exercise, files map[string][]byte) (*behaviours.Program, error) {
	if err := replace(p.dir, files); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(p.dir, e.Dir, "graded_test.go"), []byte(fmt.Sprintf(witness, packageOf(files, e))), 0o644); err != nil {
		return nil, err
	}
	binary := filepath.Join(g.temp, "tests")
	building, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := behaviours.Build(building, p.dir, e.Dir, binary); err != nil {
		return nil, fmt.Errorf("does not compile:\n%w", err)
	}
	program := &behaviours.Program{
		Path: binary, Dir: filepath.Join(p.dir, e.Dir), Limit: limit, Witness: rand.Text(),
		Env: []string{"HOME=" + g.temp, "TMPDIR=" + g.temp},
	}
	if runtime.GOOS == "linux" {
		program.Command = []string{"bash", "-c", fmt.Sprintf(`ulimit -v %d -c 0 -u 4096; exec "$@"`, memory), "limited"}
	}
	return program, nil
}

// witness is what only tests that have run to their end can do: say so to whoever
// started them, with a word that no code of a submission can read.
const witness = `package %s

import (
	"io"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	witness := os.NewFile(3, "witness")
	secret, _ := io.ReadAll(os.NewFile(4, "secret"))
	code := m.Run()
	witness.Write(secret)
	os.Exit(code)
}
`

func packageOf(files map[string][]byte, e *weave.Exercise) string {
	for line := range strings.Lines(string(files[e.Dir+"/"+e.Functions[0].File])) {
		if name, ok := strings.CutPrefix(line, "package "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// replace makes a directory hold these files and no others.
func replace(dir string, files map[string][]byte) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || files[name] != nil {
			return err
		}
		return os.Remove(path)
	})
	if err != nil {
		return err
	}
	return workspace.WriteFiles(dir, files)
}

// formatOf returns what writes results in a format.
func formatOf(name string) (func(out *os.File, all []*graded) error, error) {
	formats := map[string]func(*os.File, []*graded) error{
		"": table, "json": asJSON, "junit": junit, "gradescope": gradescope, "classroom50": classroom50,
	}
	if format := formats[name]; format != nil {
		return format, nil
	}
	return nil, fmt.Errorf("FORMAT is %q: set it to json, junit, gradescope or classroom50, or to nothing for a table", name)
}

func indentedJSON(out *os.File, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func asJSON(out *os.File, all []*graded) error { return indentedJSON(out, all) }

// byExercise returns the points of a result, exercise by exercise.
func (g *graded) byExercise() (names []string, points map[string][]point) {
	points = map[string][]point{}
	for _, p := range g.Points {
		if !slices.Contains(names, p.Exercise) {
			names = append(names, p.Exercise)
		}
		points[p.Exercise] = append(points[p.Exercise], p)
	}
	return names, points
}
