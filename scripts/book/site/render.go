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
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	ghtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

func (s *Site) body(page *Page) ([]byte, error) {
	unaligned := extension.WithTableCellAlignMethod(extension.TableCellAlignNone)
	r := renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(&pageRenderer{site: s, page: page}, 1),
		util.Prioritized(extension.NewTableHTMLRenderer(unaligned), 500),
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
	to.Register(ast.KindHeading, between(r.openHeading, func(node ast.Node) string {
		if level := node.(*ast.Heading).Level; level > 1 {
			return fmt.Sprintf("</a></h%d>\n", level)
		}
		return "</h1>\n"
	}))
	to.Register(ast.KindParagraph, between(r.openParagraph, func(node ast.Node) string {
		if block := r.page.captions[node]; block != nil {
			return "</p>" + r.proofs(block) + "</figcaption>\n"
		}
		return "</p>\n"
	}))
	to.Register(ast.KindLink, between(r.openLink, func(ast.Node) string { return "</a>" }))
	to.Register(ast.KindFencedCodeBlock, instead(r.code))
	to.Register(ast.KindCodeBlock, instead(r.commands))
	to.Register(ast.KindCodeSpan, instead(r.span))
	to.Register(ast.KindImage, instead(r.image))
}

// between renders a node with something before it and behind it.
func between(before, behind func(ast.Node) string) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			w.WriteString(before(node))
		} else {
			w.WriteString(behind(node))
		}
		return ast.WalkContinue, nil
	}
}

// instead renders something in place of a node and all that is in it.
func instead(text func(ast.Node) (string, error)) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		words, err := text(node)
		w.WriteString(words)
		return ast.WalkSkipChildren, err
	}
}

// openHeading makes a heading a link to itself, so that its address is at hand.
func (r *pageRenderer) openHeading(node ast.Node) string {
	id, _ := node.AttributeString("id")
	if level := node.(*ast.Heading).Level; level > 1 {
		return fmt.Sprintf("<h%d id=%q><a href=\"#%s\">", level, id, id)
	}
	return fmt.Sprintf("<h1 id=%q>", id)
}

func (r *pageRenderer) openParagraph(node ast.Node) string {
	if block := r.page.captions[node]; block != nil {
		r.addLines(node, r.shown(block))
		return r.openFigure(block) + "<figcaption><p>"
	}
	strong, ok := node.FirstChild().(*ast.Emphasis)
	if ok && strong.Level == 2 && strings.HasPrefix(chapters.Plain(strong, r.page.source), "Yours") {
		return `<p class="yours">` // it tells the reader to write something
	}
	return "<p>"
}

// shown returns what a block shows of the code, or nil.
func (r *pageRenderer) shown(node ast.Node) []*weave.Shown {
	return r.site.view.Blocks[r.page.blocks[node]]
}

// shortBlock is how many lines a block may have that in print is not cut where a page ends.
const shortBlock = 16

func (r *pageRenderer) openFigure(node *ast.FencedCodeBlock) string {
	class := "code " + string(node.Language(r.page.source))
	if node.Lines().Len() <= shortBlock {
		class += " short"
	}
	figure := fmt.Sprintf("<figure class=%q", class)
	shown := r.shown(node)
	if len(shown) > 0 {
		figure += fmt.Sprintf(" id=%q", anchorOf(shown[0]))
	}
	var change []string
	for _, one := range shown {
		if len(one.History) > 1 {
			change = append(change, anchorOf(one))
		}
	}
	if len(change) > 0 {
		figure += fmt.Sprintf(" data-history=%q", strings.Join(change, " "))
	}
	return figure + ">\n"
}

