package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Stage is the code as far as a chapter has brought it.
type Stage struct {
	weave    *Weave
	number   int
	fset     *token.FileSet
	packages map[string]*StagePackage // by directory
}

// StagePackage is a package of a stage.
type StagePackage struct {
	source *Package
	dir    string
	files  []*StageFile
	types  *types.Package
	// finished tells whether everything in it has its final form.
	finished bool
}

// StageFile is a file of a stage.
type StageFile struct {
	name string
	// parts are its declarations in order. The text of the package's comment
	// and of a group of imports are not among them.
	parts  []*Part
	text   string
	syntax *ast.File
}

// Part is a declaration in a file of a stage.
type Part struct {
	showing *Showing
	text    string
	// line is the one in the file in which it begins.
	line int
}

// stage puts together what the reader of a chapter has.
func (w *Weave) stage(number int) (*Stage, error) {
	s := &Stage{weave: w, number: number, fset: token.NewFileSet(), packages: map[string]*StagePackage{}}
	current := map[key]*Showing{}
	for k, showings := range w.showings {
		if showings[0].field != nil {
			continue
		}
		for _, showing := range showings {
			if showing.chapter() <= number {
				current[k] = showing
			}
		}
		if r, retired := w.retired[k]; retired && r.Chapter.Number <= number {
			delete(current, k)
		}
	}
	byFile := map[string]map[string][]*Part{}
	var mistakes []error
	for _, k := range slices.SortedFunc(maps.Keys(current), func(a, b key) int { return w.compare(current[a], current[b]) }) {
		showing := current[k]
		if showing.declaration != nil && showing.declaration.node == nil {
			continue // comments and imports come with the file
		}
		text, err := w.textOf(showing, number)
		if err != nil {
			mistakes = append(mistakes, showing.block.Errorf("stage %02d: %w", number, err))
			continue
		}
		name := "draft.go"
		if showing.declaration != nil {
			name = showing.declaration.file.name
		}
		if byFile[k.dir] == nil {
			byFile[k.dir] = map[string][]*Part{}
		}
		byFile[k.dir][name] = append(byFile[k.dir][name], &Part{showing: showing, text: text})
	}
	for _, dir := range slices.Sorted(maps.Keys(byFile)) {
		mistakes = append(mistakes, s.addPackage(dir, byFile[dir]))
	}
	return s, errors.Join(mistakes...)
}

// compare puts declarations in the order of the finished file.
func (w *Weave) compare(a, b *Showing) int {
	line := func(s *Showing) int {
		if s.declaration == nil {
			return never
		}
		return s.declaration.line
	}
	return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(line(a), line(b)), cmp.Compare(a.name, b.name))
}

func (s *Stage) addPackage(dir string, byFile map[string][]*Part) error {
	p := &StagePackage{source: s.weave.source.packages[dir], dir: dir, finished: true}
	s.packages[dir] = p
	if p.source == nil {
		return fmt.Errorf("%s: a package of which the finished code has nothing", dir)
	}
	for _, d := range p.source.declarations {
		if !s.hasFinal(d) {
			p.finished = false
		}
	}
	for _, file := range p.source.files {
		doc := p.source.declarationIn(file, "package")
		if len(byFile[file.name]) == 0 && (doc == nil || file.imports != nil && len(file.imports) > 0) {
			continue
		}
		if err := s.addFile(p, file.name, file, doc, byFile[file.name]); err != nil {
			return err
		}
	}
	if drafts := byFile["draft.go"]; len(drafts) > 0 {
		return s.addFile(p, "draft.go", &File{name: "draft.go"}, nil, drafts)
	}
	return nil
}

func (p *Package) declarationIn(file *File, name string) *Declaration {
	if d := p.byName[name]; d != nil && d.file == file {
		return d
	}
	return nil
}

