package site

import (
	"bytes"
	"fmt"
	"html"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	ghtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// body returns what a page says as HTML.
func (s *Site) body(page *Page) ([]byte, error) {
	r := renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(&pageRenderer{site: s, page: page}, 1),
		util.Prioritized(ghtml.NewRenderer(ghtml.WithUnsafe()), 1000)))
	var out bytes.Buffer
	err := r.Render(&out, page.source, page.document)
	return out.Bytes(), err
}

// pageRenderer renders what is otherwise on a page than goldmark has it.
type pageRenderer struct {
	site *Site
	page *Page
}

func (r *pageRenderer) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindHeading, r.heading)
	to.Register(ast.KindParagraph, r.paragraph)
	to.Register(ast.KindFencedCodeBlock, r.code)
	to.Register(ast.KindCodeBlock, r.commands)
	to.Register(ast.KindCodeSpan, r.span)
	to.Register(ast.KindLink, r.link)
	to.Register(ast.KindImage, r.image)
	to.Register(ast.KindHTMLBlock, r.block)
	to.Register(tables.KindTable, r.table)
	to.Register(tables.KindTableHeader, r.tableHeader)
	to.Register(tables.KindTableRow, r.tableRow)
	to.Register(tables.KindTableCell, r.tableCell)
}

// heading is a link to itself, so that its address is at hand.
func (r *pageRenderer) heading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading)
	id, _ := h.AttributeString("id")
	switch {
	case entering && h.Level == 1:
		fmt.Fprintf(w, "<h1 id=%q>", id)
	case entering:
		fmt.Fprintf(w, "<h%d id=%q><a href=\"#%s\">", h.Level, id, id)
	case h.Level == 1:
		w.WriteString("</h1>\n")
	default:
		fmt.Fprintf(w, "</a></h%d>\n", h.Level)
	}
	return ast.WalkContinue, nil
}

func (r *pageRenderer) paragraph(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	block := r.page.captions[node]
	switch {
	case block != nil && entering:
		r.openFigure(w, block)
		w.WriteString("<figcaption><p>")
		r.addLines(node, r.shown(block))
	case block != nil:
		w.WriteString("</p>")
		r.proofs(w, block)
		w.WriteString("</figcaption>\n")
	case entering:
		w.WriteString(openingOf(node, r.page.source))
	default:
		w.WriteString("</p>\n")
	}
	return ast.WalkContinue, nil
}

// openingOf marks the paragraph that tells the reader to write something.
func openingOf(node ast.Node, source []byte) string {
	if strong, ok := node.FirstChild().(*ast.Emphasis); ok && strong.Level == 2 && strings.HasPrefix(chapters.Plain(strong, source), "Yours") {
		return `<p class="yours">`
	}
	return "<p>"
}

// shown returns what a block shows of the code, or nil.
func (r *pageRenderer) shown(node ast.Node) []*weave.Shown {
	return r.site.view.Blocks[r.page.blocks[node]]
}

// shortBlock is how many lines a block may have that in print is not cut where a page ends.
const shortBlock = 16

func (r *pageRenderer) openFigure(w util.BufWriter, node *ast.FencedCodeBlock) {
	class := string(node.Language(r.page.source))
	if node.Lines().Len() <= shortBlock {
		class += " short"
	}
	fmt.Fprintf(w, "<figure class=%q", "code "+class)
	shown := r.shown(node)
	if len(shown) > 0 {
		fmt.Fprintf(w, " id=%q", anchorOf(shown[0]))
	}
	var change []string
	for _, one := range shown {
		if len(one.History) > 1 {
			change = append(change, anchorOf(one))
		}
	}
	if len(change) > 0 {
		fmt.Fprintf(w, " data-history=%q", strings.Join(change, " "))
	}
	w.WriteString(">\n")
}

// addLines adds to the files in a caption the line, where they have what the block shows as it shows it. Long names are
// broken between folders.
func (r *pageRenderer) addLines(caption ast.Node, shown []*weave.Shown) {
	var final []*weave.Shown
	for _, one := range shown {
		if one.Line > 0 {
			final = append(final, one)
		}
	}
	for child := caption.FirstChild(); child != nil; child = child.NextSibling() {
		link, ok := child.(*ast.Link)
		if !ok {
			continue
		}
		file := path.Join(path.Dir(r.page.Path), string(link.Destination))
		words := chapters.Plain(link, r.page.source)
		if i := slices.IndexFunc(final, func(one *weave.Shown) bool { return one.File == file }); i >= 0 {
			link.Destination = fmt.Appendf(nil, "%s#L%d", link.Destination, final[i].Line) // appended to, it would write into the source
			words += fmt.Sprintf(":%d", final[i].Line)
		}
		text := ast.NewString([]byte(strings.ReplaceAll(html.EscapeString(words), "/", "/<wbr>")))
		text.SetCode(true) // it is written as it is
		link.RemoveChildren(link)
		link.AppendChild(link, text)
	}
	if len(shown) > 0 && !slices.ContainsFunc(shown, func(one *weave.Shown) bool { return !one.Final }) {
		caption.AppendChild(caption, ast.NewString([]byte(" · final")))
	}
}

