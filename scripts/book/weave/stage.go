package weave

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/imports"
)

// Stage is the code as far as a chapter has brought it.
type Stage struct {
	weave    *Book
	number   int
	at       moment
	fset     *token.FileSet
	packages map[string]*StagePackage // by directory
	// mistakes are what the type checker says, each once.
	mistakes []error
	// toTest are the directories of the packages that [Book.TestStages] tests.
	toTest []string
}

// name is what the stage is called in messages.
func (s *Stage) name() string {
	if step := s.weave.step(s.at); step != "" {
		return fmt.Sprintf("stage %02d at %s", s.number, step)
	}
	return fmt.Sprintf("stage %02d", s.number)
}

// StagePackage is a package of a stage.
type StagePackage struct {
	source *Package
	files  []*StageFile
	types  *types.Package
	// uses are what its names stand for, when it has been checked.
	uses map[*ast.Ident]types.Object
	// finished tells whether everything in it has its final form, as far as its tests see it.
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
	showing *Shown
	text    string
	// line is the one in the file in which it begins.
	line int
}

// stage puts together what the reader has at a moment, with other texts for some
// declarations, and without those whose text is to be "".
func (w *Book) stage(at moment, others map[key]string) (*Stage, error) {
	s := &Stage{weave: w, number: int(at / steps), at: at, fset: token.NewFileSet(), packages: map[string]*StagePackage{}}
	byFile := map[*File][]*Part{}
	var mistakes []error
	for _, showing := range w.current(at) {
		var parts []*Part // none of a comment or of imports, which come with their file
		if showing.declaration.node != nil {
			text, err := w.textOf(showing, at)
			if err != nil {
				mistakes = append(mistakes, showing.Block.Errorf("%s: %w", s.name(), err))
				continue
			}
			if other, ok := others[showing.key]; ok {
				text = other
			}
			if text == "" {
				continue
			}
			parts = []*Part{{showing: showing, text: text}}
		}
		byFile[showing.declaration.file] = append(byFile[showing.declaration.file], parts...)
	}
	for _, dir := range w.source.dirs() {
		mistakes = append(mistakes, s.addPackage(dir, byFile))
	}
	return s, errors.Join(mistakes...)
}

// current returns what is in the stage of a moment, each in its latest form and in the order of the finished files.
func (w *Book) current(at moment) []*Shown {
	var all []*Shown
	for k := range w.showings {
		if latest := w.latest(k, at); latest != nil && latest.declaration.of == nil {
			all = append(all, latest)
		}
	}
	slices.SortFunc(all, func(a, b *Shown) int { return a.declaration.compare(b.declaration) })
	return all
}

// compare puts declarations in the order of the finished files.
func (d *Declaration) compare(other *Declaration) int {
	return cmp.Or(cmp.Compare(d.pkg.dir, other.pkg.dir), cmp.Compare(d.line, other.line),
		cmp.Compare(d.names[0], other.names[0]))
}

// addPackage adds what the stage has of a package, if it has anything.
func (s *Stage) addPackage(dir string, byFile map[*File][]*Part) error {
	p := &StagePackage{source: s.weave.source.packages[dir]}
	for _, file := range p.source.files {
		if parts, joins := byFile[file]; joins {
			s.packages[dir] = p
			if err := s.addFile(p, file, parts); err != nil {
				return err
			}
		}
	}
	goesOn := func(d *Declaration) bool { return !s.hasFinal(d) }
	p.finished = !slices.ContainsFunc(p.source.declarations, goesOn)
	return nil
}

