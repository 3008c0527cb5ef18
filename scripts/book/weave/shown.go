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

// Reference is a name in the body of a block, and what it leads to.
type Reference struct {
	Begin, End int
	To         *Shown
}

// View is all that the blocks of the book show.
type View struct {
	// All has it in the order of the book, Blocks by block.
	All    []*Shown
	Blocks map[*chapters.Block][]*Shown
	byName map[string][]*Shown // by what the prose can call it
}

// View returns what the blocks show. The stages have to compile.
func (w *Book) View() (*View, error) {
	v := &View{Blocks: w.shown, byName: map[string][]*Shown{}}
	for _, block := range w.blocks() {
		for _, s := range w.shown[block] {
			if err := w.look(s); err != nil {
				return nil, block.Errorf("%w", err)
			}
			v.All = append(v.All, s)
			for _, name := range s.Names {
				for _, called := range s.declaration.pkg.called(name) {
					v.byName[called] = append(v.byName[called], s)
				}
			}
		}
	}
	for _, chapter := range w.Chapters {
		seen := map[*Shown]bool{}
		for _, at := range slices.Backward(momentsOf(chapter)) {
			stage, err := w.compiling(at)
			if err != nil {
				return nil, err
			}
			v.addReferences(stage, seen)
		}
	}
	return v, nil
}

// look finds out what is for other forms of the book.
func (w *Book) look(s *Shown) error {
	if s.next != nil && s.next.Block.Path == s.Block.Path {
		s.Step = s.Block.Chapter.Steps[s.Block.After]
	}
	text, differs, err := w.shownText(s)
	if err != nil {
		return err
	}
	if s.Differs = differs; s.final() && !differs {
		s.Line, s.Final = s.declaration.line, !s.roster && s.declaration.of == nil
	}
	if s.declaration.of != nil {
		return nil
	}
	if s.Begin = strings.Index(s.Block.Body, text); s.Begin < 0 {
		return fmt.Errorf("the block does not hold %s as it is; make weave fills it", s.Name)
	}
	s.End = s.Begin + len(text)
	s.References = nil
	s.History, err = w.versions(s.key)
	return err
}

// addReferences adds those of what the chapter of a stage shows, but for what later steps
// have and has been seen there.
func (v *View) addReferences(s *Stage, seen map[*Shown]bool) {
	here := map[*Shown]bool{}
	defer func() { maps.Copy(seen, here) }()
	for dir, p := range s.packages {
		for _, file := range p.files {
			for _, part := range file.parts {
				here[part.showing] = true
			}
			handle := s.fset.File(file.syntax.FileStart)
			for node := range ast.Preorder(file.syntax) {
				ident, ok := node.(*ast.Ident)
				if !ok {
					continue
				}
				part, to := s.partAt(dir, file.name, handle.Line(ident.Pos())), s.declares(p.uses[ident])
				if part == nil || to == nil || to == part.showing || part.showing.chapter() != s.number || seen[part.showing] {
					continue
				}
				from := part.showing
				if from.Differs || from.End-from.Begin != len(part.text) {
					continue // its text is not that of the stage
				}
				begin := from.Begin + handle.Offset(ident.Pos()) - handle.Offset(handle.LineStart(part.line))
				from.References = append(from.References, Reference{begin, begin + len(ident.Name), to})
			}
		}
	}
}

// declares returns what shows an object as this stage has it, or nil where that is not a part of it.
func (s *Stage) declares(object types.Object) *Shown {
	if object == nil || object.Pkg() == nil || !object.Pos().IsValid() {
		return nil
	}
	p := s.packages[strings.TrimPrefix(object.Pkg().Path(), s.weave.source.module)]
	if p == nil || p.types != object.Pkg() {
		return nil
	}
	at := s.fset.Position(object.Pos())
	part := s.partAt(p.source.dir, path.Base(at.Filename), at.Line)
	if part == nil {
		return nil
	}
	if fields := s.weave.showings[key{p.source.dir, part.showing.Name + "." + object.Name()}]; len(fields) > 0 {
		return fields[0]
	}
	return part.showing
}

// Meant returns what a span in the prose of a chapter names, as the reader knows it there, or nil where it names
// nothing that was shown by then, or may mean several things.
func (v *View) Meant(chapter *chapters.Chapter, span string) *Shown {
	components := componentsOf(span)
	if components == nil {
		return nil
	}
	found := v.byName[lastTwo(components)]
	if len(found) == 0 && len(components) == 2 {
		found = slices.DeleteFunc(slices.Clone(v.byName[components[0]]), func(s *Shown) bool {
			field := s.declaration.pkg.byName[strings.Join(components, ".")]
			return field == nil || field.of != s.declaration
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
		if found[0].key != s.key {
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
