package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Book is the book beside the finished code.
type Book struct {
	source   *Source
	chapters []*chapters.Chapter
	// showings are where a declaration or a field is shown, in the order of the
	// chapters.
	showings map[key][]*Showing
	// shown are the showings of each block.
	shown map[*chapters.Block][]*Showing
	// retired are the first chapters without a declaration.
	retired map[key]chapters.Retirement
	// joinings are what joined has found, hiddenIn what hidden has.
	joinings map[*chapters.Chapter][]joining
	hiddenIn map[int]map[types.Object]bool
}

// key names a declaration, or a field of one.
type key struct{ dir, name string }

func (k key) String() string { return k.dir + " " + k.name }

// Showing is one declaration in one block.
type Showing struct {
	key
	block *chapters.Block
	// declaration is nil where the finished code does not have it.
	declaration *Declaration
	// field is set where a field is shown by itself.
	field  *ast.Field
	roster bool
	// draft has the text of an early form, and line its first line in the block.
	draft   string
	line    int
	imports map[string]Import
}

func (s *Showing) chapter() int { return s.block.Chapter.Number }

// newBook brings the chapters and the code together. The error lists everything
// in the chapters that makes no sense.
func newBook(source *Source, all []*chapters.Chapter) (*Book, error) {
	w := &Book{source: source, chapters: all, showings: map[key][]*Showing{},
		shown: map[*chapters.Block][]*Showing{}, retired: map[key]chapters.Retirement{},
		joinings: map[*chapters.Chapter][]joining{}, hiddenIn: map[int]map[types.Object]bool{}}
	var mistakes []error
	for _, chapter := range all {
		for _, retirement := range chapter.Retired {
			mistakes = append(mistakes, w.retire(retirement))
		}
		for _, block := range chapter.Blocks {
			if block.Declares() {
				mistakes = append(mistakes, w.addBlock(block))
			}
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

// blocks returns all blocks in the order of the book.
func (w *Book) blocks() []*chapters.Block {
	var all []*chapters.Block
	for _, chapter := range w.chapters {
		all = append(all, chapter.Blocks...)
	}
	return all
}

func (w *Book) retire(r chapters.Retirement) error {
	k := key{r.Package, r.Name}
	wrong := ""
	if pkg := w.source.packages[k.dir]; pkg != nil && pkg.byName[k.name] != nil {
		wrong = "the finished code has it"
	} else if len(w.showings[k]) == 0 {
		wrong = "no earlier chapter shows it"
	} else if before, retired := w.retired[k]; retired {
		wrong = fmt.Sprintf("%s:%d has done so already", before.Chapter.Path, before.Line)
	}
	if wrong != "" {
		return fmt.Errorf("%s:%d: %s is retired, but %s", r.Chapter.Path, r.Line, k, wrong)
	}
	w.retired[k] = r
	return nil
}

func (w *Book) addBlock(block *chapters.Block) error {
	dir, names, roster := block.Info[1], block.Names(), block.Roster()
	if len(names) == 0 {
		return block.Errorf("say which declarations of %s the block shows, for example: go kcm/app Run", dir)
	}
	pkg := w.source.packages[dir]
	if pkg == nil {
		return block.Errorf("%s is no package of kcm: write go, the directory of a package, and names, for example: go kcm/app Run", dir)
	}
	for _, name := range names {
		showing, err := pkg.find(name)
		if err != nil {
			return block.Errorf("%w", err)
		}
		showing.block, showing.roster = block, roster
		if roster && (showing.declaration == nil || showing.field != nil || showing.declaration.node == nil) {
			return block.Errorf("%s cannot be a roster: the finished code has no such list%s", name, w.didYouMean(dir, name))
		}
		if err := w.checkRepeated(showing); err != nil {
			return block.Errorf("%w", err)
		}
		w.showings[showing.key] = append(w.showings[showing.key], showing)
		w.shown[block] = append(w.shown[block], showing)
	}
	return nil
}

// find returns what a name in a block stands for: a declaration of the finished
// code, a field of one, or else a draft.
func (p *Package) find(name string) (*Showing, error) {
	if d := p.byName[name]; d != nil {
		return &Showing{key: key{p.dir, d.names[0]}, declaration: d}, nil
	}
	structure, fieldName, isField := strings.Cut(name, ".")
	d := p.byName[structure]
	if !isField || d == nil || d.node == nil {
		return &Showing{key: key{p.dir, name}}, nil
	}
	field := d.field(fieldName)
	if field == nil {
		return nil, fmt.Errorf("%s has no field %s", structure, fieldName)
	}
	return &Showing{key: key{p.dir, structure + "." + fieldNames(field)[0].Name}, declaration: d, field: field}, nil
}

// checkRepeated says what is wrong with showing something that an earlier block
// has shown.
func (w *Book) checkRepeated(s *Showing) error {
	all := w.showings[s.key]
	if len(all) == 0 {
		return nil
	}
	before := all[len(all)-1]
	where := fmt.Sprintf("%s:%d", before.block.Chapter.Path, before.block.Line)
	retired, isRetired := w.retired[s.key]
	switch {
	case before.chapter() == s.chapter():
		return fmt.Errorf("%s is shown a second time in this chapter; first in line %d", s.name, before.block.Line)
	case s.field != nil:
		return fmt.Errorf("the field %s is shown in %s already", s.name, where)
	case s.declaration != nil && s.declaration.node == nil:
		return fmt.Errorf("%s is shown in %s already, and has no drafts", s.name, where)
	case before.roster != s.roster:
		return fmt.Errorf("%s is a roster in one chapter and not in another, see %s", s.name, where)
	case isRetired:
		return fmt.Errorf("%s is shown after %s:%d has retired it", s.name, retired.Chapter.Path, retired.Line)
	}
	return nil
}

// checkFields finds fields that cannot come by themselves, because their struct
// comes with all of its fields.
func (w *Book) checkFields(block *chapters.Block) error {
	for _, s := range w.shown[block] {
		if s.field == nil {
			continue
		}
		structure := w.showings[key{s.dir, s.declaration.names[0]}]
		if len(structure) > 0 && !structure[0].roster {
			return block.Errorf("%s has all its fields where it is shown; if %s is to come later, make it a roster in %s:%d",
				s.declaration.names[0], s.name, structure[0].block.Chapter.Path, structure[0].block.Line)
		}
	}
	return nil
}

// didYouMean suggests a name that differs in its receiver only or in its case.
func (w *Book) didYouMean(dir, name string) string {
	last := func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
	for _, like := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, known := range slices.Sorted(maps.Keys(w.source.packages[dir].byName)) {
			if known != name && like(last(known), last(name)) {
				return fmt.Sprintf("; did you mean %s?", known)
			}
		}
	}
	return ""
}

// final tells whether a showing has the form that the finished code has. That of
// a roster may still lack elements.
func (w *Book) final(s *Showing) bool {
	return s.declaration != nil && (s.roster || w.next(s) == nil)
}

// readDrafts cuts the body of a block of drafts into declarations.
func (w *Book) readDrafts(block *chapters.Block) error {
	showings := w.shown[block]
	drafts := slices.DeleteFunc(slices.Clone(showings), w.final)
	if len(drafts) == 0 {
		return nil
	}
	if len(drafts) < len(showings) {
		return block.Errorf("%s is a draft, shown again later, and the rest of the block is final: use two blocks", drafts[0].name)
	}
	for _, s := range drafts {
		if _, retired := w.retired[s.key]; s.declaration == nil && !retired && w.next(s) == nil {
			return block.Errorf("%s shows %s, which is gone from the finished code%s; a later chapter can say: <!-- retire: %s -->",
				block.Chapter.Slug, s.key, w.didYouMean(s.dir, s.name), s.key)
		}
	}
	if strings.TrimSpace(block.Body) == "" {
		if next := w.next(drafts[0]); next != nil {
			return block.Errorf("%s is shown again in chapter %02d, so this is a draft: write it", drafts[0].name, next.chapter())
		}
		return block.Errorf("%s is retired in chapter %02d, so this is a draft: write it", drafts[0].name, w.retired[drafts[0].key].Chapter.Number)
	}
	return w.source.splitDrafts(block, drafts)
}

// next returns the showing of the same declaration after this one, or nil.
func (w *Book) next(s *Showing) *Showing {
	all := w.showings[s.key]
	if i := slices.Index(all, s) + 1; i < len(all) {
		return all[i]
	}
	return nil
}

// text returns what a block that shows final forms is to hold.
func (w *Book) text(block *chapters.Block) (string, error) {
	var parts []string
	fields := w.shown[block][0].field != nil
	for _, s := range w.shown[block] {
		text, err := w.textOf(s, s.chapter())
		if err != nil {
			return "", block.Errorf("%w", err)
		}
		parts = append(parts, text)
		if fields != (s.field != nil) {
			return "", block.Errorf("fields and declarations cannot share a block")
		}
	}
	if fields {
		return alignFields(parts)
	}
	return strings.Join(parts, "\n"), nil
}

// alignFields puts fields below each other as gofmt does in a struct.
func alignFields(fields []string) (string, error) {
	formatted, err := format.Source([]byte("type fields struct {\n" + strings.Join(fields, "") + "}\n"))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(formatted)), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	return strings.Join(lines[1:len(lines)-1], "\n") + "\n", nil
}

// textOf returns what a showing says in the stage of a chapter.
func (w *Book) textOf(s *Showing, stage int) (string, error) {
	switch {
	case s.field != nil:
		return w.source.fieldText(s.declaration, s.field), nil
	case !w.final(s):
		return s.draft, nil
	case s.roster:
		return w.source.without(s.declaration, w.hidden(stage))
	default:
		return s.declaration.text + "\n", nil
	}
}

// hidden returns the objects that no chapter up to this one shows.
func (w *Book) hidden(stage int) map[types.Object]bool {
	if known := w.hiddenIn[stage]; known != nil {
		return known
	}
	hidden := map[types.Object]bool{}
	w.hiddenIn[stage] = hidden
	for _, dir := range w.source.dirs() {
		for _, d := range w.source.packages[dir].declarations {
			if w.first(key{dir, d.names[0]}) > stage {
				for _, object := range d.objects {
					hidden[object] = true
				}
			}
		}
	}
	for k, showings := range w.showings {
		if field := showings[0].field; field != nil && showings[0].chapter() > stage {
			for _, ident := range fieldNames(field) {
				hidden[w.source.packages[k.dir].info.Defs[ident]] = true
			}
		}
	}
	return hidden
}

const never = 1000

// first returns the first chapter that shows a declaration or a field.
func (w *Book) first(k key) int {
	if showings := w.showings[k]; len(showings) > 0 {
		return showings[0].chapter()
	}
	return never
}

// filled returns the text of each chapter with all its blocks filled.
func (w *Book) filled() (map[*chapters.Chapter][]byte, error) {
	filled := map[*chapters.Chapter][]byte{}
	var mistakes []error
	for _, chapter := range w.chapters {
		texts := map[*chapters.Block]chapters.Text{}
		for _, block := range chapter.Blocks {
			text, err := w.content(block)
			mistakes = append(mistakes, err)
			texts[block] = text
		}
		text, err := chapter.Fill(texts)
		mistakes = append(mistakes, err)
		filled[chapter] = text
	}
	return filled, errors.Join(mistakes...)
}

// content returns what a block is to hold and what stands about it.
func (w *Book) content(block *chapters.Block) (chapters.Text, error) {
	body, err := w.body(block)
	if err != nil || block.File() == "" && block.Wrong() == "" && w.shown[block] == nil {
		return block.Text, err
	}
	return w.captioned(block, body)
}

// body returns what a block is to hold.
func (w *Book) body(block *chapters.Block) (string, error) {
	switch {
	case block.File() != "":
		text, err := os.ReadFile(filepath.Join(w.source.root, block.File()))
		if err != nil {
			return "", block.Errorf("there is no file %s that the block could show", block.File())
		}
		if block.Step() != "" {
			return stepOf(block, txtar.Parse(text))
		}
		return strings.TrimSuffix(string(text), "\n") + "\n", nil
	case block.Wrong() != "":
		wrong, err := w.wrong(block)
		if err != nil {
			return "", block.Errorf("%w", err)
		}
		return wrong.Diff(), nil
	case w.shown[block] == nil || !w.final(w.shown[block][0]):
		return block.Body, nil
	default:
		return w.text(block)
	}
}

// stepOf returns the lines of the step of a lab that a block shows.
func stepOf(block *chapters.Block, script *txtar.Archive) (string, error) {
	lines := strings.Split(strings.TrimSpace(string(script.Comment)), "\n")
	begin := slices.Index(lines, "step "+block.Step())
	if begin < 0 {
		return "", block.Errorf("%s has no step %q: write the whole sentence of a step behind lab", block.File(), block.Step())
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
			if w.first(key{dir, d.names[0]}) == never {
				missing = append(missing, d)
			}
		}
	}
	return missing, total
}