// hasFinal tells whether a declaration has in this stage the form that it has in
// the finished code.
func (s *Stage) hasFinal(d *Declaration) bool {
	showings := s.weave.showings[key{d.pkg.dir, d.names[0]}]
	if len(showings) == 0 {
		return false
	}
	if showings[0].roster {
		text, err := s.weave.textOf(showings[0], s.number)
		return err == nil && showings[0].chapter() <= s.number && text == d.text+"\n"
	}
	return showings[len(showings)-1].chapter() <= s.number
}

// addFile writes a file: the package's comment if this is where it stands, the
// imports that the declarations need, the declarations.
func (s *Stage) addFile(p *StagePackage, name string, file *File, doc *Declaration, parts []*Part) error {
	header := "package " + p.source.name + "\n"
	if doc != nil {
		header = doc.text + "\n"
	}
	var body strings.Builder
	for _, part := range parts {
		body.WriteString("\n" + part.text)
	}
	imports, err := s.importsFor(p, file, parts, header+body.String())
	if err != nil {
		return err
	}
	head := header + imports
	line := strings.Count(head, "\n") + 1
	for _, part := range parts {
		part.line = line + 1
		line += strings.Count(part.text, "\n") + 1
	}
	f := &StageFile{name: name, parts: parts, text: head + body.String()}
	path := p.dir + "/" + name
	if f.syntax, err = parser.ParseFile(s.fset, path, f.text, parser.ParseComments); err != nil {
		return fmt.Errorf("stage %02d: %w", s.number, err)
	}
	p.files = append(p.files, f)
	return nil
}

// importsFor returns the imports that the text of a file needs: for each name
// before a dot that nothing declares, what this file, another of its package or
// another of kcm imports by that name. Blank imports come with the file.
func (s *Stage) importsFor(p *StagePackage, file *File, parts []*Part, text string) (string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return "", fmt.Errorf("stage %02d: %s/%s: %w", s.number, p.dir, file.name, err)
	}
	needed := map[string]Import{}
	unresolved := map[*ast.Ident]bool{}
	for _, ident := range syntax.Unresolved {
		unresolved[ident] = true
	}
	ast.Inspect(syntax, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if base, ok := selector.X.(*ast.Ident); ok && unresolved[base] && p.source.byName[base.Name] == nil {
			if found, ok := s.lookUpImport(p, file, parts, base.Name); ok {
				needed[base.Name] = found
			}
		}
		return true
	})
	for name, blank := range file.imports {
		if blank.alias == "_" {
			needed[name] = blank
		}
	}
	return formatImports(needed, p.source.path[:len(p.source.path)-len(p.dir)]), nil
}

func (s *Stage) lookUpImport(p *StagePackage, file *File, parts []*Part, name string) (Import, bool) {
	for _, part := range parts {
		if found, ok := part.showing.imports[name]; ok {
			return found, true
		}
	}
	if found, ok := file.imports[name]; ok {
		return found, true
	}
	others := slices.Clone(p.source.files)
	for _, dir := range s.weave.source.dirs() {
		others = append(others, s.weave.source.packages[dir].files...)
	}
	for _, other := range others {
		if found, ok := other.imports[name]; ok {
			return found, true
		}
	}
	return Import{}, false
}

// formatImports writes imports in three groups: the standard library, other
// modules, this one.
func formatImports(imports map[string]Import, module string) string {
	if len(imports) == 0 {
		return ""
	}
	groups := make([][]string, 3)
	for _, i := range slices.SortedFunc(maps.Values(imports), func(a, b Import) int { return strings.Compare(a.path, b.path) }) {
		group := 1
		if first, _, _ := strings.Cut(i.path, "/"); !strings.Contains(first, ".") {
			group = 0
		} else if strings.HasPrefix(i.path, module) {
			group = 2
		}
		groups[group] = append(groups[group], strings.TrimSpace(fmt.Sprintf("%s %q", i.alias, i.path)))
	}
	var text []string
	for _, group := range groups {
		if len(group) > 0 {
			text = append(text, "\t"+strings.Join(group, "\n\t")+"\n")
		}
	}
	return "\nimport (\n" + strings.Join(text, "\n") + ")\n"
}

