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
	"path"
	"regexp"
	"slices"
	"strconv"
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
	// failed is what does not compile.
	failed map[*Showing]bool
	// toTest are the directories of the packages that [Book.TestStages] tests.
	toTest []string
}

// name is what the stage is called in messages.
func (s *Stage) name() string {
	if step := s.weave.step(s.at); step != nil {
		return fmt.Sprintf("stage %02d at %s", s.number, step.Name)
	}
	return fmt.Sprintf("stage %02d", s.number)
}

// StagePackage is a package of a stage.
type StagePackage struct {
	source *Package
	dir    string
	files  []*StageFile
	// names are those that it declares.
	names map[string]bool
	types *types.Package
	// uses are what its names stand for, when it has been checked.
	uses     map[*ast.Ident]types.Object
	checking bool
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
	showing *Showing
	text    string
	// line is the one in the file in which it begins.
	line int
}

// stage puts together what the reader has at a moment, with other texts for some
// declarations, and without those whose text is to be "".
func (w *Book) stage(at moment, others map[key]string) (*Stage, error) {
	s := &Stage{weave: w, number: int(at / steps), at: at, fset: token.NewFileSet(), packages: map[string]*StagePackage{}, failed: map[*Showing]bool{}}
	byFile := map[string]map[string][]*Part{}
	var mistakes []error
	for _, showing := range w.current(at) {
		if byFile[showing.dir] == nil {
			byFile[showing.dir] = map[string][]*Part{}
		}
		parts := byFile[showing.dir]
		name := showing.declaration.file.name
		if showing.declaration.node == nil {
			if parts[name] == nil {
				parts[name] = []*Part{} // comments and imports come with the file
			}
			continue
		}
		text, err := w.textOf(showing, at)
		if err != nil {
			s.failed[showing] = true
			mistakes = append(mistakes, showing.block.Errorf("%s: %w", s.name(), err))
			continue
		}
		if other, ok := others[showing.key]; ok {
			text = other
		}
		if text != "" {
			parts[name] = append(parts[name], &Part{showing: showing, text: text})
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(byFile)) {
		mistakes = append(mistakes, s.addPackage(dir, byFile[dir]))
	}
	return s, errors.Join(mistakes...)
}

// current returns what is in the stage of a moment, each in its latest form and
// in the order of the finished files.
func (w *Book) current(at moment) []*Showing {
	var all []*Showing
	for k := range w.showings {
		if latest := w.latest(k, at); latest != nil && latest.field == nil {
			all = append(all, latest)
		}
	}
	slices.SortFunc(all, func(a, b *Showing) int { return a.declaration.compare(b.declaration) })
	return all
}

// compare puts declarations in the order of the finished files.
func (d *Declaration) compare(other *Declaration) int {
	return cmp.Or(cmp.Compare(d.pkg.dir, other.pkg.dir), cmp.Compare(d.line, other.line), cmp.Compare(d.names[0], other.names[0]))
}

func (s *Stage) addPackage(dir string, byFile map[string][]*Part) error {
	p := &StagePackage{source: s.weave.source.packages[dir], dir: dir, names: map[string]bool{}, finished: true}
	s.packages[dir] = p
	for _, parts := range byFile {
		for _, part := range parts {
			for _, name := range part.showing.names() {
				p.names[name] = true
			}
		}
	}
	for _, d := range p.source.declarations {
		if !s.hasFinal(d) && !s.lacksWhatIsAside(d) {
			p.finished = false
		}
	}
	for _, file := range p.source.files {
		parts, joins := byFile[file.name]
		if !joins {
			continue
		}
		if err := s.addFile(p, file, p.source.declarationIn(file, "package"), parts); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of what is shown.
func (s *Showing) names() []string {
	if s.field != nil {
		return []string{s.name}
	}
	return s.declaration.names
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
		text, err := s.weave.textOf(showings[0], s.at)
		return err == nil && s.weave.has(showings[0], s.at) && text == d.text+"\n"
	}
	return s.weave.has(showings[len(showings)-1], s.at)
}

// lacksWhatIsAside tells whether nothing but chapters aside keeps a declaration
// from its final form.
func (s *Stage) lacksWhatIsAside(d *Declaration) bool {
	showings := s.weave.showings[key{d.pkg.dir, d.names[0]}]
	if len(showings) == 0 {
		return false
	}
	first, before := showings[0], s.at
	if first.block.Chapter.Aside {
		return true
	}
	for _, chapter := range s.weave.chapters {
		if !chapter.Aside {
			before = max(before, endOf(chapter.Number))
		}
	}
	now, err := s.weave.textOf(first, s.at)
	if err != nil || !first.roster || !s.weave.has(first, s.at) {
		return false
	}
	last, err := s.weave.textOf(first, before)
	return err == nil && now == last
}

// addFile writes a file: the package's comment if this is where it stands, the
// imports that the declarations need, the declarations.
func (s *Stage) addFile(p *StagePackage, file *File, doc *Declaration, parts []*Part) error {
	header := "package " + p.source.name + "\n"
	if doc != nil {
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
	if f.syntax, err = parser.ParseFile(s.fset, p.dir+"/"+file.name, f.text, parser.ParseComments); err != nil {
		return fmt.Errorf("%s: %w", s.name(), err)
	}
	p.files = append(p.files, f)
	return nil
}

// importsFor returns the imports that the text of a file needs: for each name
// before a dot that nothing declares, what this file, another of its package or
// another of kcm imports by that name. Blank imports come with the file.
func (s *Stage) importsFor(p *StagePackage, file *File, text string) (string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %s/%s: %w", s.name(), p.dir, file.name, err)
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
		if base, ok := selector.X.(*ast.Ident); ok && unresolved[base] && !p.names[base.Name] {
			if found, ok := s.lookUpImport(p, file, base.Name); ok {
				needed[base.Name] = found
			}
		}
		return true
	})
	for name, i := range file.imports {
		if i.alias == "_" {
			needed[name] = i
		}
	}
	return formatImports(needed, s.weave.source.module), nil
}

// lookUpImport returns what the file imports by a name, or else another of its package, or one of kcm.
func (s *Stage) lookUpImport(p *StagePackage, file *File, name string) (Import, bool) {
	files := append([]*File{file}, p.source.files...)
	for _, dir := range s.weave.source.dirs() {
		files = append(files, s.weave.source.packages[dir].files...)
	}
	for _, other := range files {
		if found, ok := other.imports[name]; ok {
			return found, true
		}
	}
	return Import{}, false
}

// formatImports writes imports, those of this module by themselves; formatted groups
// and sorts the rest.
func formatImports(needed map[string]Import, module string) string {
	if len(needed) == 0 {
		return ""
	}
	var others, ours string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		i := needed[name]
		line := fmt.Sprintf("\t%s %q\n", i.alias, i.path)
		if strings.HasPrefix(i.path, module) {
			ours += line
		} else {
			others += line
		}
	}
	return "\nimport (\n" + strings.TrimLeft(others+"\n"+ours, "\n") + ")\n"
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
	if p.checking {
		return nil
	}
	p.checking = true
	var mistakes []error
	var files []*ast.File
	for _, file := range p.files {
		files = append(files, file.syntax)
	}
	config := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			imported, more, err := s.imported(path)
			mistakes = append(mistakes, more...)
			return imported, err
		}),
		Error: func(err error) { mistakes = append(mistakes, s.explain(err.(types.Error))) },
	}
	p.uses = map[*ast.Ident]types.Object{}
	p.types, _ = config.Check(p.source.path, s.fset, files, &types.Info{Uses: p.uses}) // its error is the first of those above
	return mistakes
}