// proofs says which tests check what a block shows, and which scenarios and labs show what its section says.
func (r *pageRenderer) proofs(w util.BufWriter, node *ast.FencedCodeBlock) {
	block := r.page.blocks[node]
	if block == nil || len(r.shown(node)) == 0 {
		return
	}
	link := func(address, words string) string {
		return fmt.Sprintf("<a href=%q>%s</a>", relative(r.page.Out, address), html.EscapeString(words))
	}
	var tests, scripts []string
	for _, e := range block.Chapter.Exercises {
		if slices.Contains(e.Blocks, block) {
			for _, test := range e.Tests {
				tests = append(tests, link(r.site.files.line(r.site.tests[block.Package+" "+test]), test))
			}
		}
	}
	for _, found := range r.site.scripts[withFragment(r.page.Out, r.page.within[node])] {
		scripts = append(scripts, link(r.site.files.address(found.Path, found.Words), found.Words))
	}
	if len(tests) > 0 {
		fmt.Fprintf(w, "<p>checked by %s</p>", strings.Join(tests, ", "))
	}
	if len(scripts) > 0 {
		fmt.Fprintf(w, "<p>shown by %s</p>", strings.Join(scripts, "; "))
	}
}

func (r *pageRenderer) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.FencedCodeBlock)
	if !r.page.captioned(block) {
		r.openFigure(w, block)
	}
	text := string(block.Lines().Value(source))
	var marks []mark
	for i, shown := range r.shown(block) {
		if i > 0 {
			marks = append(marks, mark{shown.Begin, shown.Begin, fmt.Sprintf("<a id=%q></a>", anchorOf(shown)), ""})
		}
		for _, reference := range shown.References {
			to := relative(r.page.Out, r.site.addressOf(reference.To))
			marks = append(marks, mark{reference.Begin, reference.End, fmt.Sprintf("<a href=%q>", to), "</a>"})
		}
	}
	fmt.Fprintf(w, "<pre><code>%s</code></pre>\n</figure>\n", highlight(string(block.Language(source)), text, marks))
	return ast.WalkSkipChildren, nil
}

// commands are what is indented: what the reader may type.
func (r *pageRenderer) commands(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		fmt.Fprintf(w, "<figure class=\"code\">\n<pre><code>%s</code></pre>\n</figure>\n", html.EscapeString(string(node.Lines().Value(source))))
	}
	return ast.WalkSkipChildren, nil
}

// wordBegins is where a long name may be broken, and any name in a table, which may be narrow.
var wordBegins = regexp.MustCompile(`([a-z0-9]{3})([A-Z]|[./=_(-][^)])`)

// longName is how many letters fit into a line of prose with something beside them.
const longName = 40

// hyphens are those at the beginning of a word, with the word: -o, --kubeconfig. A line does not end with them.
var hyphens = regexp.MustCompile(`(^|[ (\[])((?:&lt;)?--?[\pL\pN]+)`)

// span leads from a name in the prose to where it is shown.
func (r *pageRenderer) span(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	words := strings.ReplaceAll(chapters.Plain(node, source), "\n", " ")
	text := html.EscapeString(words)
	if len(words) > longName || inside(node, tables.KindTable) {
		text = wordBegins.ReplaceAllString(text, "$1<wbr>$2")
	}
	code := "<code>" + hyphens.ReplaceAllString(text, `$1<span class="w">$2</span>`) + "</code>"
	if r.page.Chapter != nil && !inside(node, ast.KindLink, ast.KindHeading) {
		shown := r.site.view.Meant(r.page.Chapter, words)
		// Upstream has many a name that an earlier chapter has, too.
		if shown != nil && (r.page.within[node] != "in-upstreams-source" || shown.Block.Chapter == r.page.Chapter) {
			code = fmt.Sprintf("<a class=\"name\" href=%q>%s</a>", relative(r.page.Out, r.site.addressOf(shown)), code)
		}
	}
	w.WriteString(code)
	return ast.WalkSkipChildren, nil
}