// check type-checks the stage. Its errors are about chapters, not about files.
func (s *Stage) check() error {
	var mistakes []error
	seen := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		for _, err := range s.checkPackage(s.packages[dir]) {
			if !seen[err.Error()] {
				seen[err.Error()] = true
				mistakes = append(mistakes, err)
			}
		}
	}
	return errors.Join(mistakes...)
}

func (s *Stage) checkPackage(p *StagePackage) []error {
	if p.types != nil {
		return nil
	}
	var mistakes []error
	var files []*ast.File
	for _, file := range p.files {
		files = append(files, file.syntax)
	}
	config := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			dir := strings.TrimPrefix(path, strings.TrimSuffix(p.source.path, p.dir))
			if imported := s.packages[dir]; imported != nil {
				mistakes = append(mistakes, s.checkPackage(imported)...)
				return imported.types, nil
			}
			if external := s.weave.source.external[path]; external != nil {
				return external, nil
			}
			return nil, fmt.Errorf("no package of the finished code imports %s", path)
		}),
		Error: func(err error) { mistakes = append(mistakes, s.explain(err.(types.Error))) },
	}
	p.types, _ = config.Check(p.source.path, s.fset, files, nil) // its error is the first of those above
	return mistakes
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }

// explain says where in the book an error in the stage comes from, and which
// chapter comes too late.
func (s *Stage) explain(err types.Error) error {
	at := s.fset.Position(err.Pos)
	dir, name := at.Filename[:strings.LastIndexByte(at.Filename, '/')], at.Filename[strings.LastIndexByte(at.Filename, '/')+1:]
	p := s.packages[dir]
	i := slices.IndexFunc(p.files, func(f *StageFile) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("stage %02d: %w", s.number, err)
	}
	file := p.files[i]
	var part *Part
	for _, candidate := range file.parts {
		if candidate.line <= at.Line {
			part = candidate
		}
	}
	if part == nil {
		return fmt.Errorf("stage %02d: %s:%d: %s", s.number, at.Filename, at.Line, err.Msg)
	}
	where := fmt.Sprintf("%s:%d", part.showing.block.Chapter.Path, part.showing.block.Line)
	if part.showing.draft != "" {
		where = part.showing.block.Position(part.showing.line + at.Line - part.line)
	}
	if missing := identAt(file.syntax, err.Pos); missing != "" {
		if showing := s.later(dir, missing); showing != nil {
			return fmt.Errorf("%s: %s uses %s, which is first shown in chapter %02d", where, part.showing.name, missing, showing.chapter())
		}
		if d := s.neverShown(dir, missing); d != nil {
			return fmt.Errorf("%s: %s uses %s, which no chapter shows", where, part.showing.name, missing)
		}
	}
	return fmt.Errorf("%s: stage %02d: %s does not compile: %s", where, s.number, part.showing.name, err.Msg)
}

// identAt returns the name that stands at a position, for a selector the
// selected one.
func identAt(file *ast.File, pos token.Pos) string {
	name := ""
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			if node.Pos() == pos || node.Sel.Pos() == pos {
				name = node.Sel.Name
			}
		case *ast.Ident:
			if node.Pos() == pos && name == "" {
				name = node.Name
			}
		}
		return true
	})
	return name
}

// later returns the showing of something of that name that comes after this
// stage, in this package or else in any.
func (s *Stage) later(dir, name string) *Showing {
	var found *Showing
	for k, showings := range s.weave.showings {
		if k.name[strings.LastIndexByte(k.name, '.')+1:] != name || showings[0].chapter() <= s.number {
			continue
		}
		if found == nil || (k.dir == dir && found.dir != dir) {
			found = showings[0]
		}
	}
	return found
}

func (s *Stage) neverShown(dir, name string) *Declaration {
	missing, _ := s.weave.unshown()
	for _, d := range missing {
		for _, known := range d.names {
			if known[strings.LastIndexByte(known, '.')+1:] == name {
				return d
			}
		}
	}
	return nil
}

// formatted returns the text of a file as gofmt writes it.
func (f *StageFile) formatted() ([]byte, error) { return format.Source([]byte(f.text)) }
