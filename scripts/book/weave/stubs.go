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
	open := map[part]bool{} // by other stubs
	for _, chapter := range w.Chapters {
		for _, e := range chapter.Exercises {
			s := &stub{w, e, nil, map[string]string{}, map[part]bool{}, map[*Declaration]bool{}}
			for _, block := range e.Blocks {
				for _, shown := range w.shown[block] {
					if shown.declaration.node != nil {
						s.written = append(s.written, shown.declaration)
						open[part{shown.declaration, all}] = true
					}
				}
			}
			if e.Stub != nil && len(s.written) > 0 {
				var err error
				if w.stubTexts[e.Stub], err = s.text(open); err != nil {
					return nil, err
				}
			}
		}
	}
	return w.stubTexts, nil
}

// part is a name of a declaration, or all of it.
type part struct {
	of   *Declaration
	name string
}

const all = ""

// stub is what an exercise asks for.
type stub struct {
	*Book
	exercise *chapters.Exercise
	// written are the declarations that the reader writes, imports what they import.
	written []*Declaration
	imports map[string]string
	// used are names of other declarations, and filled structs of which a value is made: the reader decides about each
	// field.
	used   map[part]bool
	filled map[*Declaration]bool
}

// findUsed notes what a declaration uses. How a whole package is written is the reader's: of that only what the stub
// shows counts, and of a value no more than the packages that it needs.
func (s *stub) findUsed(in *Declaration) {
	node, value := ast.Node(in.node), false
	if s.exercise.Whole() {
		if !exported(in.names[0]) {
			return
		}
		switch shown := in.node.(type) {
		case *ast.FuncDecl:
			node = shown.Type
		case *ast.GenDecl:
			if value = shown.Tok == token.VAR; !value {
				return
			}
		}
	}
	for node := range ast.Preorder(node) {
		switch node := node.(type) {
		case *ast.CompositeLit:
			if len(node.Elts) > 0 {
				s.fill(in.pkg.info.TypeOf(node))
			}
		case *ast.FuncDecl:
			for result := range in.pkg.info.Defs[node.Name].(*types.Func).Signature().Results().Variables() {
				s.fill(result.Type())
			}
		case *ast.Ident:
			if _, imported := in.pkg.object(node).(*types.PkgName); imported {
				s.imports[node.Name] = in.file.imports[node.Name]
			} else if !value {
				s.use(in, node)
			}
		}
	}
}

func (s *stub) fill(value types.Type) {
	if named, ok := value.(*types.Named); ok {
		s.filled[s.source.declares[named.Obj()]] = true
	}
}

// use notes what a name in a declaration stands for. With a field, its struct is used.
func (s *stub) use(in *Declaration, ident *ast.Ident) {
	used := s.source.declares[in.pkg.object(ident)]
	if used != nil && used.of != nil {
		used = used.of
		s.used[part{used, used.names[0]}] = true
	}
	if used != nil {
		s.used[part{used, ident.Name}] = true
	}
}

// isOpen tells whether a block of a lesson shows a declaration before an exercise, and nobody has to unfold it.
func (s *stub) isOpen(d *Declaration) bool {
	return slices.ContainsFunc(s.showings[key{d.pkg.dir, d.names[0]}], func(shown *Shown) bool {
		return !shown.Block.Folded && !shown.Block.Page.Code() && shown.Block.Precedes(s.exercise)
	})
}

// text returns what the block of a stub is to hold, and notes what it shows.
func (s *stub) text(open map[part]bool) (chapters.Text, error) {
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
			return chapters.Text{}, fmt.Errorf("%s: the stub is to be without the import %s, which the answer does not have",
				s.exercise.Name, name)
		}
		delete(s.imports, name)
	}
	if imports := formatImports(s.imports, s.source.module); imports != "" {
		parts = append([]string{strings.TrimPrefix(imports, "\n")}, parts...)
	}
	text := &StageFile{text: packageClause + strings.Join(append(parts, s.given(open)...), "\n")}
	body, err := text.formatted()
	if err != nil {
		return chapters.Text{}, s.exercise.Errorf("what the reader finds: %w", err)
	}
	above := caption(strings.Join(files, ", ") + " · yours")
	return chapters.Text{Caption: above, Body: strings.TrimPrefix(string(body), packageClause+"\n")}, nil
}