// inside tells whether a node is a part of one of some kind.
func inside(node ast.Node, kinds ...ast.NodeKind) bool {
	for ; node != nil; node = node.Parent() {
		if slices.Contains(kinds, node.Kind()) {
			return true
		}
	}
	return false
}

func (r *pageRenderer) link(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		w.WriteString("</a>")
		return ast.WalkContinue, nil
	}
	link := node.(*ast.Link)
	words := strings.Join(strings.Fields(chapters.Plain(link, source)), " ")
	to := r.site.address(r.page, string(link.Destination), words)
	address := relative(r.page.Out, to)
	if _, moves := r.site.files.moving[to]; moves && link.FirstChild().Kind() == ast.KindImage {
		fmt.Fprintf(w, "<a class=\"moving\" href=\"%s\">", html.EscapeString(address))
		return ast.WalkContinue, nil
	}
	fmt.Fprintf(w, "<a href=\"%s\">", html.EscapeString(address))
	return ast.WalkContinue, nil
}

// image shows a picture in its own size, or as wide as the page.
func (r *pageRenderer) image(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	file := path.Join(path.Dir(r.page.Path), string(node.(*ast.Image).Destination))
	address, size, err := r.site.files.picture(file)
	if err != nil {
		return ast.WalkStop, fmt.Errorf("%s: %w", r.page.Path, err)
	}
	alt := strings.Join(strings.Fields(chapters.Plain(node, source)), " ")
	fmt.Fprintf(w, "<img src=%q alt=\"%s\"%s>", relative(r.page.Out, address), html.EscapeString(alt), size)
	return ast.WalkSkipChildren, nil
}

var comment = regexp.MustCompile(`(?s)<!--.*?-->\n?`)

// block leaves out comments, which are for the tools.
func (r *pageRenderer) block(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		block := node.(*ast.HTMLBlock)
		text := block.Lines().Value(source)
		if block.HasClosure() {
			text = append(text, block.ClosureLine.Value(source)...)
		}
		w.Write(comment.ReplaceAll(text, nil))
	}
	return ast.WalkContinue, nil
}

// table says how many columns it has: one of many is shown line by line on a narrow screen. Then it is for a screen
// reader a table all the same, by its roles.
func (r *pageRenderer) table(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		columns := len(node.(*tables.Table).Alignments)
		if columns > 3 {
			w.WriteString("<table role=\"table\" class=\"wide\">\n")
		} else {
			w.WriteString("<table>\n")
		}
	} else {
		w.WriteString("</tbody>\n</table>\n")
	}
	return ast.WalkContinue, nil
}

func (r *pageRenderer) tableHeader(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if strings.TrimSpace(chapters.Plain(node, source)) == "" {
		if entering {
			w.WriteString("<tbody>\n")
		}
		return ast.WalkSkipChildren, nil
	}
	if entering {
		w.WriteString("<thead role=\"rowgroup\">\n<tr role=\"row\">")
	} else {
		w.WriteString("</tr>\n</thead>\n<tbody role=\"rowgroup\">\n")
	}
	return ast.WalkContinue, nil
}

func (r *pageRenderer) tableRow(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		w.WriteString("<tr role=\"row\">")
	} else {
		w.WriteString("</tr>\n")
	}
	return ast.WalkContinue, nil
}

func (r *pageRenderer) tableCell(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "td"
	header := node.Parent().Kind() == tables.KindTableHeader && node.HasChildren()
	if header {
		tag = "th"
	}
	if !entering {
		fmt.Fprintf(w, "</%s>", tag)
		return ast.WalkContinue, nil
	}
	fmt.Fprintf(w, "<%s", tag)
	if header {
		w.WriteString(` role="columnheader" scope="col"`)
	} else {
		fmt.Fprintf(w, " role=\"cell\" data-label=\"%s\"", html.EscapeString(columnOf(node, source)))
	}
	w.WriteString(">")
	return ast.WalkContinue, nil
}

// columnOf returns what stands above a cell.
func columnOf(cell ast.Node, source []byte) string {
	at := 0
	for before := cell.PreviousSibling(); before != nil; before = before.PreviousSibling() {
		at++
	}
	above := cell.Parent().Parent().FirstChild().FirstChild()
	for ; at > 0 && above != nil; at-- {
		above = above.NextSibling()
	}
	if above == nil {
		return ""
	}
	return strings.TrimSpace(chapters.Plain(above, source))
}
