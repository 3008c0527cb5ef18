// Package workspace writes what the reader of a chapter works in, and reads what has become of it.
//
// A workspace is a module of its own: the code of the chapter's stage without the bodies that the reader writes, its
// tests, and the chapter without its answers. In .book/ lies what was written, so that it can be told later what the
// reader has changed.
package workspace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Workspace is a directory in which somebody works on the exercises of a chapter.
type Workspace struct {
	*chapters.Chapter
	// Root is that of the book's repository, Dir the workspace's.
	Root, Dir string
	// Progress is the reader's.
	Progress Progress
}

// Progress is what the reader has done.
type Progress struct {
	// Passed has the checksum of what has passed, by exercise.
	Passed map[string]string `json:"passed"`
	// Hints says how many have been shown, by exercise.
	Hints map[string]int `json:"hints"`
	// Held says how many behaviours of how many held last, by exercise.
	Held map[string][2]int `json:"held"`
}

func newProgress() Progress {
	return Progress{Passed: map[string]string{}, Hints: map[string]int{}, Held: map[string][2]int{}}
}

const (
	bookDir      = ".book"
	stateFile    = ".book/exercises.json"
	progressFile = ".book/progress.json"
)

// Default returns the directory of a chapter's workspace, relative to the root.
func Default(number int) string { return fmt.Sprintf("exercises/%02d", number) }

// Open reads a workspace of one of the chapters that the book in root has.
func Open(root string, all []*chapters.Chapter, dir string) (*Workspace, error) {
	var of map[string]int
	if err := readJSON(filepath.Join(dir, stateFile), &of); err != nil {
		return nil, err
	}
	chosen, err := chapters.Choose(all, strconv.Itoa(of["chapter"]))
	if err != nil {
		return nil, err
	}
	w := &Workspace{Chapter: chosen[0], Root: root, Dir: dir, Progress: newProgress()}
	if err := readJSON(filepath.Join(dir, progressFile), &w.Progress); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return w, nil
}