// given returns what is used and was not open before, that of the exercise's own package first.
func (s *stub) given(open map[part]bool) (parts []string) {
	var used []*Declaration
	for p := range s.used {
		if !open[p] && !open[part{p.of, all}] && !slices.Contains(used, p.of) && !s.isOpen(p.of) {
			used = append(used, p.of)
		}
	}
	own, within := s.written[0].pkg.dir, ""
	slices.SortFunc(used, (*Declaration).compare)
	ours := slices.DeleteFunc(slices.Clone(used), func(d *Declaration) bool { return d.pkg.dir != own })
	others := slices.DeleteFunc(used, func(d *Declaration) bool { return d.pkg.dir == own })
	for _, d := range append(ours, others...) {
		if within != d.pkg.dir {
			within = d.pkg.dir
			where := "It is there already:"
			if within != own {
				where = fmt.Sprintf("Package %s has:", path.Base(within))
			}
			parts = append(parts, "// "+where+"\n")
		}
		outline := s.outline(d, within == own)
		parts = append(parts, outline)
		open[part{d, all}] = outline == d.text+"\n"
	}
	maps.Copy(open, s.used)
	return parts
}

func (d *Declaration) isFunction() bool {
	_, ok := d.node.(*ast.FuncDecl)
	return ok
}

func (s *Source) signature(d *Declaration) string {
	return strings.TrimRight(d.text[:s.within(d, d.node.(*ast.FuncDecl).Body.Lbrace)], " ")
}

// outline returns what somebody has to know of a declaration who uses names of it: the signature of a function, those
// constants, a type, of a struct that is not filled those fields, or what other packages see of it.
func (s *stub) outline(d *Declaration, own bool) string {
	if d.isFunction() {
		return s.source.signature(d) + "\n"
	}
	group, used := d.node.(*ast.GenDecl), ""
	if group.Tok == token.TYPE {
		return s.outlineType(d, group, own)
	}
	for _, spec := range group.Specs {
		value := spec.(*ast.ValueSpec)
		if value.Values == nil && value.Type == nil || len(group.Specs) == 1 {
			return d.text + "\n" // it goes on counting, or is one
		}
		used += s.usedLines(d, value, value.Names)
	}
	return fmt.Sprintf("%s (\n%s)\n", group.Tok, used)
}

func (s *stub) outlineType(d *Declaration, group *ast.GenDecl, own bool) string {
	structure, ok := group.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok || own && s.filled[d] || len(group.Specs) > 1 {
		return d.text + "\n"
	}
	used := ""
	for _, field := range structure.Fields.List {
		used += s.usedLines(d, field, field.Names) // an embedded one has no name: its own fields are used
	}
	text := d.text[:s.source.within(d, structure.Fields.Opening)] + "{\n" + used + "\t// …\n}\n"
	switch spared := strings.Count(d.text, "\n") - strings.Count(text, "\n"); {
	case !own && used == "":
		return s.source.seen(d)
	case own && spared < 2: // it is not worth a gap
		return d.text + "\n"
	}
	return text
}

// usedLines returns the lines of a part of a declaration if one of its names is used, or if it has none.
func (s *stub) usedLines(d *Declaration, node ast.Node, names []*ast.Ident) string {
	if names != nil && !slices.ContainsFunc(names, func(name *ast.Ident) bool { return s.used[part{d, name.Name}] }) {
		return ""
	}
	begin, end := s.source.linesOf(d, node)
	return strings.TrimSuffix(d.text[begin:end], "\n") + "\n"
}