// imported returns a package that one of the stage imports, and what is wrong in
// it. One that comes later is empty, so that the error is about what is used.
func (s *Stage) imported(path string) (*types.Package, []error, error) {
	dir, ours := strings.CutPrefix(path, s.weave.source.module)
	finished := s.weave.source.packages[dir]
	if !ours || finished == nil {
		return s.weave.source.external[path], nil, nil // some file of the finished code imports it
	}
	p := s.packages[dir]
	if p == nil {
		empty := types.NewPackage(path, finished.name)
		empty.MarkComplete()
		return empty, nil, nil
	}
	mistakes := s.checkPackage(p)
	if p.types == nil {
		return nil, mistakes, errors.New("the packages import each other")
	}
	return p.types, mistakes, nil
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }

// explain says where in the book an error in the stage comes from, and which
// chapter comes too late.
func (s *Stage) explain(err types.Error) error {
	at := s.fset.Position(err.Pos)
	dir, name := path.Split(at.Filename)
	dir = strings.TrimSuffix(dir, "/")
	file, part := s.partAt(dir, name, at.Line)
	if part == nil {
		return fmt.Errorf("%s: %s:%d: %s", s.name(), at.Filename, at.Line, err.Msg)
	}
	s.failed[part.showing] = true
	where := part.showing.block.Position(-1)
	if part.showing.draft != "" {
		where = part.showing.block.Position(part.showing.line + at.Line - part.line)
	}
	if used, why := s.absent(dir, file, err.Msg); why != "" {
		return fmt.Errorf("%s: %s uses %s, which %s", where, part.showing.name, used, why)
	}
	return fmt.Errorf("%s: %s: %s does not compile: %s", where, s.name(), part.showing.name, err.Msg)
}

