package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/solutions"
)

// Exercise is one of the book's with what the code has of it.
type Exercise struct {
	*chapters.Exercise
	// Dir is that of the package, for example kcm/controller/deployment, or "" where the reader writes a scenario.
	Dir       string
	Solutions *solutions.Solutions
	// Functions are what the reader writes, in the order of the chapter.
	Functions []Function
	// Others are the texts of the types, constants and variables of a whole package as
	// the reader finds them, by their names.
	Others map[string]string
	// Imports are the paths of what the files of a whole package import, by the names that they use.
	Imports map[string]string
	// TestFiles are those that the exercise's tests need, without directories.
	TestFiles []string
}

// Function is a function or a method that the reader writes.
type Function struct {
	Name string
	// File is the one in which it stands, without its directory.
	File string
	// Text is what the book has, comment included. Cut is without the body.
	Text, Cut string
	// Unnamed tells that the reader does not even find its name: in a whole package, that is what others do not see.
	Unnamed bool
	// Imports are the paths of what the file imports, by the names that it uses.
	Imports map[string]string
}

// NameOf returns the name of a function or a method as blocks write it.
func NameOf(f *ast.FuncDecl) string { return receiverOf(f) + f.Name.Name }

// Exercises returns those of the chapters up to the one of that number, in the order of the book.
func (w *Book) Exercises(number int) ([]*Exercise, error) {
	var all []*Exercise
	var mistakes []error
	for _, chapter := range w.Chapters {
		if chapter.Number > number {
			break
		}
		for _, found := range chapter.Exercises {
			e, err := w.exercise(found)
			mistakes = append(mistakes, err)
			all = append(all, e)
		}
	}
	return all, errors.Join(mistakes...)
}

// Chapter returns the chapter of that number, as somebody types it.
func (w *Book) Chapter(number string) (*chapters.Chapter, error) {
	chosen, err := chapters.Choose(w.Chapters, number)
	if err != nil {
		return nil, err
	}
	return chosen[0], nil
}

// Module returns the files of the module that the reader of a chapter has, with other texts for some declarations of
// exercises, by their names, and without those for which it is "".
func (w *Book) Module(number int, others func(*Exercise) map[string]string) (map[string][]byte, error) {
	exercises, err := w.Exercises(number)
	if err != nil {
		return nil, err
	}
	texts := map[key]string{}
	for _, e := range exercises {
		for name, text := range others(e) {
			texts[key{e.Dir, name}] = text
		}
	}
	s, err := w.stage(endOf(number), texts)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.contents()
}

// Texts returns the book's functions by their names.
func (e *Exercise) Texts() map[string]string {
	texts := map[string]string{}
	for _, f := range e.Functions {
		texts[f.Name] = f.Text
	}
	return texts
}

// Cut returns what the reader finds by the names of the declarations: functions
// without their bodies, and "" for what is not there.
func (e *Exercise) Cut() map[string]string {
	texts := maps.Clone(e.Others)
	for _, f := range e.Functions {
		if texts[f.Name] = f.Cut; f.Unnamed {
			texts[f.Name] = ""
		}
	}
	return texts
}

func (w *Book) exercise(found *chapters.Exercise) (*Exercise, error) {
	e := &Exercise{Exercise: found, Others: map[string]string{}, Imports: map[string]string{}}
	var err error
	if e.Solutions, err = solutions.Read(w.source.root, found.Chapter.Slug, found.Name); err != nil {
		return nil, err
	}
	for _, block := range found.Blocks {
		for _, s := range w.shown[block] {
			if err := w.addDeclaration(e, s); err != nil {
				return nil, block.Errorf("%w", err)
			}
		}
	}
	if e.Whole() {
		err = w.source.hasAllOf(e)
	}
	if err == nil && e.Dir != "" {
		e.TestFiles, err = w.source.testFiles(e.Dir, e.Tests)
	}
	if err != nil {
		return nil, e.Errorf("%w", err)
	}
	return e, nil
}

func (s *Source) hasAllOf(e *Exercise) error {
	has := e.Cut()
	for _, d := range s.packages[e.Dir].declarations {
		if _, ok := has[d.names[0]]; !ok && d.node != nil {
			return fmt.Errorf("%s is written as a whole, but the exercise does not show %s of %s", e.Name, d.names[0], e.Dir)
		}
	}
	return nil
}

