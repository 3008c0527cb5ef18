// Package workspace writes what the reader of a chapter works in, and reads what has
// become of it.
//
// A workspace is a module of its own: the code of the chapter's stage without the
// bodies that the reader writes, its tests, and the chapter without its answers. In
// .book/ lies what was written, so that it can be told later what the reader has
// changed.
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
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Workspace is a directory in which somebody works on the exercises of a chapter.
type Workspace struct {
	Dir string `json:"-"`
	// Root is that of the repository that wrote it.
	Root    string `json:"root"`
	Chapter int    `json:"chapter"`
	Slug    string `json:"slug"`
	// Exercises are those of the chapter.
	Exercises []*Exercise `json:"exercises"`
	// Progress is the reader's.
	Progress Progress `json:"-"`
}

// Exercise is what a workspace has to know of one.
type Exercise struct {
	Name    string   `json:"name"`
	Minutes int      `json:"minutes"`
	Dir     string   `json:"dir,omitempty"`
	Tests   []string `json:"tests,omitempty"`
	// Whole tells that the reader writes the package Dir as a whole.
	Whole bool `json:"whole,omitempty"`
	// Functions are the names of what the reader writes: of a whole package, of what others
	// see. Files have them, relative to the workspace.
	Functions []string `json:"names,omitempty"`
	Files     []string `json:"files"`
	// Rule is where the rule stands, a heading of the chapter, and Page the file that has it.
	Rule  string          `json:"rule"`
	Page  string          `json:"page"`
	Hints []chapters.Hint `json:"hints"`
	// Broken and Answer are set where the reader writes a scenario.
	Broken string `json:"broken,omitempty"`
	Answer string `json:"answer,omitempty"`
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
	bookDir = ".book"
	// OverwrittenDir has what was overwritten.
	OverwrittenDir = ".overwritten"
	stateFile      = ".book/exercises.json"
	progressFile   = ".book/progress.json"
)

// Default returns the directory of a chapter's workspace, relative to the root.
func Default(number int) string { return fmt.Sprintf("exercises/%02d", number) }

// Open reads a workspace.
func Open(dir string) (*Workspace, error) {
	w := &Workspace{Dir: dir}
	if err := readJSON(filepath.Join(dir, stateFile), w); err != nil {
		return nil, err
	}
	w.Progress = newProgress()
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
	text, err := json.MarshalIndent(value, "", "\t")
	if err != nil {
		return err
	}
	return write(path, append(text, '\n'))
}

// Save remembers the reader's progress.
func (w *Workspace) Save() error { return writeJSON(filepath.Join(w.Dir, progressFile), w.Progress) }

// Choose returns the exercise of that name, or all.
func (w *Workspace) Choose(name string) ([]*Exercise, error) {
	if name == "" {
		return w.Exercises, nil
	}
	var known []string
	for _, e := range w.Exercises {
		if e.Name == name {
			return []*Exercise{e}, nil
		}
		known = append(known, e.Name)
	}
	return nil, fmt.Errorf("chapter %02d has no exercise %s: it has %s", w.Chapter, name, strings.Join(known, ", "))
}

// Scenario tells whether the reader writes a scenario.
func (e *Exercise) Scenario() bool { return e.Broken != "" }

// Texts returns the reader's functions of an exercise by their names, or all that a
// whole package declares. One that is not there is "".
func (w *Workspace) Texts(e *Exercise) (map[string]string, error) {
	if e.Scenario() {
		text, err := os.ReadFile(filepath.Join(w.Dir, e.Files[0]))
		return map[string]string{e.Name: string(text)}, err
	}
	all, err := readPackage(w.Dir, e.Dir, func(name string) bool { return e.Whole || slices.Contains(e.Files, name) })
	texts := map[string]string{}
	for _, d := range all {
		if e.Whole || slices.Contains(e.Functions, d.name) {
			texts[d.name] = d.text
		}
	}
	return texts, err
}

