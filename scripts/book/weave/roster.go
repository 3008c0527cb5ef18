package weave

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/types"
	"slices"
	"strings"
)

// without returns the text of a declaration without the elements of lists that name a hidden object: elements of
// composite literals, statements, and fields of structs. The innermost such element goes, with the comment above it. A
// statement whose block is empty after that goes, too.
func (s *Source) without(d *Declaration, hidden map[types.Object]bool) (string, error) {
	gone := map[ast.Node]bool{}
	var path []ast.Node
	var missing error
	ast.Inspect(d.node, func(node ast.Node) bool {
		if node == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, node)
		ident, ok := node.(*ast.Ident)
		if !ok || !hidden[d.pkg.object(ident)] {
			return true
		}
		if element := d.pkg.innermostElement(path); element != nil {
			gone[element] = true
		} else {
			missing = fmt.Errorf("%s names %[2]s, which is not there yet, outside of a list: show %[2]s first, or write a draft",
				d, ident.Name)
		}
		return true
	})
	if missing != nil || len(gone) == 0 {
		return d.text + "\n", missing
	}
	for dropEmptied(d.node, gone) {
	}
	text := []byte(d.text)
	for node := range gone {
		begin, end := s.linesOf(d, node)
		clear(text[begin:end]) // to a byte that no Go has
	}
	formatted, err := format.Source(bytes.ReplaceAll(text, []byte{0}, nil))
	if err != nil {
		return "", fmt.Errorf("%s cannot be a roster: without what is not there yet it is no Go: %w", d, err)
	}
	return strings.TrimSuffix(string(formatted), "\n") + "\n", nil
}

// object returns what an identifier stands for, without its type arguments.
func (p *Package) object(ident *ast.Ident) types.Object {
	object := p.info.Uses[ident]
	if object == nil {
		object = p.info.Defs[ident]
	}
	switch generic := object.(type) {
	case *types.Func:
		return generic.Origin()
	case *types.Var:
		return generic.Origin()
	}
	return object
}

// innermostElement returns the last node of a path that is an element of a list. The values of a struct without the
// names of its fields are none: they cannot be left out one by one. Nor can the value of a field of a struct that is
// itself an element: a descriptor without its constructor describes nothing.
func (p *Package) innermostElement(path []ast.Node) ast.Node {
	for i := len(path) - 1; i > 0; i-- {
		switch parent := path[i-1].(type) {
		case *ast.CompositeLit:
			field, named := path[i].(*ast.KeyValueExpr)
			if !p.isStruct(parent) {
				if path[i] != parent.Type {
					return path[i]
				}
				break
			}
			outer, nested := path[max(i-2, 0)].(*ast.CompositeLit)
			if named && (path[i+1] == field.Key || !nested || p.isStruct(outer)) {
				return path[i]
			}
		case *ast.BlockStmt, *ast.CaseClause:
			if statement, ok := path[i].(ast.Stmt); ok {
				return statement
			}
		case *ast.CommClause:
			if path[i] != parent.Comm {
				return path[i]
			}
		case *ast.FieldList:
			if _, ok := path[i-2].(*ast.StructType); ok {
				return path[i]
			}
		}
	}
	return nil
}

// isStruct tells whether a literal is of a struct, or of a pointer to one.
func (p *Package) isStruct(literal *ast.CompositeLit) bool {
	of := p.info.TypeOf(literal)
	if pointer, is := of.Underlying().(*types.Pointer); is {
		of = pointer.Elem()
	}
	_, is := of.Underlying().(*types.Struct)
	return is
}

// dropEmptied adds statements whose body has lost all that was in it. It tells
// whether it has found one. An if with an else stays, and so does the else.
func dropEmptied(node ast.Decl, gone map[ast.Node]bool) bool {
	found := false
	elses := map[ast.Node]bool{}
	for node := range ast.Preorder(node) {
		var body *ast.BlockStmt
		switch statement := node.(type) {
		case *ast.IfStmt:
			if elses[statement.Else] = true; statement.Else == nil && !elses[statement] {
				body = statement.Body
			}
		case *ast.ForStmt:
			body = statement.Body
		case *ast.RangeStmt:
			body = statement.Body
		}
		stays := func(s ast.Stmt) bool { return !gone[s] }
		if body != nil && !gone[node] && len(body.List) > 0 && !slices.ContainsFunc(body.List, stays) {
			gone[node], found = true, true
		}
	}
	return found
}

// linesOf returns where in the text of a declaration a node stands, from the first line of the comment above it to the
// end of its last line. A node that shares its line with others is taken out with the comma that follows it.
func (s *Source) linesOf(d *Declaration, node ast.Node) (begin, end int) {
	begin, end = s.within(d, node.Pos()), s.within(d, node.End())
	lineBegin := strings.LastIndexByte(d.text[:begin], '\n') + 1
	rest := restOfLine(d.text[end:])
	after := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ","))
	if strings.TrimSpace(d.text[lineBegin:begin]) != "" || (after != "" && !strings.HasPrefix(after, "//")) {
		if comma := strings.TrimLeft(d.text[end:], " "); strings.HasPrefix(comma, ",") {
			end += strings.IndexByte(d.text[end:], ',') + 1
		}
		return begin, end
	}
	begin = lineBegin
	for begin > 0 {
		above := strings.LastIndexByte(d.text[:begin-1], '\n') + 1
		if !strings.HasPrefix(strings.TrimSpace(d.text[above:begin]), "//") || above == 0 {
			break
		}
		begin = above
	}
	return begin, min(end+len(rest)+1, len(d.text))
}
