package weave

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Shown is a declaration or a field in a block, for who shows the book in another
// form than as Markdown.
type Shown struct {
	Block *chapters.Block
	// Dir is that of the package, Name the one in the info string. Package is what the
	// package calls itself.
	Dir, Name, Package string
	// Names are those that it declares.
	Names []string
	// File is the one of the finished code that has it. Line is 0 where the
	// block has another text than that file.
	File string
	Line int
	// Form is "final", "draft", "roster", "field" or "difference".
	Form string
	// Step is the name of the step after which the page shows it again, or "".
	Step string
	// Begin and End are where it stands in the body of the block. They are equal for a
	// field and a difference.
	Begin, End int
	// References are the names in it that something else in the book declares, in the
	// order of the text.
	References []Reference
	// History are the texts that it has from chapter to chapter. It has more than one
	// where it changes.
	History []Version

	showing *Showing
}

// Reference is a name in the body of a block, and what it leads to.
type Reference struct {
	Begin, End int
	To         *Shown
}

// Version is the text that a declaration has from a chapter on.
type Version struct {
	Chapter *chapters.Chapter
	Text    string
	// Shown is what shows it in that chapter, or nil where it has changed without
	// being shown.
	Shown *Shown
}

// View is all that the blocks of the book show.
type View struct {
	// All has it in the order of the book, Blocks by block.
	All    []*Shown
	Blocks map[*chapters.Block][]*Shown

	byShowing map[*Showing]*Shown
	byName    map[string][]*Shown
}

// Chapters returns the chapters in the order of the book.
func (w *Book) Chapters() []*chapters.Chapter { return w.chapters }