// Sum is a checksum of the reader's functions.
func Sum(texts map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(sum, "%s\n%s\n", name, texts[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// unwritten is what the body of a function of an exercise says that nobody has written.
func unwritten(name string) string { return fmt.Sprintf("panic(%q)", weave.Unwritten+name) }

// Unwritten returns the functions of an exercise that nobody has written.
func (e *Exercise) Unwritten(texts map[string]string) []string {
	var names []string
	for _, name := range e.Functions {
		if text := texts[name]; text == "" || strings.Contains(text, unwritten(e.Name)) {
			names = append(names, name)
		}
	}
	return names
}

func describe(e *weave.Exercise) *Exercise {
	described := &Exercise{Name: e.Name, Minutes: e.Minutes, Dir: e.Dir, Tests: e.Tests, Whole: e.Whole(), Rule: e.Heading,
		Page: path.Base(e.Path), Hints: e.Hints, Broken: e.Broken, Answer: e.Answer}
	if e.Scenario() {
		described.Files = []string{"scenarios/" + e.Name + ".txtar"}
	}
	for _, f := range e.Functions {
		if f.Unnamed {
			continue
		}
		described.Functions = append(described.Functions, f.Name)
		if file := e.Dir + "/" + f.File; !slices.Contains(described.Files, file) {
			described.Files = append(described.Files, file)
		}
	}
	return described
}

// Options say where a workspace is written, and from what.
type Options struct {
	// Root is that of the repository, Number the chapter as it was typed.
	Root, Number string
	// Dir is where to, if not exercises/NN, From the workspace that has the earlier
	// chapters, if not the last one below exercises/.
	Dir, From string
	// Force overwrites what the reader has changed.
	Force bool
}

// Written says what has become of a workspace.
type Written struct {
	*Workspace
	// Kept is what the reader has changed and still has, Overwritten what was forced,
	// of which there is a copy in OverwrittenDir. Carried are the earlier exercises that
	// are the reader's, Left those that have changed since they passed. New tells
	// whether there was no workspace.
	Kept, Overwritten, Carried, Left []string
	New                              bool
}

// Write writes the workspace of a chapter.
func Write(o Options) (*Written, error) {
	book, err := weave.Open(o.Root)
	if err != nil {
		return nil, err
	}
	chapter, err := book.Chapter(o.Number)
	if err != nil {
		return nil, err
	}
	exercises, err := book.Exercises(chapter.Number)
	if err != nil {
		return nil, err
	}
	o.Dir, err = filepath.Abs(cmp.Or(o.Dir, filepath.Join(o.Root, Default(chapter.Number))))
	if err != nil {
		return nil, err
	}
	w := &Workspace{Dir: o.Dir, Root: o.Root, Chapter: chapter.Number, Slug: chapter.Slug, Progress: newProgress()}
	var before []*weave.Exercise
	for _, e := range exercises {
		if e.Chapter == chapter {
			w.Exercises = append(w.Exercises, describe(e))
		} else if !e.Scenario() {
			before = append(before, e)
		}
	}
	if len(w.Exercises) == 0 {
		return nil, fmt.Errorf("chapter %02d has no exercises", chapter.Number)
	}
	files, err := book.Module(chapter.Number, func(e *weave.Exercise) map[string]string {
		if e.Chapter != chapter {
			return nil
		}
		return e.Cut()
	})
	if err != nil {
		return nil, err
	}
	if err := w.addTexts(chapter, files); err != nil {
		return nil, err
	}
	written := &Written{Workspace: w, New: true}
	if written.Carried, written.Left, err = w.carry(before, files, o.From); err != nil {
		return nil, err
	}
	return written, written.put(files, o.Force)
}

// addTexts adds what is not code.
func (w *Workspace) addTexts(chapter *chapters.Chapter, files map[string][]byte) error {
	note, err := filled("note.md", w)
	if err != nil {
		return err
	}
	for _, page := range chapter.Pages {
		text := remark.ReplaceAllString(page.WithoutAnswers(), "")
		heading, rest, _ := strings.Cut(text, "\n")
		text = heading + "\n" + string(note) + rest
		text = relative.ReplaceAllString(text, "]("+w.Root+"/chapters/$1")
		files[path.Base(page.Path)] = []byte(strings.ReplaceAll(text, "](../../", "]("+w.Root+"/"))
	}
	if files["Makefile"], err = filled("Makefile", w); err != nil {
		return err
	}
	for _, e := range w.Exercises {
		if e.Scenario() {
			if files[e.Files[0]], err = filled("scenario.txtar", e); err != nil {
				return err
			}
		}
	}
	return nil
}

//go:embed texts
var embedded embed.FS

var texts = template.Must(template.ParseFS(embedded, "texts/*"))

// filled is one of the texts that a workspace has, filled in.
func filled(name string, with any) ([]byte, error) {
	var out bytes.Buffer
	err := texts.ExecuteTemplate(&out, name, with)
	return out.Bytes(), err
}

// relative matches links to other chapters.
var relative = regexp.MustCompile(`\]\(\.\./(\d\d-|[a-z-]+\.md)`)

// remark matches what says that something is an exercise, and where its answer is.
var remark = regexp.MustCompile(`(?m)^<!-- (exercise|scenario): [^>]*-->\n`)

// carry puts the reader's own functions of earlier chapters into the files, where
// they have passed there and are still the same. Others are left.
func (w *Workspace) carry(before []*weave.Exercise, files map[string][]byte, from string) (carried, left []string, err error) {
	earlier, err := w.earlier(from)
	if err != nil || earlier == nil {
		return nil, nil, err
	}
	for _, e := range before {
		if earlier.Progress.Passed[e.Name] == "" || e.Chapter.Number > earlier.Chapter {
			continue
		}
		texts, err := earlier.Texts(describe(e))
		if err != nil || Sum(texts) != earlier.Progress.Passed[e.Name] {
			left = append(left, e.Name)
			continue
		}
		if err := graftFrom(earlier.Dir, e, files, false); err != nil {
			return nil, nil, fmt.Errorf("carry %s over from %s: %w", e.Name, earlier.Dir, err)
		}
		w.Progress.Passed[e.Name] = Sum(texts)
		carried = append(carried, e.Name)
	}
	return carried, left, nil
}

// earlier returns the workspace that earlier exercises are carried over from, if
// there is one.
func (w *Workspace) earlier(from string) (*Workspace, error) {
	if from != "" {
		earlier, err := Open(from)
		if err != nil {
			err = fmt.Errorf("FROM=%s is no workspace: %w", from, err)
		}
		return earlier, err
	}
	for number := w.Chapter - 1; number >= 0; number-- {
		for _, parent := range []string{filepath.Dir(w.Dir), filepath.Join(w.Root, "exercises")} {
			earlier, err := Open(filepath.Join(parent, fmt.Sprintf("%02d", number)))
			if err == nil {
				return earlier, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return nil, nil
}

// put writes the files. What the reader has changed since they were written stays,
// function by function, unless it is to be forced.
func (w *Written) put(files map[string][]byte, force bool) error {
	before, err := Open(w.Dir)
	switch {
	case err == nil && before.Chapter != w.Chapter:
		return fmt.Errorf("%s is the workspace of chapter %02d: choose another with DEST=", w.Dir, before.Chapter)
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
		text := files[name]
		if !w.New {
			if text, err = w.keep(name, text, force); err != nil {
				return err
			}
		}
		// go takes no notice of what lies below a directory that begins with a dot.
		if err := write(filepath.Join(w.Dir, bookDir, name), files[name]); err != nil {
			return err
		}
		if err := write(filepath.Join(w.Dir, name), text); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(w.Dir, stateFile), w.Workspace); err != nil {
		return err
	}
	return w.Save()
}

// keep returns a file that is to be written with what the reader has changed in it, or
// with force as it is: then what was there is put where it does no harm.
func (w *Written) keep(name string, text []byte, force bool) ([]byte, error) {
	mine, err := os.ReadFile(filepath.Join(w.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return text, nil
	}
	if err != nil {
		return nil, err
	}
	base, err := os.ReadFile(filepath.Join(w.Dir, bookDir, name))
	if err == nil && bytes.Equal(mine, base) || bytes.Equal(mine, text) {
		return text, nil
	}
	if force {
		w.Overwritten = append(w.Overwritten, name)
		return text, write(filepath.Join(w.Dir, OverwrittenDir, name), mine)
	}
	own, err := parse(name, mine)
	was, baseErr := parse(name, base)
	if err != nil || baseErr != nil { // it is no code, too
		w.Kept = append(w.Kept, name)
		return mine, nil
	}
	files := map[string][]byte{name: text}
	for _, d := range own.declarations {
		if before := was.find(d.name); before != nil && before.text == d.text {
			continue
		}
		w.Kept = append(w.Kept, name+": "+d.name)
		if err := graft(files, name, d); err != nil {
			return nil, err
		}
	}
	if bytes.Equal(base, text) {
		return mine, nil // the book has not changed
	}
	return files[name], nil
}

// WriteFiles writes the files of a module.
func WriteFiles(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := write(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file unless it is there already: its time tells go what has to be
// built.
func write(path string, text []byte) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
