package site

import (
	"html"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// mark is HTML around a part of a code block, which is a word, or before it, where the part is empty.
type mark struct {
	begin, end  int
	open, close string
}

// highlight returns code as HTML: its words in spans with a class where they have a colour, and its marks, which are in
// the order of the text. No span goes on over the end of a line. The text of it is exactly the code.
func highlight(language, code string, marks []mark) string {
	if language == "console" {
		return session(code)
	}
	h := highlighter{marks: marks}
	lexer := lexers.Get(language)
	if lexer == nil {
		lexer = lexers.Fallback
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(&chroma.TokeniseOptions{State: "root"}, code)
	if err != nil {
		return html.EscapeString(code)
	}
	for token := range tokens.Stdlib() {
		value, class := token.Value[:min(len(token.Value), len(code)-h.at)], classOf(token.Type)
		if token.Type != chroma.NameTag {
			h.add(class, value)
			continue
		}
		// In {a: one, b: two} the lexer takes "one, b" for a name.
		name := value[strings.LastIndex(value, " ")+1:]
		h.add("", strings.TrimSuffix(value, name))
		h.add(class, name)
	}
	return h.out.String()
}

// classOf returns the class of a token, or "" for the many that are plain text.
func classOf(t chroma.TokenType) string {
	switch {
	case t == chroma.KeywordType || t == chroma.KeywordConstant:
		return ""
	case t.InCategory(chroma.Keyword):
		return "k"
	case t.InCategory(chroma.Comment):
		return "c"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t == chroma.NameFunction, t == chroma.NameTag:
		return "f"
	case t == chroma.GenericInserted:
		return "i"
	case t == chroma.GenericDeleted:
		return "d"
	}
	return ""
}

type highlighter struct {
	out   strings.Builder
	marks []mark
	// at is how much of the code is written.
	at int
}

// add writes a token, cut where marks begin and end.
func (h *highlighter) add(class, token string) {
	end := h.at + len(token)
	for len(token) > 0 {
		length := len(token)
		var mark mark
		if len(h.marks) > 0 && h.marks[0].begin < end {
			if mark = h.marks[0]; mark.begin > h.at {
				length, mark.open, mark.close = mark.begin-h.at, "", ""
			} else {
				length = min(mark.end-mark.begin, length)
				h.marks = h.marks[1:]
			}
		}
		h.out.WriteString(mark.open)
		h.write(class, token[:length])
		h.out.WriteString(mark.close)
		h.at += length
		token = token[length:]
	}
}

// write writes text, in a span for each of its lines if it has a class.
func (h *highlighter) write(class, text string) {
	for line := range strings.Lines(text) {
		words := strings.TrimSuffix(line, "\n")
		if class == "" || words == "" {
			h.out.WriteString(html.EscapeString(line))
			continue
		}
		h.out.WriteString(`<span class="` + class + `">` + html.EscapeString(words) + "</span>" + line[len(words):])
	}
}

// typed matches a command behind its prompt, with the lines that it goes on in.
var typed = regexp.MustCompile(`(?m)^\$ (.*\\[ \t]*\n)*.*$`)

// session returns a session in a terminal: the prompt, what is typed and what is printed are different things.
func session(text string) string {
	return typed.ReplaceAllStringFunc(html.EscapeString(text), func(command string) string {
		lines := strings.ReplaceAll(strings.TrimPrefix(command, "$ "), "\n", "</b>\n<b>")
		return `<span class="p">$ </span><b>` + lines + "</b>"
	})
}
