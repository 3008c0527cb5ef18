package weave

import (
	"errors"
	"fmt"
	"go/format"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Book is the book beside the finished code.
type Book struct {
	// Chapters are in the order of the book.
	Chapters []*chapters.Chapter
	source   *Source
	// showings are where a declaration or a field is shown, in the order of the chapters.
	showings map[key][]*Shown
	// shown are the showings of each block.
	shown map[*chapters.Block][]*Shown
	// versionsOf are what versions has found, hiddenIn what hidden has.
	versionsOf map[key][]Version
	hiddenIn   map[moment]map[types.Object]bool
	// stubTexts is what stubs has found.
	stubTexts map[*chapters.Block]chapters.Text
}

type key struct{ Dir, Name string }

// Shown is a declaration or a field in a block.
type Shown struct {
	key
	Block *chapters.Block
	// Names are those that it declares; a package's comment and imports have none. File is the one of the finished code
	// that has it.
	Names []string
	File  string
	// after is how many steps of the chapter are before it.
	after       int
	declaration *Declaration
	roster      bool
	// draft has the text of an early form, and line its first line in the block.
	draft string
	line  int
	// previous and next are those of the same declaration, or nil. changed is what has changed since the previous one,
	// when it is known.
	previous, next *Shown
	changed        change

	// This is for who shows the book in another form than as Markdown; [Book.View] finds it out. Line is that in File, or
	// 0 where the block has another text; Final tells whether it is all of that, Differs whether it is only what has
	// changed, and Step is the name of the step after which the page shows it again, or "".
	Line           int
	Final, Differs bool
	Step           string
	// Begin and End are where it stands in the body of the block. They are equal for a field.
	Begin, End int
	// References are the names in it that something else in the book declares, in the order of the text.
	References []Reference
	// History are the texts that it has from chapter to chapter. It has more than one where it changes.
	History []Version
}

func (s *Shown) chapter() int { return s.Block.Chapter.Number }

// at is when the stage has it, shownAt when the reader sees it.
func (s *Shown) at() moment      { return momentOf(s.chapter(), s.after) }
func (s *Shown) shownAt() moment { return momentOf(s.chapter(), s.Block.After) }

// newBook brings the chapters and the code together. The error lists everything in the chapters that makes no sense.
func newBook(source *Source, all []*chapters.Chapter) (*Book, error) {
	w := &Book{source: source, Chapters: all, showings: map[key][]*Shown{}, shown: map[*chapters.Block][]*Shown{},
		versionsOf: map[key][]Version{}, hiddenIn: map[moment]map[types.Object]bool{}}
	var mistakes []error
	for _, block := range w.blocks() {
		if block.Package != "" {
			mistakes = append(mistakes, w.addBlock(block))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	for _, block := range w.blocks() {
		if w.shown[block] != nil {
			mistakes = append(mistakes, w.checkFields(block), w.readDrafts(block))
		}
	}
	return w, errors.Join(mistakes...)
}

func (w *Book) blocks() []*chapters.Block {
	var all []*chapters.Block
	for _, chapter := range w.Chapters {
		all = append(all, chapter.Blocks...)
	}
	return all
}

func (w *Book) addBlock(block *chapters.Block) error {
	pkg := w.source.packages[block.Package]
	if pkg == nil {
		return block.Errorf("%s is no package of kcm: write go, the directory of a package, and names, "+
			"for example: go kcm/app Run", block.Package)
	}
	if len(block.Names) == 0 {
		return block.Errorf("say which declarations of %s the block shows, for example: go kcm/app Run", block.Package)
	}
	for _, name := range block.Names {
		s, err := pkg.find(name)
		if err != nil {
			return block.Errorf("%w", err)
		}
		s.Block, s.roster, s.after = block, block.Roster, block.After
		if all := w.showings[s.key]; len(all) > 0 {
			s.previous = all[len(all)-1]
		}
		// The rest of a chapter's code is there from the beginning, but for what the lesson has shown in another form.
		if (block.Page.Code() || block.Chapter.Finished) && (s.previous == nil || s.previous.Block.Chapter != block.Chapter) {
			s.after = 1 + slices.Index(block.Chapter.Steps, block.Awaits)
			if s.after == 0 && block.Awaits != "" {
				return block.Errorf("no lesson of this chapter has a step %s", block.Awaits)
			}
		}
		if err := s.check(); err != nil {
			return block.Errorf("%w", err)
		}
		if s.previous != nil {
			s.previous.next = s
		}
		w.showings[s.key] = append(w.showings[s.key], s)
		w.shown[block] = append(w.shown[block], s)
	}
	return nil
}

// find returns what a name in a block stands for in the finished code.
func (p *Package) find(name string) (*Shown, error) {
	d := p.byName[name]
	if d == nil {
		return nil, fmt.Errorf("%s has no %s", p.dir, name)
	}
	shown := &Shown{key: key{p.dir, d.names[0]}, declaration: d, File: d.file.path}
	if len(d.objects) > 0 {
		shown.Names = d.names // nobody calls a comment or imports by their name
	}
	return shown, nil
}

// check says what is wrong with showing something, for example because an earlier block has shown it.
func (s *Shown) check() error {
	before := s.previous
	switch {
	case s.roster && s.declaration.node == nil:
		return fmt.Errorf("%s cannot be a roster: the finished code has no such list", s.Name)
	case before == nil:
		return nil
	case before.at() >= s.at():
		return fmt.Errorf("%s is shown a second time in this chapter; first in %s", s.Name, before.Block.Place)
	case s.declaration.node == nil:
		return fmt.Errorf("%s is shown in %s already, and has no drafts", s.Name, before.Block.Place)
	case before.roster != s.roster:
		return fmt.Errorf("%s is a roster in one chapter and not in another, see %s", s.Name, before.Block.Place)
	}
	return nil
}

// checkFields finds fields that cannot come by themselves, because their struct comes with all of its fields.
func (w *Book) checkFields(block *chapters.Block) error {
	for _, s := range w.shown[block] {
		of := s.declaration.of
		if of == nil {
			continue
		}
		structure := w.showings[key{s.Dir, of.names[0]}]
		if len(structure) > 0 && !structure[0].roster {
			return block.Errorf("%s has all its fields where it is shown; if %s is to come later, make it a roster in %s",
				of.names[0], s.Name, structure[0].Block.Place)
		}
	}
	return nil
}

// final tells whether a showing has the form that the finished code has. That of a roster may still lack elements.
func (s *Shown) final() bool { return s.roster || s.next == nil }

// readDrafts cuts the body of a block of drafts into declarations.
func (w *Book) readDrafts(block *chapters.Block) error {
	showings := w.shown[block]
	drafts := slices.DeleteFunc(slices.Clone(showings), (*Shown).final)
	if len(drafts) == 0 {
		return nil
	}
	first := drafts[0]
	if len(drafts) < len(showings) {
		return block.Errorf("%s is a draft, shown again later, and the rest of the block is final: use two blocks",
			first.Name)
	}
	if strings.TrimSpace(block.Body) == "" {
		return block.Errorf("%s is shown again in chapter %02d, so this is a draft: write it",
			first.Name, first.next.chapter())
	}
	return splitDrafts(block, drafts)
}

// text returns what a block that shows final forms is to hold.
func (w *Book) text(block *chapters.Block) (text chapters.Text, err error) {
	var parts []string
	fields := w.shown[block][0].declaration.of != nil
	for _, s := range w.shown[block] {
		shown, differs, err := w.shownText(s)
		if err != nil {
			return text, block.Errorf("%w", err)
		}
		parts = append(parts, shown)
		text.Differs = text.Differs || differs
		if fields != (s.declaration.of != nil) {
			return text, block.Errorf("fields and declarations cannot share a block")
		}
	}
	if text.Body = strings.Join(parts, "\n"); fields {
		text.Body, err = alignFields(parts)
	}
	return text, err
}

// shownText returns what a block that shows final forms has of a declaration, and whether that is a difference.
func (w *Book) shownText(s *Shown) (text string, differs bool, err error) {
	changed, err := w.changes(s)
	if err != nil || s.differs(changed) {
		return changed.diff, true, err
	}
	text, err = w.textOf(s, s.shownAt())
	return text, false, err
}

// alignFields puts fields below each other as gofmt does in a struct.
func alignFields(fields []string) (string, error) {
	const head, end = "type fields struct {\n", "}\n"
	formatted, err := format.Source([]byte(head + strings.Join(fields, "") + end))
	lines := strings.TrimSuffix(strings.TrimPrefix(string(formatted), head), end)
	return strings.TrimPrefix(strings.ReplaceAll(lines, "\n\t", "\n"), "\t"), err
}

func (w *Book) textOf(s *Shown, at moment) (string, error) {
	switch {
	case !s.final():
		return s.draft, nil
	case s.roster:
		return w.source.without(s.declaration, w.hidden(at))
	default:
		return s.declaration.text + "\n", nil
	}
}

// hidden returns the objects that nothing up to a moment shows.
func (w *Book) hidden(at moment) map[types.Object]bool {
	if known := w.hiddenIn[at]; known != nil {
		return known
	}
	hidden := map[types.Object]bool{}
	w.hiddenIn[at] = hidden
	for object, d := range w.source.declares {
		k := key{d.pkg.dir, d.names[0]}
		// A field that is never shown by itself comes with its struct.
		if (d.of == nil || len(w.showings[k]) > 0) && w.latest(k, at) == nil {
			hidden[object] = true
		}
	}
	return hidden
}

// filled returns the texts of the pages of each chapter with all its blocks filled.
func (w *Book) filled() (map[*chapters.Chapter][][]byte, error) {
	filled := map[*chapters.Chapter][][]byte{}
	var mistakes []error
	for _, chapter := range w.Chapters {
		texts := map[*chapters.Block]chapters.Text{}
		for _, block := range chapter.Blocks {
			var err error
			texts[block], err = w.content(block)
			mistakes = append(mistakes, err)
		}
		var err error
		filled[chapter], err = chapter.Fill(texts)
		mistakes = append(mistakes, err)
	}
	err := errors.Join(mistakes...)
	if err == nil {
		chapters.Turn(w.Chapters, filled)
	}
	return filled, err
}

// content returns what a block is to hold and what stands about it.
func (w *Book) content(block *chapters.Block) (chapters.Text, error) {
	switch {
	case block.Stub:
		texts, err := w.stubs()
		text, ok := texts[block]
		if err == nil && !ok {
			err = block.Errorf("a stub stands in an exercise, once, and not in one of a scenario")
		}
		return text, err
	case block.File != "":
		text, err := os.ReadFile(filepath.Join(w.source.root, block.File))
		if err != nil {
			return chapters.Text{}, block.Errorf("there is no file %s that the block could show", block.File)
		}
		body := strings.TrimSuffix(string(text), "\n") + "\n"
		if block.Step != "" {
			body, err = stepOf(block, txtar.Parse(text))
		}
		return chapters.Text{Caption: caption(linkTo(block.File)), Body: body}, err
	case block.Wrong != "":
		wrong, err := w.wrong(block)
		if err != nil {
			return chapters.Text{}, block.Errorf("%w", err)
		}
		believed := fmt.Sprintf("“%s” Caught by “%s”.", wrong.Misconception, wrong.CaughtBy)
		return chapters.Text{Body: wrong.Diff, Below: chapters.Fold("What was believed, and what catches it", believed)}, nil
	case w.shown[block] == nil:
		return block.Text, nil
	}
	text := chapters.Text{Body: block.Body} // of a draft
	if w.shown[block][0].final() {
		var err error
		if text, err = w.text(block); err != nil {
			return text, err
		}
	}
	return text, w.addCaption(block, &text)
}

func stepOf(block *chapters.Block, script *txtar.Archive) (string, error) {
	lines := strings.Split(strings.TrimSpace(string(script.Comment)), "\n")
	begin := slices.Index(lines, "step "+block.Step)
	if begin < 0 {
		return "", block.Errorf("%s has no step %q: write the whole sentence of a step behind lab", block.File, block.Step)
	}
	lines = lines[begin:]
	if end := slices.IndexFunc(lines[1:], func(line string) bool { return strings.HasPrefix(line, "step ") }); end >= 0 {
		lines = lines[:1+end]
	}
	return strings.TrimSpace(strings.Join(lines, "\n")) + "\n", nil
}

// unshown lists the declarations that no chapter shows.
func (w *Book) unshown() (missing []*Declaration, total int) {
	for _, dir := range w.source.dirs() {
		for _, d := range w.source.packages[dir].declarations {
			total++
			if len(w.showings[key{dir, d.names[0]}]) == 0 {
				missing = append(missing, d)
			}
		}
	}
	return missing, total
}
