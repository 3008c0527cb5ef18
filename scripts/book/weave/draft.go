package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

const packageClause = "package draft\n"

// splitDrafts gives each draft its part of a block's body. The body holds the
// declarations that the info string names, and may begin with imports.
func (s *Source) splitDrafts(block *chapters.Block, drafts []*Showing) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", packageClause+block.Body, parser.ParseComments)
	if err != nil {
		return block.Errorf("this draft is not Go: %s", atLine(block, err))
	}
	if formatted, err := format.Source([]byte(block.Body)); err != nil || string(formatted) != block.Body {
		return block.Errorf("this draft is not formatted as gofmt does it")
	}
	imports, err := s.importsOfDraft(file)
	if err != nil {
		return block.Errorf("%w", err)
	}
	for _, node := range file.Decls {
		if group, ok := node.(*ast.GenDecl); ok && group.Tok == token.IMPORT {
			continue
		}
		draft, err := draftOf(node, drafts)
		if err != nil {
			return block.Errorf("%w", err)
		}
		begin := node.Pos()
		if doc := docOf(node); doc != nil {
			begin = doc.Pos()
		}
		from, to := fset.PositionFor(begin, false), fset.PositionFor(node.End(), false)
		text := block.Body[from.Offset-len(packageClause):]
		length := to.Offset - from.Offset
		draft.draft = text[:length] + restOfLine(text[length:]) + "\n"
		draft.line, draft.imports = from.Line-2, imports // the package clause is line 1
	}
	for _, draft := range drafts {
		if draft.draft == "" {
			return block.Errorf("the block does not hold %s, which its info string names", draft.name)
		}
	}
	return nil
}

// draftOf returns the draft that a declaration is the text of.
func draftOf(node ast.Decl, drafts []*Showing) (*Showing, error) {
	names := namesOf(node)
	if len(names) == 0 {
		return nil, errors.New("the block holds a group that declares nothing")
	}
	i := slices.IndexFunc(drafts, func(s *Showing) bool { return s.goesBy(names) })
	if i < 0 {
		return nil, fmt.Errorf("the block holds %s, which its info string does not name", names[0])
	}
	if drafts[i].draft != "" {
		return nil, fmt.Errorf("the block holds %s a second time", drafts[i].name)
	}
	return drafts[i], nil
}

// importsOfDraft returns the imports that a block begins with, as importsOf does
// those of a finished file.
func (s *Source) importsOfDraft(file *ast.File) (map[string]Import, error) {
	imports := map[string]Import{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value) // the file has been parsed
		name, err := s.nameOf(path)
		if err != nil {
			return nil, fmt.Errorf("this draft imports %s: %w", path, err)
		}
		alias := ""
		if spec.Name != nil {
			name, alias = spec.Name.Name, spec.Name.Name
		}
		if name == "_" {
			name = path
		}
		imports[name] = Import{path, alias}
	}
	return imports, nil
}

// nameOf returns the name of the package with this path.
func (s *Source) nameOf(path string) (string, error) {
	if dir, ours := strings.CutPrefix(path, s.module); ours {
		if p := s.packages[dir]; p != nil {
			return p.name, nil
		}
	}
	p, err := s.load(path)
	if err != nil {
		return "", err
	}
	return p.Name(), nil
}

// goesBy tells whether the showing is of the declaration with these names.
func (s *Showing) goesBy(names []string) bool {
	return slices.Contains(names, s.name) ||
		(s.declaration != nil && slices.ContainsFunc(s.declaration.names, func(name string) bool { return slices.Contains(names, name) }))
}

// atLine turns the position in a parser's error into one in the chapter.
func atLine(block *chapters.Block, err error) string {
	line, rest, ok := strings.Cut(err.Error(), ":")
	if n, failed := strconv.Atoi(line); ok && failed == nil {
		return block.Position(n-2) + ":" + rest
	}
	return err.Error()
}