func readJSON(path string, into any) error {
	// A workspace that was handed in may have anything in the file's place.
	if info, err := os.Stat(path); err != nil {
		return err
	} else if !info.Mode().IsRegular() || info.Size() > maxPackage {
		return fmt.Errorf("%s is no file of a workspace", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w; remove it, and write the workspace again", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	text, _ := json.MarshalIndent(value, "", "\t") // it is JSON
	return weave.WriteFile(path, append(text, '\n'))
}

// Save remembers the reader's progress.
func (w *Workspace) Save() error { return writeJSON(filepath.Join(w.Dir, progressFile), w.Progress) }

// Choose returns the exercise of that name, or all.
func (w *Workspace) Choose(name string) ([]*chapters.Exercise, error) {
	if name == "" {
		return w.Exercises, nil
	}
	var known []string
	for _, e := range w.Exercises {
		if e.Name == name {
			return []*chapters.Exercise{e}, nil
		}
		known = append(known, e.Name)
	}
	return nil, fmt.Errorf("chapter %02d has no exercise %s: it has %s", w.Number, name, strings.Join(known, ", "))
}

// Answer is what the reader has of an exercise: the functions, or all that a whole package declares, or the scenario.
type Answer []Declaration

// Answer returns what the reader has of an exercise.
func (w *Workspace) Answer(e *chapters.Exercise) (Answer, error) {
	if e.Scenario() {
		text, err := os.ReadFile(filepath.Join(w.Dir, scenarioOf(e)))
		return Answer{{Name: e.Name, File: scenarioOf(e), Text: string(text)}}, err
	}
	var names []string
	for _, b := range e.Blocks {
		names = append(names, b.Names...)
	}
	all, err := readPackage(w.Dir, e.Blocks[0].Package)
	if e.Whole() {
		return all, err
	}
	answer := slices.DeleteFunc(all, func(d Declaration) bool { return !slices.Contains(names, d.Name) })
	if len(answer) == len(names) {
		err = nil // what does not compile is a file with another exercise
	}
	return answer, err
}

// WithoutFile adds to what stands in place of which file for the compiler that one of the reader's is as it was
// written. It tells whether that makes a difference.
func (w *Workspace) WithoutFile(name string, overlay map[string]string) bool {
	mine, written := filepath.Join(w.Dir, name), filepath.Join(w.Dir, bookDir, name)
	text, err := os.ReadFile(mine)
	if _, done := overlay[mine]; done || err != nil {
		return false
	}
	was, err := os.ReadFile(written)
	if overlay[mine] = written; err != nil {
		overlay[mine] = "" // the reader's alone
	}
	return err != nil || !bytes.Equal(text, was)
}

// Unwritten returns the names of the functions that nobody has written.
func (a Answer) Unwritten() (names []string) {
	for _, part := range a {
		if isUnwritten(part.Text) {
			names = append(names, part.Name)
		}
	}
	return names
}

// isUnwritten tells whether a function has the body that the reader begins with.
func isUnwritten(text string) bool { return strings.Contains(text, `panic("`+weave.Unwritten) }

// Files returns the files that have it.
func (a Answer) Files() (files []string) {
	for _, part := range a {
		if !slices.Contains(files, part.File) {
			files = append(files, part.File)
		}
	}
	return files
}

// Sum is a checksum of the texts.
func (a Answer) Sum() string {
	sum := sha256.New()
	byName := func(a, b Declaration) int { return strings.Compare(a.Name, b.Name) }
	for _, part := range slices.SortedStableFunc(slices.Values(a), byName) {
		fmt.Fprintf(sum, "%s\n%s\n", part.Name, part.Text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// scenarioOf returns where in a workspace the reader writes a scenario.
func scenarioOf(e *chapters.Exercise) string { return "scenarios/" + e.Name + ".txtar" }

// Written says what has become of a workspace.
type Written struct {
	*Workspace
	// Kept are the files that the reader has changed. Carried are the earlier exercises that are the reader's, Left
	// those that have changed since they passed. New tells whether there was no workspace.
	Kept, Carried, Left []string
	New                 bool
}

// Write writes the workspace of a chapter, whose number is as it was typed, to a directory, if not exercises/NN. From
// is the workspace that has the earlier chapters, if not the last one beside it or below exercises/.
func Write(root, number, dir, from string) (*Written, error) {
	book, err := weave.Open(root)
	if err != nil {
		return nil, err
	}
	chapter, err := book.Chapter(number)
	if err != nil {
		return nil, err
	}
	dir, _ = filepath.Abs(cmp.Or(dir, filepath.Join(root, Default(chapter.Number)))) // the root was found from here
	files, err := book.Module(chapter.Number, func(e *weave.Exercise) map[string]string {
		if e.Chapter == chapter {
			return e.Cut()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	w := &Written{Workspace: &Workspace{Chapter: chapter, Dir: dir, Root: root, Progress: newProgress()}, New: true}
	w.addTexts(files)
	if err := w.carry(book, files, from); err != nil {
		return nil, err
	}
	return w, w.put(book.Chapters, files)
}

func (w *Workspace) addTexts(files map[string][]byte) {
	for _, page := range w.Pages {
		text := remark.ReplaceAllString(page.WithoutAnswers(), "")
		heading, rest, _ := strings.Cut(text, "\n")
		text = heading + "\n" + filled("note.md", w) + rest
		text = relative.ReplaceAllString(text, "]("+w.Root+"/chapters/$1")
		files[path.Base(page.Path)] = []byte(strings.ReplaceAll(text, "](../../", "]("+w.Root+"/"))
	}
	files["Makefile"] = []byte(filled("Makefile", w))
	for _, e := range w.Exercises {
		if e.Scenario() {
			files[scenarioOf(e)] = []byte(filled("scenario.txtar", e))
		}
	}
}

//go:embed texts
var embedded embed.FS

var texts = template.Must(template.ParseFS(embedded, "texts/*"))

// filled is one of the texts that a workspace has, filled in.
func filled(name string, with any) string {
	var out strings.Builder
	_ = texts.ExecuteTemplate(&out, name, with) // the text is ours, and so is what it is filled with
	return out.String()
}

// relative matches links to other chapters.
var relative = regexp.MustCompile(`\]\(\.\./(\d\d-|[a-z-]+\.md)`)

// remark matches what says that something is an exercise, and where its answer is.
var remark = regexp.MustCompile(`(?m)^<!-- (exercise|scenario): [^>]*-->\n`)

// carry puts the reader's own functions of earlier chapters into the files, where
// they have passed there and are still the same. Others are left.
func (w *Written) carry(book *weave.Book, files map[string][]byte, from string) error {
	earlier, err := w.earlier(book.Chapters, from)
	if err != nil || earlier == nil {
		return err
	}
	before, err := book.Exercises(min(w.Number-1, earlier.Number))
	if err != nil {
		return err
	}
	for _, e := range before {
		passed := earlier.Progress.Passed[e.Name]
		if e.Scenario() || passed == "" {
			continue
		}
		if answer, err := earlier.Answer(e.Exercise); err != nil || answer.Sum() != passed {
			w.Left = append(w.Left, e.Name)
			continue
		}
		if err := Graft(earlier.Dir, e, files, false); err != nil {
			return fmt.Errorf("carry %s over from %s: %w", e.Name, earlier.Dir, err)
		}
		w.Progress.Passed[e.Name] = passed
		w.Carried = append(w.Carried, e.Name)
	}
	return nil
}

// earlier returns the workspace that earlier exercises are carried over from, if there is one.
func (w *Workspace) earlier(all []*chapters.Chapter, from string) (*Workspace, error) {
	if from != "" {
		earlier, err := Open(w.Root, all, from)
		if err != nil {
			err = fmt.Errorf("FROM=%s is no workspace: %w", from, err)
		}
		return earlier, err
	}
	for number := w.Number - 1; number >= 0; number-- {
		for _, parent := range []string{filepath.Dir(w.Dir), filepath.Join(w.Root, "exercises")} {
			earlier, err := Open(w.Root, all, filepath.Join(parent, fmt.Sprintf("%02d", number)))
			if !errors.Is(err, fs.ErrNotExist) {
				return earlier, err
			}
		}
	}
	return nil, nil
}

// put writes the files. What the reader has changed since they were written stays.
func (w *Written) put(all []*chapters.Chapter, files map[string][]byte) error {
	before, err := Open(w.Root, all, w.Dir)
	switch {
	case err == nil && before.Number != w.Number:
		return fmt.Errorf("%s is the workspace of chapter %02d: choose another with DEST=", w.Dir, before.Number)
	case err == nil:
		w.New = false
		carried := w.Progress.Passed
		w.Progress = before.Progress
		maps.Copy(w.Progress.Passed, carried)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		if entries, err := os.ReadDir(w.Dir); err == nil && len(entries) > 0 {
			return fmt.Errorf("%s is not empty and no workspace: choose another with DEST=", w.Dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := w.merged(name, files[name])
		if err != nil {
			return err
		}
		// go takes no notice of what lies below a directory that begins with a dot.
		baseErr := weave.WriteFile(filepath.Join(w.Dir, bookDir, name), files[name])
		if err := errors.Join(baseErr, weave.WriteFile(filepath.Join(w.Dir, name), text)); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(w.Dir, stateFile), map[string]int{"chapter": w.Number}); err != nil {
		return err
	}
	return w.Save()
}

// merged returns a file that is to be written with what the reader has changed in it.
// Where the book has changed the same lines, they are the reader's.
func (w *Written) merged(name string, text []byte) ([]byte, error) {
	mine, base := filepath.Join(w.Dir, name), filepath.Join(w.Dir, bookDir, name)
	own, err := os.ReadFile(mine)
	if errors.Is(err, fs.ErrNotExist) || bytes.Equal(own, text) {
		return text, nil
	}
	was, wasErr := os.ReadFile(base)
	if err != nil || wasErr == nil && bytes.Equal(own, was) {
		return text, err
	}
	if w.Kept = append(w.Kept, name); wasErr != nil {
		base = os.DevNull
	}
	theirs := filepath.Join(w.Dir, bookDir, name+".new")
	if err := weave.WriteFile(theirs, text); err != nil {
		return nil, err
	}
	defer os.Remove(theirs)
	merged, err := exec.Command("git", "merge-file", "-p", "--ours", mine, base, theirs).Output()
	if err != nil {
		err = fmt.Errorf("merge what you and the book have changed in %s: %w", name, err)
	}
	return merged, err
}