// View returns what the blocks show. The stages have to compile.
func (w *Book) View() (*View, error) {
	v := &View{Blocks: map[*chapters.Block][]*Shown{}, byShowing: map[*Showing]*Shown{}, byName: map[string][]*Shown{}}
	for _, block := range w.blocks() {
		for _, s := range w.shown[block] {
			shown, err := w.look(s)
			if err != nil {
				return nil, block.Errorf("%w", err)
			}
			v.add(shown)
		}
	}
	for _, chapter := range w.chapters {
		seen := map[*Showing]bool{}
		for _, at := range slices.Backward(momentsOf(chapter)) {
			stage, err := w.compiling(at)
			if err != nil {
				return nil, err
			}
			v.addReferences(stage, seen)
		}
	}
	for _, shown := range v.All {
		var err error
		if shown.History, err = w.history(v, shown); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (w *Book) look(s *Showing) (*Shown, error) {
	shown := &Shown{Block: s.block, Dir: s.dir, Name: s.name, Package: w.source.packages[s.dir].name, Names: s.names(),
		File: s.dir + "/" + s.declaration.file.name, Form: "draft", showing: s}
	if next := s.next; next != nil && next.block.Path == s.block.Path {
		shown.Step = s.block.Chapter.Steps[s.block.After].Name
	}
	switch {
	case s.field != nil:
		shown.Form, shown.Line = "field", w.source.fset.Position(s.field.Pos()).Line
		return shown, nil
	case s.block.Difference:
		shown.Form, shown.Line = "difference", s.declaration.line
		return shown, nil
	case s.roster:
		shown.Form, shown.Line = "roster", s.declaration.line
	case s.final():
		shown.Form, shown.Line = "final", s.declaration.line
	}
	text, err := w.textOf(s, s.shownAt())
	if err != nil {
		return nil, err
	}
	if s.declaration.node == nil {
		shown.Names = nil // nobody calls a comment or imports by their name
	}
	if shown.Begin = strings.Index(s.block.Body, text); shown.Begin < 0 {
		return nil, fmt.Errorf("the block does not hold %s as it is; make weave fills it", s.name)
	}
	shown.End = shown.Begin + len(text)
	return shown, nil
}

func (v *View) add(shown *Shown) {
	v.All = append(v.All, shown)
	v.Blocks[shown.Block] = append(v.Blocks[shown.Block], shown)
	v.byShowing[shown.showing] = shown
	for _, name := range shown.Names {
		short := shortName(name)
		names := []string{short, shown.Package + "." + short}
		if receiver, _, ok := strings.Cut(name, ")."); ok {
			names[1] = strings.TrimLeft(receiver, "(*") + "." + short
		} else if shown.Form == "field" {
			names = []string{name}
		}
		for _, name := range names {
			v.byName[name] = append(v.byName[name], shown)
		}
	}
}

// addReferences adds those of what the chapter of a stage shows, but for what later steps
// have and has been seen there.
func (v *View) addReferences(s *Stage, seen map[*Showing]bool) {
	here := map[*Showing]bool{}
	defer func() { maps.Copy(seen, here) }()
	for dir, p := range s.packages {
		for _, file := range p.files {
			for _, part := range file.parts {
				here[part.showing] = true
			}
			handle := s.fset.File(file.syntax.FileStart)
			ast.Inspect(file.syntax, func(node ast.Node) bool {
				ident, ok := node.(*ast.Ident)
				if !ok {
					return true
				}
				part := s.partAt(dir, file.name, handle.Line(ident.Pos()))
				to := s.declares(p.uses[ident])
				if part == nil || to == nil || to == part.showing || part.showing.chapter() != s.number || seen[part.showing] {
					return true
				}
				from := v.byShowing[part.showing]
				if from.Begin == from.End {
					return true // a difference has some of its lines
				}
				begin := from.Begin + handle.Offset(ident.Pos()) - handle.Offset(handle.LineStart(part.line))
				from.References = append(from.References, Reference{begin, begin + len(ident.Name), v.byShowing[to]})
				return true
			})
		}
	}
}

// declares returns what shows an object as this stage has it, or nil where that is not a part of it.
func (s *Stage) declares(object types.Object) *Showing {
	if object == nil || object.Pkg() == nil || !object.Pos().IsValid() {
		return nil
	}
	p := s.packages[strings.TrimPrefix(object.Pkg().Path(), s.weave.source.module)]
	if p == nil || p.types != object.Pkg() {
		return nil
	}
	at := s.fset.Position(object.Pos())
	part := s.partAt(p.dir, path.Base(at.Filename), at.Line)
	if part == nil {
		return nil
	}
	if fields := s.weave.showings[key{p.dir, part.showing.name + "." + object.Name()}]; len(fields) > 0 && fields[0].field != nil {
		return fields[0]
	}
	return part.showing
}

// history returns the texts that a declaration has from chapter to chapter.
func (w *Book) history(v *View, shown *Shown) ([]Version, error) {
	if shown.Form == "field" || shown.Begin == shown.End {
		return nil, nil
	}
	versions, err := w.versions(shown.showing.key)
	var history []Version
	for _, one := range versions {
		then := Version{Chapter: one.chapter, Text: one.text}
		if one.latest.block.Chapter == one.chapter {
			then.Shown = v.byShowing[one.latest]
		}
		history = append(history, then)
	}
	return history, err
}

// Meant returns what a span in the prose of a chapter names, as the reader knows it
// there, or nil where it names nothing that was shown by then, or may mean several
// things.
func (v *View) Meant(chapter *chapters.Chapter, span string) *Shown {
	components := componentsOf(span)
	if components == nil {
		return nil
	}
	found := v.byName[strings.Join(components[max(len(components)-2, 0):], ".")]
	if len(found) == 0 && len(components) == 2 {
		found = slices.DeleteFunc(slices.Clone(v.byName[components[0]]), func(s *Shown) bool {
			return s.showing.declaration.field(components[1]) == nil
		})
	}
	here := slices.DeleteFunc(slices.Clone(found), func(s *Shown) bool { return s.Block.Chapter != chapter })
	if len(here) > 0 {
		found = here
	} else if len(components) == 1 && !strings.ContainsFunc(span, unicode.IsUpper) {
		return nil // a word, and no name of what is told of here
	}
	var meant *Shown
	for _, s := range found {
		if found[0].showing.key != s.showing.key {
			return nil
		}
		if s.Block.Chapter.Number <= chapter.Number {
			meant = s
		}
	}
	if len(here) == 0 && len(components) == 1 && meant != nil && strings.Contains(meant.Name, ").") {
		return nil // Complete is a method of an earlier chapter, and also what a Job is
	}
	return meant
}
