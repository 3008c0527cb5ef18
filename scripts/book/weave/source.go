package weave

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Source is the finished code.
type Source struct {
	root     string
	module   string // its path with a slash behind it
	fset     *token.FileSet
	packages map[string]*Package // by directory, for example kcm/app
	// declares has what declares an object.
	declares map[types.Object]*Declaration
	// external are the packages from elsewhere that the code imports, by path.
	external map[string]*types.Package
}

// Package is a package of the finished code.
type Package struct {
	dir          string
	path         string
	name         string
	info         *types.Info
	files        []*File
	declarations []*Declaration
	byName       map[string]*Declaration
}

// File is a Go file of a package, without its tests.
type File struct {
	name    string
	path    string            // below the root
	imports map[string]string // see [ImportsOf]
}

func (f *File) at(line int) chapters.Place { return chapters.Place{Path: f.path, Line: line} }

// Declaration is one that stands in a file by itself: a function, a method, or a group of constants, variables or
// types. A package's comment and its blank imports count as declarations, too, by the names "package" and "import",
// and so do the fields of a struct, by names like health.election.
type Declaration struct {
	pkg   *Package
	file  *File
	names []string
	// text is the declaration with the comment above it.
	text string
	line int
	// node is nil for comments, imports and fields. offset is that of text in the file.
	node    ast.Decl
	offset  int
	objects []types.Object
	// of is what a field is a part of, and nil for others.
	of        *Declaration
	hasFields bool
}

func (d *Declaration) String() string { return d.pkg.dir + " " + d.names[0] }

// loadSource loads and type-checks the packages under kcm/, and the programs that labs have.
func loadSource(root string) (*Source, error) {
	s := &Source{root: root, fset: token.NewFileSet(), packages: map[string]*Package{},
		declares: map[types.Object]*Declaration{}, external: map[string]*types.Package{}}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedModule,
		Dir:  root,
		Fset: s.fset,
	}, append(programs(root), "./kcm/...")...)
	if err != nil {
		return nil, fmt.Errorf("load kcm: %w", err)
	}
	var failures, builds []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			if err.Pos == "" {
				builds = append(builds, errors.New(err.Msg)) // go list says once more what the type checker says
			} else {
				failures = append(failures, errors.New(strings.TrimPrefix(err.Error(), root+"/")))
			}
		}
	}
	if len(failures) == 0 {
		failures = builds
	}
	if len(failures) == 0 {
		for _, p := range loaded {
			s.addExternal(p.Types)
			failures = append(failures, s.addPackage(p))
		}
	}
	return s, errors.Join(failures...)
}

func programs(root string) []string {
	files, _ := filepath.Glob(filepath.Join(root, "labs/[0-9][0-9]-*/*/*.go")) // the pattern is well-formed
	var dirs []string
	for _, file := range files {
		dirs = append(dirs, "."+strings.TrimPrefix(filepath.Dir(file), root))
	}
	return slices.Compact(dirs)
}

func (s *Source) addExternal(p *types.Package) {
	for _, imported := range p.Imports() {
		if s.external[imported.Path()] == nil {
			s.external[imported.Path()] = imported
			s.addExternal(imported)
		}
	}
}

func (s *Source) addPackage(loaded *packages.Package) error {
	s.module = loaded.Module.Path + "/"
	dir := strings.TrimPrefix(loaded.PkgPath, s.module)
	p := &Package{dir: dir, path: loaded.PkgPath, name: loaded.Name, info: loaded.TypesInfo,
		byName: map[string]*Declaration{}}
	s.packages[dir] = p
	var mistakes []error
	for _, syntax := range loaded.Syntax {
		path := s.fset.Position(syntax.Package).Filename
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		file := &File{name, dir + "/" + name, ImportsOf(syntax)}
		p.files = append(p.files, file)
		mistakes = append(mistakes, s.addDeclarations(p, file, syntax, string(text)))
	}
	slices.SortFunc(p.files, func(a, b *File) int { return cmp.Compare(a.name, b.name) })
	return errors.Join(mistakes...)
}

// ImportsOf returns the paths of what a file imports, by the names that it uses.
func ImportsOf(syntax *ast.File) map[string]string {
	paths := map[string]string{}
	for _, spec := range syntax.Imports {
		name, path := Imported(spec)
		paths[name] = path
	}
	return paths
}

// Imported returns the name by which a file uses an import, and its path. A blank import goes by a name of its own.
func Imported(spec *ast.ImportSpec) (name, path string) {
	path, _ = strconv.Unquote(spec.Path.Value) // the file has been parsed
	switch {
	case spec.Name == nil:
		return lastOf(path), path
	case spec.Name.Name == "_":
		return blank + path, path
	}
	return spec.Name.Name, path
}

const blank = "_ "

// AliasOf returns what a file has to write before a path to import it by a name, or "".
func AliasOf(name, path string) string {
	if alias, _, _ := strings.Cut(name, " "); alias != lastOf(path) {
		return alias
	}
	return ""
}

// lastOf returns what an import path ends with, but for a version.
func lastOf(imported string) string {
	base := path.Base(imported)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(imported))
	}
	return base
}