func (w *Book) addDeclaration(e *Exercise, s *Shown) error {
	if !s.final() {
		return fmt.Errorf("%s is a draft here, so the reader cannot write it as an exercise: "+
			"its tests are about the finished code", s.Name)
	}
	d := s.declaration
	function, ok := d.node.(*ast.FuncDecl)
	switch {
	case s.roster || !ok && !e.Whole():
		return fmt.Errorf("%s is no function with a body that the reader could write", s.Name)
	case e.Dir != "" && e.Dir != s.Dir:
		return fmt.Errorf("%s is of another package than the rest of the exercise: its tests are in %s", s.Name, e.Dir)
	}
	e.Dir = s.Dir
	if e.Whole() {
		maps.Copy(e.Imports, d.file.imports)
	}
	if !ok {
		e.Others[d.names[0]] = w.source.seen(d)
		return nil
	}
	text := d.text + "\n"
	f := Function{Name: d.names[0], File: d.file.name, Text: text, Imports: d.file.imports,
		Unnamed: e.Whole() && !exported(d.names[0])}
	f.Cut = text[:w.source.within(d, function.Body.Lbrace)] + fmt.Sprintf("{\n\tpanic(%q)\n}\n", Unwritten+e.Name)
	e.Functions = append(e.Functions, f)
	return nil
}

// exported tells whether other packages see a declaration.
func exported(name string) bool {
	receiver, method, ok := strings.Cut(name, ").")
	if !ok {
		return ast.IsExported(name)
	}
	return ast.IsExported(method) && ast.IsExported(strings.Trim(receiver, "(*"))
}

// seen returns what other packages see of types, constants or variables: of a type that is a struct, its name.
func (s *Source) seen(d *Declaration) string {
	text := d.text + "\n"
	if !slices.ContainsFunc(d.names, exported) {
		return ""
	}
	if spec, ok := d.node.(*ast.GenDecl).Specs[0].(*ast.TypeSpec); ok {
		if structure, ok := spec.Type.(*ast.StructType); ok {
			fields := structure.Fields
			return text[:s.within(d, fields.Opening)] + "{}" + text[s.within(d, fields.Closing)+1:]
		}
	}
	return text
}

// within returns where in the text of a declaration something stands.
func (s *Source) within(d *Declaration, at token.Pos) int {
	return s.fset.Position(at).Offset - d.offset
}

// Unwritten begins what a body panics with that nobody has written yet.
const Unwritten = "yours: "

// testFiles returns the test files of a package that declare some tests, and those that declare what they use.
func (s *Source) testFiles(dir string, tests []string) ([]string, error) {
	paths, _ := filepath.Glob(filepath.Join(s.root, dir, "*_test.go")) // the pattern is well-formed
	// By what they declare; methods count as their types.
	declaredIn := map[string][]*ast.File{}
	names := map[*ast.File]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, err
		}
		names[file] = filepath.Base(path)
		for name := range file.Scope.Objects {
			declaredIn[name] = append(declaredIn[name], file)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil {
				of := strings.Trim(receiverOf(f), "(*).")
				declaredIn[of] = append(declaredIn[of], file)
			}
		}
	}
	needed := map[string]bool{}
	var need func(name string)
	need = func(name string) {
		for _, file := range declaredIn[name] {
			if !needed[names[file]] {
				needed[names[file]] = true
				for _, used := range file.Unresolved {
					need(used.Name)
				}
			}
		}
	}
	for _, test := range tests {
		if declaredIn[test] == nil {
			return nil, fmt.Errorf("%s has no test %s", dir, test)
		}
		need(test)
	}
	return slices.Sorted(maps.Keys(needed)), nil
}

func (w *Book) wrong(block *chapters.Block) (*solutions.Wrong, error) {
	exercise, name, ok := strings.Cut(block.Wrong, "/")
	if !ok {
		return nil, errors.New("say which wrong solution of which exercise the block shows, " +
			"for example: diff bounds/rounds-both-up")
	}
	all, err := solutions.Read(w.source.root, block.Chapter.Slug, exercise)
	if err != nil {
		return nil, err
	}
	return all.Find(name)
}
