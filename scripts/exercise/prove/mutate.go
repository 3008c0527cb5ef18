package prove

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// mutant is a function with one small change that nobody means. Not every one
// compiles.
type mutant struct {
	function weave.Function
	text     string
	// before and after are the line that differs, or the first of several, trimmed.
	before, after string
}

// survives is what a file of solutions says of it, up to the reason.
func (m mutant) survives() string { return m.before + " => " + m.after + ": " }

// mutator collects the mutants of one function.
type mutator struct {
	function weave.Function
	text     string
	base     token.Pos // of the text's first byte
	skipped  map[ast.Node]bool
	mutants  []mutant
}

const clause = "package p\n"

// mutantsOf returns the mutants of a function, in the order of its text. Logging is
// left alone: no test asks for it.
func mutantsOf(function weave.Function) ([]mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", clause+function.Text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", function.Name, err)
	}
	body := file.Decls[0].(*ast.FuncDecl).Body
	m := &mutator{function: function, text: function.Text, skipped: map[ast.Node]bool{}}
	m.base = file.FileStart + token.Pos(len(clause))
	ast.Inspect(body, func(node ast.Node) bool {
		if node == nil || m.skipped[node] {
			return false
		}
		m.mutate(node, body)
		return !m.skipped[node]
	})
	return m.mutants, nil
}

var opposites = map[token.Token][]string{
	token.LSS: {"<=", ">"}, token.LEQ: {"<", ">="}, token.GTR: {">=", "<"}, token.GEQ: {">", "<="},
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"},
	token.INC: {"--"}, token.DEC: {"++"}, token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="},
}

func (m *mutator) mutate(node ast.Node, body *ast.BlockStmt) {
	switch node := node.(type) {
	case *ast.IfStmt:
		m.negate(node.Cond)
	case *ast.ForStmt:
		if node.Cond != nil {
			m.negate(node.Cond)
		}
	case *ast.SwitchStmt:
		m.negateCases(node)
	case *ast.BinaryExpr:
		m.swap(node.OpPos, node.Op)
		if node.Op == token.LAND || node.Op == token.LOR {
			m.negateAtom(node.X)
			m.negateAtom(node.Y)
		}
	case *ast.UnaryExpr:
		if node.Op == token.NOT {
			m.edit(node.Pos(), node.X.Pos(), "")
		}
	case *ast.IncDecStmt:
		m.swap(node.TokPos, node.Tok)
	case *ast.AssignStmt:
		m.swap(node.TokPos, node.Tok)
	case *ast.BasicLit:
		if value, err := strconv.Atoi(node.Value); err == nil && node.Kind == token.INT {
			m.edit(node.Pos(), node.End(), strconv.Itoa(value+1))
			m.edit(node.Pos(), node.End(), strconv.Itoa(value-1))
		}
	case *ast.Ident:
		if other := map[string]string{"true": "false", "false": "true"}[node.Name]; other != "" {
			m.edit(node.Pos(), node.End(), other)
		}
	case *ast.CallExpr:
		m.call(node)
	case *ast.KeyValueExpr:
		m.forget(node)
	case *ast.BlockStmt:
		m.remove(node.List, node == body)
	case *ast.CaseClause:
		m.remove(node.Body, false)
	case *ast.CommClause:
		m.remove(node.Body, false)
	}
}

// swap puts other operators in the place of one.
func (m *mutator) swap(at token.Pos, operator token.Token) {
	for _, other := range opposites[operator] {
		m.edit(at, at+token.Pos(len(operator.String())), other)
	}
}

func (m *mutator) negateCases(node *ast.SwitchStmt) {
	if node.Tag != nil {
		return
	}
	for _, statement := range node.Body.List {
		for _, condition := range statement.(*ast.CaseClause).List {
			m.negate(condition)
		}
	}
}

// negate negates a condition as a whole.
func (m *mutator) negate(condition ast.Expr) {
	if binary, ok := condition.(*ast.BinaryExpr); ok && (binary.Op == token.LAND || binary.Op == token.LOR) {
		m.edit(condition.Pos(), condition.End(), "!("+m.source(condition)+")")
		return
	}
	m.negateAtom(condition)
}

// negateAtom negates a condition unless another change of it does so: that of its
// operator.
func (m *mutator) negateAtom(condition ast.Expr) {
	switch condition.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.ParenExpr:
	default:
		m.edit(condition.Pos(), condition.Pos(), "!")
	}
}

var (
	logging = regexp.MustCompile(`^(klog|log|slog|logger|utilruntime)\.`)
	// unordered are calls whose arguments can stand in any order, or are for a reader.
	unordered = regexp.MustCompile(`^(append|min|max|fmt\..*|errors\.Join|.*\b(Equal|DeepEqual))$`)
)

// call swaps arguments that stand side by side. The compiler says whether they are
// of one type.
func (m *mutator) call(call *ast.CallExpr) {
	called := m.source(call.Fun)
	if logging.MatchString(called) {
		m.skipped[call] = true
		return
	}
	if called == "make" { // how much room there is makes no difference
		for _, capacity := range call.Args[min(len(call.Args), 2):] {
			m.skipped[capacity] = true
		}
		return
	}
	if unordered.MatchString(called) {
		return
	}
	for i := range len(call.Args) - 1 {
		first, second := m.source(call.Args[i]), m.source(call.Args[i+1])
		if first != second {
			between := m.text[m.offset(call.Args[i].End()):m.offset(call.Args[i+1].Pos())]
			m.edit(call.Args[i].Pos(), call.Args[i+1].End(), second+between+first)
		}
	}
}

// forget leaves out an element of a literal, and the comma behind it.
func (m *mutator) forget(element *ast.KeyValueExpr) {
	rest := strings.TrimLeft(m.text[m.offset(element.End()):], " \t\n")
	end := element.End()
	if strings.HasPrefix(rest, ",") {
		end = m.base + token.Pos(len(m.text)-len(rest)+1)
	}
	m.edit(element.Pos(), end, "")
}

// remove leaves out each statement that others can do without. What ends a function
// stays.
func (m *mutator) remove(statements []ast.Stmt, function bool) {
	for i, statement := range statements {
		switch statement := statement.(type) {
		case *ast.AssignStmt:
			if statement.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt:
			if call, ok := statement.X.(*ast.CallExpr); ok && logging.MatchString(m.source(call.Fun)) {
				continue
			}
		case *ast.ReturnStmt:
			if function && i == len(statements)-1 {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
		default:
			continue
		}
		m.edit(statement.Pos(), statement.End(), "")
	}
}

func (m *mutator) offset(pos token.Pos) int { return int(pos - m.base) }

func (m *mutator) source(node ast.Node) string {
	return m.text[m.offset(node.Pos()):m.offset(node.End())]
}

// edit adds the mutant that has another text between two positions.
func (m *mutator) edit(begin, end token.Pos, text string) {
	from, to := m.offset(begin), m.offset(end)
	lines := strings.LastIndexByte(m.text[:from], '\n') + 1
	linesEnd := to + len(lineOf(m.text[to:]))
	changed := mutant{
		function: m.function, text: m.text[:from] + text + m.text[to:],
		before: strings.TrimSpace(lineOf(m.text[lines:linesEnd])),
		after:  strings.TrimSpace(lineOf(m.text[lines:from] + text + m.text[to:linesEnd])),
	}
	if !slices.ContainsFunc(m.mutants, func(other mutant) bool { return other.text == changed.text }) {
		m.mutants = append(m.mutants, changed)
	}
}

// lineOf returns what stands before the first line break.
func lineOf(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