// hasFinal tells whether a declaration has in this stage the form that it has in
// the finished code, but for what chapters aside add to it.
func (s *Stage) hasFinal(d *Declaration) bool {
	k := key{d.pkg.dir, d.names[0]}
	if all := s.weave.showings[k]; len(all) > 0 && all[0].Block.Chapter.Aside {
		return true
	}
	latest := s.weave.latest(k, s.at)
	if latest == nil || !latest.roster {
		return latest != nil && latest.next == nil
	}
	last := s.at
	for _, chapter := range s.weave.Chapters {
		if !chapter.Aside {
			last = max(last, endOf(chapter.Number))
		}
	}
	now, err := s.weave.textOf(latest, s.at)
	then, failed := s.weave.textOf(latest, last)
	return err == nil && failed == nil && now == then
}

// addFile writes a file: the package's comment if this is where it stands, the
// imports that the declarations need, the declarations.
func (s *Stage) addFile(p *StagePackage, file *File, parts []*Part) error {
	header := "package " + p.source.name + "\n"
	if doc := p.source.byName["package"]; doc != nil && doc.file == file {
		header = doc.text + "\n"
	}
	var body strings.Builder
	for _, part := range parts {
		body.WriteString("\n" + part.text)
	}
	importText, err := s.importsFor(p, file, header+body.String())
	if err != nil {
		return err
	}
	head := header + importText
	line := strings.Count(head, "\n") + 1
	for _, part := range parts {
		part.line = line + 1
		line += strings.Count(part.text, "\n") + 1
	}
	f := &StageFile{name: file.name, parts: parts, text: head + body.String()}
	if f.syntax, err = parser.ParseFile(s.fset, file.path, f.text, parser.ParseComments); err != nil {
		return fmt.Errorf("%s: %w", s.name(), err)
	}
	p.files = append(p.files, f)
	return nil
}

// importsFor returns the imports that the text of a file needs: for each name before a dot that nothing declares, what
// this file, another of its package or another of kcm imports by that name. Blank imports come with the file.
func (s *Stage) importsFor(p *StagePackage, file *File, text string) (string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", s.name(), file.path, err)
	}
	needed := map[string]string{}
	for node := range ast.Preorder(syntax) {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if base, ok := selector.X.(*ast.Ident); ok && base.Obj == nil && p.source.byName[base.Name] == nil {
				if found := s.lookUpImport(p, file, base.Name); found != "" {
					needed[base.Name] = found
				}
			}
		}
	}
	for name, path := range file.imports {
		if strings.HasPrefix(name, blank) {
			needed[name] = path
		}
	}
	return formatImports(needed, s.weave.source.module), nil
}

// lookUpImport returns what the file imports by a name, or else another of its package, or one of kcm.
func (s *Stage) lookUpImport(p *StagePackage, file *File, name string) string {
	files := append([]*File{file}, p.source.files...)
	for _, dir := range s.weave.source.dirs() {
		files = append(files, s.weave.source.packages[dir].files...)
	}
	for _, other := range files {
		if found := other.imports[name]; found != "" {
			return found
		}
	}
	return ""
}

// formatImports writes imports, those of this module by themselves; formatted groups and sorts the rest.
func formatImports(needed map[string]string, module string) string {
	if len(needed) == 0 {
		return ""
	}
	var others, ours string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		path := needed[name]
		line := fmt.Sprintf("\t%s %q\n", AliasOf(name, path), path)
		if strings.HasPrefix(path, module) {
			ours += line
		} else {
			others += line
		}
	}
	return "\nimport (\n" + strings.TrimLeft(others+"\n"+ours, "\n") + ")\n"
}

// check type-checks the stage. Its errors are about chapters, not about files.
func (s *Stage) check() error {
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		s.checkPackage(s.packages[dir])
	}
	return errors.Join(s.mistakes...)
}

func (s *Stage) checkPackage(p *StagePackage) {
	if p.uses != nil {
		return
	}
	p.uses = map[*ast.Ident]types.Object{}
	var files []*ast.File
	for _, file := range p.files {
		files = append(files, file.syntax)
	}
	config := types.Config{Importer: s, Error: func(err error) {
		mistake := s.explain(err.(types.Error))
		if !slices.ContainsFunc(s.mistakes, func(said error) bool { return said.Error() == mistake.Error() }) {
			s.mistakes = append(s.mistakes, mistake)
		}
	}}
	// Its error is the first of those above.
	p.types, _ = config.Check(p.source.path, s.fset, files, &types.Info{Uses: p.uses})
}