func (s *Source) addDeclarations(p *Package, file *File, syntax *ast.File, text string) error {
	var mistakes []error
	groups := syntax.Comments // that have to belong to something
	declare := func(node ast.Decl, begin, end token.Pos, names ...string) {
		mistakes = append(mistakes, s.declare(p, file, text, node, begin, end, names...))
	}
	if syntax.Doc != nil {
		declare(nil, syntax.Doc.Pos(), syntax.Name.End(), "package")
	}
	for _, node := range syntax.Decls {
		group, ok := node.(*ast.GenDecl)
		if !ok || group.Tok != token.IMPORT {
			declare(node, BeginOf(node), node.End(), NamesOf(node)...)
			continue
		}
		if slices.ContainsFunc(group.Specs, func(spec ast.Spec) bool {
			name := spec.(*ast.ImportSpec).Name
			return name != nil && name.Name == "_"
		}) {
			declare(nil, group.Pos(), group.End(), "import") // its blank ones are for the reader to see
		}
		groups = slices.DeleteFunc(slices.Clone(groups), func(c *ast.CommentGroup) bool {
			return group.Pos() <= c.Pos() && c.Pos() <= group.End()
		})
	}
	for _, comment := range groups {
		at := s.fset.Position(comment.Pos())
		belongs := slices.ContainsFunc(p.declarations, func(d *Declaration) bool {
			return d.file == file && d.offset <= at.Offset && at.Offset < d.offset+len(d.text)
		})
		// What is for staticcheck alone no reader has to see.
		if !belongs && !strings.HasPrefix(comment.List[0].Text, "//lint:file-ignore ") {
			mistakes = append(mistakes, file.at(at.Line).Errorf(
				"this comment belongs to no declaration, so no chapter shows it: join it to one or take it out"))
		}
	}
	return errors.Join(mistakes...)
}

// declare adds the declaration that stands between two positions.
func (s *Source) declare(
	p *Package, file *File, text string, node ast.Decl, begin, end token.Pos, names ...string,
) error {
	text, from := cut(s.fset, text, begin, end)
	if len(names) == 0 {
		return file.at(from.Line).Errorf("this declares nothing that a chapter could name: take it out")
	}
	d := &Declaration{pkg: p, file: file, names: names, node: node, line: from.Line, offset: from.Offset, text: text}
	for _, ident := range identsOf(node) {
		d.objects = append(d.objects, p.info.Defs[ident])
		s.declares[p.info.Defs[ident]] = d
	}
	p.declarations = append(p.declarations, d)
	for _, name := range names {
		if before := p.byName[name]; before != nil {
			return file.at(d.line).Errorf("a second %s; the first is in %s: a chapter could not tell them apart",
				name, before.file.name)
		}
		p.byName[name] = d
	}
	s.addFields(d)
	return nil
}

// addFields adds the fields of structs, and the methods of interfaces, to what a package names.
func (s *Source) addFields(d *Declaration) {
	group, ok := d.node.(*ast.GenDecl)
	if !ok || group.Tok != token.TYPE {
		return
	}
	for _, spec := range group.Specs {
		spec := spec.(*ast.TypeSpec)
		var fields *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			continue
		}
		d.hasFields = true
		for _, field := range fields.List {
			begin, end := s.linesOf(d, field)
			f := &Declaration{pkg: d.pkg, file: d.file, text: strings.TrimSuffix(d.text[begin:end], "\n"), of: d}
			f.line = s.fset.Position(field.Pos()).Line
			for _, ident := range d.pkg.fieldNames(field) {
				f.names = append(f.names, spec.Name.Name+"."+ident.Name)
				f.objects = append(f.objects, d.pkg.info.Defs[ident])
				s.declares[d.pkg.info.Defs[ident]] = f
				d.pkg.byName[spec.Name.Name+"."+ident.Name] = f
			}
		}
	}
}

// fieldNames returns the names of a field: those that it is given, or that of the type that it embeds.
func (p *Package) fieldNames(field *ast.Field) []*ast.Ident {
	names := field.Names
	for node := range ast.Preorder(field.Type) {
		if ident, ok := node.(*ast.Ident); ok && field.Names == nil && p.info.Defs[ident] != nil {
			names = append(names, ident)
		}
	}
	return names
}

func restOfLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// cut returns what stands in a text between two positions, to the end of the line, and where that is.
func cut(fset *token.FileSet, text string, begin, end token.Pos) (string, token.Position) {
	from, to := fset.PositionFor(begin, false), fset.PositionFor(end, false).Offset
	return text[from.Offset:to] + restOfLine(text[to:]), from
}

// BeginOf returns where a declaration begins with the comment above it.
func BeginOf(node ast.Decl) token.Pos {
	var doc *ast.CommentGroup
	switch node := node.(type) {
	case *ast.FuncDecl:
		doc = node.Doc
	case *ast.GenDecl:
		doc = node.Doc
	}
	if doc != nil {
		return doc.Pos()
	}
	return node.Pos()
}

// NamesOf returns the names by which a chapter can show a declaration. A blank
// one counts only where there is no other.
func NamesOf(node ast.Decl) []string {
	if f, ok := node.(*ast.FuncDecl); ok {
		return []string{NameOf(f)}
	}
	var names, blanks []string
	for _, ident := range identsOf(node) {
		if ident.Name == "_" {
			blanks = []string{"_"}
		} else {
			names = append(names, ident.Name)
		}
	}
	if len(names) == 0 {
		return blanks
	}
	return names
}

// receiverOf returns what stands before the name of a method, as in (*T).name.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[") // of a type with parameters
	return fmt.Sprintf("(%s).", receiver)
}

// identsOf returns the names that a declaration gives to its package, or to a method.
func identsOf(node ast.Decl) []*ast.Ident {
	var idents []*ast.Ident
	switch node := node.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{node.Name}
	case *ast.GenDecl:
		for _, spec := range node.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				idents = append(idents, spec.Name)
			case *ast.ValueSpec:
				idents = append(idents, spec.Names...)
			}
		}
	}
	return idents
}

func (s *Source) dirs() []string { return slices.Sorted(maps.Keys(s.packages)) }