// partAt returns the declaration that stands in a line of a file.
func (s *Stage) partAt(dir, name string, line int) (file *StageFile, part *Part) {
	for _, file = range s.packages[dir].files {
		if file.name == name {
			break
		}
	}
	for _, candidate := range file.parts {
		if candidate.line <= line {
			part = candidate
		}
	}
	return file, part
}

// undefined matches what the type checker says about a name that is not there.
var undefined = regexp.MustCompile(`^undefined: (?:(\w+)\.)?(\w+)$|(?:no field or method|unknown field|missing method) (\w+)`)

// absent says which name a message of the type checker misses, and why it is not
// there; the reason is "" where the message is about something else.
func (s *Stage) absent(dir string, file *StageFile, message string) (name, why string) {
	match := undefined.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	qualifier, name, member := match[1], match[2], match[3]
	if qualifier != "" {
		dir = s.importedAs(file, qualifier)
	}
	if member != "" {
		dir, name = "", "."+member // of a type of any package
	}
	for showing := range s.weave.left[s.at] {
		if showing.dir == dir && slices.Contains(showing.names(), name) {
			return name, "code.md has for what comes after the step " + s.weave.step(s.at).Name
		}
	}
	first := s.firstShown(dir, name)
	switch chapter := int(first / steps); {
	case first == 0:
		return "", ""
	case chapter == never:
		why = "no chapter shows"
	case chapter == s.number:
		why = "is first shown after the step " + s.weave.step(s.at).Name
	default:
		why = fmt.Sprintf("is first shown in chapter %02d", chapter)
	}
	return strings.TrimPrefix(name, "."), why
}

// importedAs returns the directory of the package that a file imports by a name.
func (s *Stage) importedAs(file *StageFile, name string) string {
	for _, spec := range file.syntax.Imports {
		path, _ := strconv.Unquote(spec.Path.Value) // the file has been parsed
		dir := strings.TrimPrefix(path, s.weave.source.module)
		p := s.weave.source.packages[dir]
		if p != nil && (spec.Name == nil && p.name == name || spec.Name != nil && spec.Name.Name == name) {
			return dir
		}
	}
	return ""
}

// firstShown returns the first moment after this stage that shows something of
// that name, or 0. A name that begins with a dot is that of a method or field of
// any type in any package.
func (s *Stage) firstShown(dir, name string) moment {
	first := moment(0)
	consider := func(in string, names []string, at moment) {
		fits := func(n string) bool { return in == dir && n == name || name[0] == '.' && strings.HasSuffix(n, name) }
		if at > s.at && (first == 0 || at < first) && slices.ContainsFunc(names, fits) {
			first = at
		}
	}
	for k, showings := range s.weave.showings {
		consider(k.dir, showings[0].names(), showings[0].at())
	}
	missing, _ := s.weave.unshown()
	for _, d := range missing {
		consider(d.pkg.dir, d.names, momentOf(never, 0))
	}
	return first
}

// formatted returns the text of a file as goimports writes it.
func (f *StageFile) formatted() ([]byte, error) {
	return imports.Process(f.name, []byte(f.text), &imports.Options{FormatOnly: true, Comments: true, TabIndent: true, TabWidth: 8})
}
