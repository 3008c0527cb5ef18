package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book"
)

const packageClause = "package draft\n"

// splitDrafts gives each draft its part of a block's body. The body holds the
// declarations that the info string names, and may begin with imports.
func splitDrafts(block *book.Block, drafts []*Showing) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", packageClause+block.Body, parser.ParseComments)
	if err != nil {
		return block.Errorf("this draft is not Go: %s", atLine(block, err))
	}
	if formatted, err := format.Source([]byte(block.Body)); err != nil || string(formatted) != block.Body {
		return block.Errorf("this draft is not formatted as gofmt does it")
	}
	imports := map[string]Import{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value) // the file has been parsed
		name, alias := path[strings.LastIndexByte(path, '/')+1:], ""
		if spec.Name != nil {
			name, alias = spec.Name.Name, spec.Name.Name
		}
		imports[name] = Import{path, alias}
	}
	found := map[*Showing]bool{}
	for _, node := range file.Decls {
		if group, ok := node.(*ast.GenDecl); ok && group.Tok == token.IMPORT {
			continue
		}
		i := slices.IndexFunc(drafts, func(s *Showing) bool { return s.goesBy(namesOf(node)) })
		if i < 0 {
			return block.Errorf("the block holds %s, which its info string does not name", namesOf(node)[0])
		}
		begin := node.Pos()
		if doc := docOf(node); doc != nil {
			begin = doc.Pos()
		}
		from, to := fset.Position(begin), fset.Position(node.End())
		from.Offset -= len(packageClause)
		to.Offset -= len(packageClause)
		s := drafts[i]
		s.draft = block.Body[from.Offset:to.Offset] + restOfLine(block.Body[to.Offset:]) + "\n"
		s.line, s.imports = from.Line-2, imports // the package clause is line 1
		found[s] = true
	}
	for _, s := range drafts {
		if !found[s] {
			return block.Errorf("the block does not hold %s, which its info string names", s.name)
		}
	}
	return nil
}

// goesBy tells whether the showing is of the declaration with these names.
func (s *Showing) goesBy(names []string) bool {
	return slices.Contains(names, s.name) ||
		(s.declaration != nil && slices.ContainsFunc(s.declaration.names, func(name string) bool { return slices.Contains(names, name) }))
}

// atLine turns the position in a parser's error into one in the chapter.
func atLine(block *book.Block, err error) string {
	line, rest, ok := strings.Cut(err.Error(), ":")
	if n, failed := strconv.Atoi(line); ok && failed == nil {
		return block.Position(n-2) + ":" + rest
	}
	return err.Error()
}