// addLines adds to the files in a caption the line, where they have what the block shows as it shows it. Long names are
// broken between folders.
func (r *pageRenderer) addLines(caption ast.Node, shown []*weave.Shown) {
	for child := caption.FirstChild(); child != nil; child = child.NextSibling() {
		link, ok := child.(*ast.Link)
		if !ok {
			continue
		}
		file := path.Join(path.Dir(r.page.Path), string(link.Destination))
		words := chapters.Plain(link, r.page.source)
		if i := slices.IndexFunc(shown, func(one *weave.Shown) bool { return one.File == file && one.Line > 0 }); i >= 0 {
			// Appended to, it would write into the source.
			link.Destination = fmt.Appendf(nil, "%s#L%d", link.Destination, shown[i].Line)
			words += fmt.Sprintf(":%d", shown[i].Line)
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
func (r *pageRenderer) proofs(node *ast.FencedCodeBlock) (said string) {
	block := r.page.blocks[node]
	if block == nil || len(r.shown(node)) == 0 {
		return ""
	}
	link := func(address, words string) string {
		return fmt.Sprintf("<a href=%q>%s</a>", relative(r.page.Out, address), html.EscapeString(words))
	}
	var tests, scripts []string
	for _, e := range block.Chapter.Exercises {
		if slices.Contains(e.Blocks, block) {
			for _, test := range e.Tests {
				tests = append(tests, link(r.site.addressOfTest(block.Package, test), test))
			}
		}
	}
	for _, found := range r.site.scripts[withFragment(r.page.Out, r.page.within[node])] {
		scripts = append(scripts, link(r.site.addressOfScript(found.Path, found.Words), found.Words))
	}
	if len(tests) > 0 {
		said = "<p>checked by " + strings.Join(tests, ", ") + "</p>"
	}
	if len(scripts) > 0 {
		said += "<p>shown by " + strings.Join(scripts, "; ") + "</p>"
	}
	return said
}

func (r *pageRenderer) code(node ast.Node) (string, error) {
	block := node.(*ast.FencedCodeBlock)
	figure := ""
	if r.page.captions[block.PreviousSibling()] != block {
		figure = r.openFigure(block)
	}
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
	source := r.page.source
	text := highlight(string(block.Language(source)), string(block.Lines().Value(source)), marks)
	return fmt.Sprintf("%s<pre><code>%s</code></pre>\n</figure>\n", figure, text), nil
}

// commands are what is indented: what the reader may type.
func (r *pageRenderer) commands(node ast.Node) (string, error) {
	text := html.EscapeString(string(node.Lines().Value(r.page.source)))
	return fmt.Sprintf("<figure class=\"code\">\n<pre><code>%s</code></pre>\n</figure>\n", text), nil
}

// wordBegins is where a long name may be broken, and any name in a table, which may be narrow.
var wordBegins = regexp.MustCompile(`([a-z0-9]{3})([A-Z]|[./=_(-][^)])`)

// longName is how many letters fit into a line of prose with something beside them.
const longName = 40

// hyphens are those at the beginning of a word, with the word: -o, --kubeconfig. A line does not end with them.
var hyphens = regexp.MustCompile(`(^|[ (\[])((?:&lt;)?--?[\pL\pN]+)`)

// span leads from a name in the prose to where it is shown.
func (r *pageRenderer) span(node ast.Node) (string, error) {
	words := strings.ReplaceAll(chapters.Plain(node, r.page.source), "\n", " ")
	text := html.EscapeString(words)
	if len(words) > longName || around(node, tables.KindTable) != nil {
		text = wordBegins.ReplaceAllString(text, "$1<wbr>$2")
	}
	code := "<code>" + hyphens.ReplaceAllString(text, `$1<span class="w">$2</span>`) + "</code>"
	if r.page.Chapter != nil && around(node, ast.KindLink, ast.KindHeading) == nil {
		shown := r.site.view.Meant(r.page.Chapter, words)
		// Upstream has many a name that an earlier chapter has, too.
		if shown != nil && (r.page.within[node] != "in-upstreams-source" || shown.Block.Chapter == r.page.Chapter) {
			code = fmt.Sprintf("<a class=\"name\" href=%q>%s</a>", relative(r.page.Out, r.site.addressOf(shown)), code)
		}
	}
	return code, nil
}

func (r *pageRenderer) openLink(node ast.Node) string {
	link := node.(*ast.Link)
	words := strings.Join(strings.Fields(chapters.Plain(link, r.page.source)), " ")
	to, class := r.site.address(r.page, string(link.Destination), words), ""
	if link.FirstChild().Kind() == ast.KindImage && r.site.copied[to] != nil {
		class = "class=\"moving\" "
	}
	return fmt.Sprintf("<a %shref=\"%s\">", class, html.EscapeString(relative(r.page.Out, to)))
}

// image shows a picture in its own size, or as wide as the page.
func (r *pageRenderer) image(node ast.Node) (string, error) {
	file := path.Join(path.Dir(r.page.Path), string(node.(*ast.Image).Destination))
	address, size, err := r.site.picture(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.page.Path, err)
	}
	alt := strings.Join(strings.Fields(chapters.Plain(node, r.page.source)), " ")
	return fmt.Sprintf("<img src=%q alt=\"%s\"%s>", relative(r.page.Out, address), html.EscapeString(alt), size), nil
}
