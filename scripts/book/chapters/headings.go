package chapters

import (
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// Anchor returns the anchor that code hosts give a heading: in lower case, with
// hyphens for spaces, without punctuation.
func Anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, strings.TrimSpace(heading))
}

// Plain returns the words of a node without their markup.
func Plain(node ast.Node, source []byte) string {
	var words strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if leaf, ok := child.(*ast.Text); ok {
			words.Write(leaf.Segment.Value(source))
			if leaf.SoftLineBreak() {
				words.WriteByte(' ')
			}
		} else {
			words.WriteString(Plain(child, source))
		}
	}
	return words.String()
}
