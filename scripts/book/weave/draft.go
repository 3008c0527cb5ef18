package weave

import (
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

const packageClause = "package draft\n"

// splitDrafts gives each draft its part of a block's body, which holds the declarations that the info string names.
func splitDrafts(block *chapters.Block, drafts []*Shown) error {
	// The package clause stands in the line of the fence, so lines are those of the page.
	fset, source := token.NewFileSet(), strings.Repeat("\n", block.Line-1)+packageClause+block.Body
	file, err := parser.ParseFile(fset, block.Path, source, parser.ParseComments)
	if err != nil {
		return block.Errorf("this draft is not Go: %w", err)
	}
	if formatted, err := format.Source([]byte(block.Body)); err != nil || string(formatted) != block.Body {
		return block.Errorf("this draft is not formatted as gofmt does it")
	}
	for _, node := range file.Decls {
		names := NamesOf(node)
		if len(names) == 0 {
			return block.Errorf("the block holds a group that declares nothing, or imports, which come by themselves")
		}
		i := slices.IndexFunc(drafts, func(s *Shown) bool {
			return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(s.declaration.names, name) })
		})
		if i < 0 {
			return block.Errorf("the block holds %s, which its info string does not name", names[0])
		}
		draft := drafts[i]
		if draft.draft != "" {
			return block.Errorf("the block holds %s a second time", draft.Name)
		}
		text, at := cut(fset, source, BeginOf(node), node.End())
		draft.draft, draft.line = text+"\n", at.Line-block.Line-1
	}
	for _, draft := range drafts {
		if draft.draft == "" {
			return block.Errorf("the block does not hold %s, which its info string names", draft.Name)
		}
	}
	return nil
}