// Import returns a package that one of the stage imports. One of ours that comes later is empty, so that the error is
// about what is used of it; the others are imported by some file of the finished code.
func (s *Stage) Import(path string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(path, s.weave.source.module)
	finished, p := s.weave.source.packages[dir], s.packages[dir]
	if !ours || finished == nil {
		return s.weave.source.external[path], nil
	}
	if p == nil {
		empty := types.NewPackage(path, finished.name)
		empty.MarkComplete()
		return empty, nil
	}
	if s.checkPackage(p); p.types == nil {
		return nil, errors.New("the packages import each other")
	}
	return p.types, nil
}

// explain says where in the book an error in the stage comes from, and which chapter comes too late.
func (s *Stage) explain(err types.Error) error {
	at := s.fset.Position(err.Pos)
	dir, name := path.Split(at.Filename)
	dir = strings.TrimSuffix(dir, "/")
	part := s.partAt(dir, name, at.Line)
	if part == nil {
		return fmt.Errorf("%s: %s:%d: %s", s.name(), at.Filename, at.Line, err.Msg)
	}
	where := part.showing.Block.Position(-1)
	if part.showing.draft != "" {
		where = part.showing.Block.Position(part.showing.line + at.Line - part.line)
	}
	if used, why := s.absent(dir, err.Msg); why != "" {
		return fmt.Errorf("%s: %s uses %s, which %s", where, part.showing.Name, used, why)
	}
	return fmt.Errorf("%s: %s: %s does not compile: %s", where, s.name(), part.showing.Name, err.Msg)
}

// partAt returns the declaration that stands in a line of a file, or nil.
func (s *Stage) partAt(dir, name string, line int) (part *Part) {
	for _, file := range s.packages[dir].files {
		for _, candidate := range file.parts {
			if file.name == name && candidate.line <= line {
				part = candidate
			}
		}
	}
	return part
}

// undefined matches what the type checker says about a name that is not there.
var undefined = regexp.MustCompile(`^undefined: (?:(\w+)\.)?(\w+)$|` +
	`(?:no field or method|unknown field|missing method) (\w+)`)

// absent says which name a message of the type checker misses, and why it is not
// there; the reason is "" where the message is about something else.
func (s *Stage) absent(dir, message string) (name, why string) {
	match := undefined.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	qualifier, name, member := match[1], match[2], match[3]
	first := moment(math.MaxInt)
	for _, p := range s.weave.source.packages {
		for known, d := range p.byName {
			at := momentOf(never, 0)
			if showings := s.weave.showings[key{p.dir, d.names[0]}]; len(showings) > 0 {
				at = showings[0].at()
			} else if d.of != nil {
				continue // it comes with its struct
			}
			ofPackage := known == name && (qualifier == p.name || qualifier == "" && dir == p.dir)
			ofType := member != "" && strings.HasSuffix(known, "."+member) // of any package
			if (ofPackage || ofType) && at > s.at {
				first = min(first, at)
			}
		}
	}
	name = cmp.Or(member, name)
	switch chapter := int(first / steps); {
	case first == math.MaxInt:
		return "", ""
	case chapter == never:
		return name, "no chapter shows"
	case chapter == s.number:
		return name, "is first shown after the step " + s.weave.step(s.at)
	default:
		return name, fmt.Sprintf("is first shown in chapter %02d", chapter)
	}
}

// formatted returns the text of a file as goimports writes it.
func (f *StageFile) formatted() ([]byte, error) {
	as := &imports.Options{FormatOnly: true, Comments: true, TabIndent: true, TabWidth: 8}
	return imports.Process(f.name, []byte(f.text), as)
}
