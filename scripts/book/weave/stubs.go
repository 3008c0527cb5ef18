package weave

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// stubs returns what the reader of each exercise finds: what is to be written, and what
// it uses that nothing above has shown open.
func (w *Book) stubs() (map[*chapters.Block]chapters.Text, error) {
	if w.stubTexts != nil {
		return w.stubTexts, nil
	}
	w.stubTexts = map[*chapters.Block]chapters.Text{}
	open := map[*Declaration]bool{} // by other stubs
	for _, chapter := range w.chapters {
		for _, e := range chapter.Exercises {
			s := &stub{w, e, nil, map[string]string{}, map[*Declaration]map[string]bool{}}
			for _, block := range e.Blocks {
				for _, shown := range w.shown[block] {
					if shown.declaration.node != nil {
						s.written = append(s.written, shown.declaration)
					}
				}
			}
			if e.Stub != nil && len(s.written) > 0 {
				var err error
				if w.stubTexts[e.Stub], err = s.text(open); err != nil {
					return nil, err
				}
			}
			for _, d := range s.written {
				open[d] = true
			}
		}
	}
	return w.stubTexts, nil
}

// stub is what an exercise asks for.
type stub struct {
	*Book
	exercise *chapters.Exercise
	// written are the declarations that the reader writes, imports what they import.
	written []*Declaration
	imports map[string]string
	// used are other declarations that they name, with the names.
	used map[*Declaration]map[string]bool
}

// findUsed notes what the names in a declaration stand for. How a whole package is written is the reader's.
func (s *stub) findUsed(in *Declaration) {
	node := ast.Node(in.node)
	if s.exercise.Whole() {
		if !in.isFunction() {
			return
		}
		node = in.node.(*ast.FuncDecl).Type
	}
	ast.Inspect(node, func(node ast.Node) bool {
		ident, ok := node.(*ast.Ident)
		if !ok {
			return true
		}
		object := in.pkg.object(ident)
		if _, imported := object.(*types.PkgName); imported {
			s.imports[ident.Name] = in.file.imports[ident.Name]
		}
		used := s.source.declares[object]
		if used != nil && used.of != nil {
			used = used.of
		}
		if used != nil && !slices.Contains(s.written, used) {
			if s.used[used] == nil {
				s.used[used] = map[string]bool{}
			}
			s.used[used][ident.Name] = true
		}
		return true
	})
}

// isOpen tells whether a block before an exercise shows a declaration, and nobody has to
// unfold it.
func (w *Book) isOpen(d *Declaration, e *chapters.Exercise) bool {
	return slices.ContainsFunc(w.showings[key{d.pkg.dir, d.names[0]}], func(s *Shown) bool {
		return !s.Block.Folded && s.Block.Precedes(e)
	})
}

// text returns what the block of a stub is to hold, and notes what it shows.
func (s *stub) text(open map[*Declaration]bool) (chapters.Text, error) {
	var files, parts []string
	for _, d := range s.written {
		s.findUsed(d)
		if link := linkTo(d.file.path); !slices.Contains(files, link) {
			files = append(files, link)
		}
		switch {
		case s.exercise.Whole() && !exported(d.names[0]):
		case d.isFunction():
			parts = append(parts, s.source.signature(d)+" {\n\t// yours\n}\n")
		default:
			parts = append(parts, s.source.seen(d))
		}
	}
	for _, name := range s.exercise.Stub.Without {
		if s.imports[name] == "" {
			return chapters.Text{}, fmt.Errorf("%s: the stub is to be without the import %s, which the answer does not have", s.exercise.Name, name)
		}
		delete(s.imports, name)
	}
	if imports := formatImports(s.imports, s.source.module); imports != "" {
		parts = append([]string{strings.TrimPrefix(imports, "\n")}, parts...)
	}
	own, within := s.written[0].pkg.dir, ""
	used := slices.SortedFunc(maps.Keys(s.used), (*Declaration).compare)
	ours := slices.DeleteFunc(slices.Clone(used), func(d *Declaration) bool { return d.pkg.dir != own })
	for _, d := range append(ours, used...) { // those of the exercise's own package first
		if open[d] || s.isOpen(d, s.exercise) {
			continue
		}
		open[d] = true
		if within != d.pkg.dir {
			within = d.pkg.dir
			where := "It is there already:"
			if within != own {
				where = fmt.Sprintf("Package %s has:", path.Base(within))
			}
			parts = append(parts, "// "+where+"\n")
		}
		parts = append(parts, s.source.outline(d, s.used[d], within == own))
	}
	text := &StageFile{text: packageClause + strings.Join(parts, "\n")}
	body, err := text.formatted()
	if err != nil {
		return chapters.Text{}, s.exercise.Errorf("what the reader finds: %w", err)
	}
	above := caption(strings.Join(files, ", ") + " · yours")
	return chapters.Text{Caption: above, Body: strings.TrimPrefix(string(body), packageClause+"\n")}, nil
}

func (d *Declaration) isFunction() bool {
	_, ok := d.node.(*ast.FuncDecl)
	return ok
}

// signature returns a function without its body.
func (s *Source) signature(d *Declaration) string {
	return strings.TrimRight(d.text[:s.within(d, d.node.(*ast.FuncDecl).Body.Lbrace)], " ")
}

// outline returns what somebody has to know of a declaration who uses names of it: the
// signature of a function, those constants, a type, or what other packages see of it.
func (s *Source) outline(d *Declaration, names map[string]bool, own bool) string {
	if d.isFunction() {
		return s.signature(d) + "\n"
	}
	group := d.node.(*ast.GenDecl)
	switch {
	case group.Tok == token.TYPE && !own:
		return s.seen(d)
	case group.Tok == token.TYPE:
		return d.text + "\n"
	}
	var lines []string
	for _, spec := range group.Specs {
		value := spec.(*ast.ValueSpec)
		if value.Values == nil && value.Type == nil {
			lines = nil // it goes on counting
			break
		}
		if !slices.ContainsFunc(value.Names, func(name *ast.Ident) bool { return names[name.Name] }) {
			continue
		}
		begin, end := s.linesOf(d, value)
		lines = append(lines, strings.TrimSuffix(d.text[begin:end], "\n"))
	}
	if len(group.Specs) > 1 && len(lines) > 0 {
		return fmt.Sprintf("%s (\n%s\n)\n", group.Tok, strings.Join(lines, "\n"))
	}
	return d.text + "\n"
}
