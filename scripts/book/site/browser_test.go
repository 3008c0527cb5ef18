package site

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sayMissing says once what the machine does not have, for that go test is silent about what it skips.
var sayMissing = sync.OnceFunc(func() {
	fmt.Println("the pages are not tested in a browser: that needs Chromium and npm (on Debian: apt-get install chromium npm)")
})

// needsBrowser skips a test that takes longer than others, but for `make prove-site`, and where the machine has no browser.
func needsBrowser(t *testing.T) {
	t.Helper()
	if os.Getenv("BROWSER") == "" {
		t.Skip("make prove-site runs this")
	}
	if exec.Command("../../chromium", "--version").Run() != nil {
		sayMissing()
		t.Skip("needs Chromium")
	}
}

// patience is how long a machine that is busy may take for what takes another one a moment.
const patience = 5 * time.Minute

// closeBrowser ends the browser, if there is one.
var closeBrowser = func() {}

// browser is a Chromium without a window, one for all tests.
var browser = sync.OnceValues(func() (ctx context.Context, err error) {
	allocator, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // Chromium refuses to run as root otherwise; it shows our own pages
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))...)
	closeBrowser = end
	ctx, _ = chromedp.NewContext(allocator)
	return ctx, chromedp.Do(ctx)
})

// tab is a page in the browser, and what it has complained of.
type tab struct {
	t   *testing.T
	ctx context.Context
	dir string

	mu         sync.Mutex
	complaints []string
}

// open opens a tab. What its pages write to the console, what goes wrong in them and what they ask of a host fails the
// test at its end.
func open(t *testing.T) *tab {
	t.Helper()
	needsBrowser(t)
	parent, err := browser()
	require.NoError(t, err, "start Chromium")
	opened := &tab{t: t, dir: siteOf(t).dir}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithListener(opened.listen))
	t.Cleanup(cancel)
	opened.ctx = ctx
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	// A tab that has no focus is not drawn, and hears no key.
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		opened.mu.Lock()
		defer opened.mu.Unlock()
		assert.Empty(t, opened.complaints)
	})
	return opened
}

func (p *tab) listen(event any) {
	complaint := ""
	switch event := event.(type) {
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console.%s %s", event.Type, event.Args[0].Value)
	case *runtime.EventExceptionThrown:
		complaint = fmt.Sprint(event.ExceptionDetails.Text, event.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		complaint = event.Entry.Text
	case *network.EventRequestWillBeSent:
		ours := func(prefix string) bool { return strings.HasPrefix(event.Request.URL, prefix) }
		if url := event.Request.URL; !slices.ContainsFunc([]string{"file://" + p.dir, "data:", "http://127.0.0.1:"}, ours) {
			complaint = "asked for " + url
		}
	}
	if complaint != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complaints = append(p.complaints, complaint)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// visit opens a page of the site from its file.
func (p *tab) visit(name string) {
	p.t.Helper()
	p.do(chromedp.Navigate("file://" + filepath.Join(p.dir, name)))
}

// emulate shows the page as on a screen or in print, in light or dark.
func (p *tab) emulate(media, scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Media: media, Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	require.NoError(p.t, err)
}

// evaluate returns what an expression in the page says, when it is no promise any more.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return value
}

// thin empties all blocks of code but the first few of each language. The others have the same colours, and axe-core takes
// minutes for them.
func (p *tab) thin() {
	p.t.Helper()
	evaluate[any](p, `(() => { const seen = {};
		for (const figure of document.querySelectorAll("figure.code")) {
			seen[figure.className] = (seen[figure.className] || 0) + 1;
			if (seen[figure.className] > 4) figure.querySelector("pre").replaceChildren();
		} })()`)
}

// unfold opens all that is folded, and waits until the page has seen that.
func (p *tab) unfold() {
	p.t.Helper()
	evaluate[any](p, `document.querySelectorAll("details").forEach((folded) => { folded.open = true; });
		new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))`)
}

// until waits until an expression in the page is true.
func (p *tab) until(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience)))
	require.NoError(p.t, err, expression)
}

// pagesToRead are those that the book consists of, but for the one that has them all, and some that show a file or a list.
func pagesToRead(t *testing.T) []string {
	names := []string{"source/kcm/app/run.go.html", "source/kcm/app/index.html",
		"source/labs/06-replication/lab.txtar.html", "source/labs/controlplane/README.md.html"}
	for name := range siteOf(t).pages {
		if !strings.Contains(name, "/") && name != "book.html" { // that has what the others have
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func axe(t *testing.T) string {
	t.Helper()
	needsBrowser(t)
	script := filepath.Join("axe", "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(script); err != nil {
		if _, err := exec.LookPath("npm"); err != nil {
			sayMissing()
			t.Skip("needs npm to install axe-core")
		}
		install := exec.Command("npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error")
		install.Dir = "axe"
		out, err := install.CombinedOutput()
		require.NoError(t, err, "install axe-core: %s", out)
	}
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	return string(text)
}

// runAxe says what axe-core finds against WCAG 2.2 AA, a line for each element.
const runAxe = `axe.run({runOnly: %s, resultTypes: ["violations"], selectors: false, preload: false, iframes: false}).then((result) =>
	result.violations.flatMap((rule) => rule.nodes.map((node) => rule.id + ": " + node.html.slice(0, 200) + " " + node.failureSummary)).slice(0, 10))`

func TestAxeFindsNothingOnAnyPageInLightDarkAndPrint(t *testing.T) {
	script := axe(t)
	all, colours := `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`, `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
	for _, name := range pagesToRead(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			p.visit(name)
			evaluate[any](p, script+"; 0")
			p.thin()
			p.unfold()
			for _, mode := range []struct{ media, scheme, rules string }{
				{"screen", "light", all},
				{"screen", "dark", colours}, // dark differs from light in nothing else
				{"print", "light", all},
			} {
				p.emulate(mode.media, mode.scheme)
				assert.Empty(t, evaluate[[]string](p, fmt.Sprintf(runAxe, mode.rules)), "%s, %s", mode.media, mode.scheme)
			}
		})
	}
}

// brokenWords are those of tables that go on in another line, but where a name has a new word.
const brokenWords = `[...document.querySelectorAll("main table")].flatMap((table) => {
	const broken = [], texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
	for (let text; text = texts.nextNode();) for (const word of text.data.matchAll(/[A-Z]?[a-z]+/g)) {
		const range = document.createRange();
		range.setStart(text, word.index);
		range.setEnd(text, word.index + word[0].length);
		const lines = new Set([...range.getClientRects()].map((part) => part.top));
		if (lines.size > 1) broken.push(word[0]);
	}
	return broken;
})`

func TestNoPageScrollsSidewaysOnANarrowScreen(t *testing.T) {
	p := open(t)
	p.do(chromedp.EmulateViewport(360, 740))
	for _, name := range pagesToRead(t) {
		p.visit(name)
		p.unfold()
		wide := evaluate[[]string](p, `document.scrollingElement.scrollWidth <= 360 ? [] : [...document.querySelectorAll("main *, header *, nav *")].
			filter((e) => e.getBoundingClientRect().right > 360 && !e.closest("pre")).slice(0, 5).map((e) => e.outerHTML.slice(0, 150))`)
		assert.Empty(t, wide, "%s is wider than the screen", name)
		assert.LessOrEqual(t, evaluate[int](p, `document.scrollingElement.scrollWidth`), 360, name)
		assert.Empty(t, evaluate[[]string](p, brokenWords), "words that are broken in a table of %s", name)
	}
}

func TestWhatIsFoldedIsOpenInPrint(t *testing.T) {
	p := open(t)
	p.visit("02-run.html")
	folded := `[...document.querySelectorAll("details > p")].filter((p) => !p.checkVisibility()).length`
	assert.Positive(t, evaluate[int](p, folded))
	p.emulate("print", "light")
	assert.Zero(t, evaluate[int](p, folded))
	p.emulate("screen", "light")
	evaluate[any](p, `dispatchEvent(new Event("beforeprint"))`)
	assert.Zero(t, evaluate[int](p, folded))
	evaluate[any](p, `dispatchEvent(new Event("afterprint"))`)
	assert.Positive(t, evaluate[int](p, folded))
}

func TestThePDFHasAnOutlineAndSheetsOfA4(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	dir := t.TempDir()
	style, err := static.ReadFile("static/site.css")
	require.NoError(t, err)
	small := fmt.Sprintf(`<style>%s</style><main><div class="whole"><section><h1>one</h1></section><section><h1>two</h1></section></div></main>`, style)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "book.html"), []byte(small), 0o644))
	makefile, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	printing := regexp.MustCompile(`(?s)--no-pdf-header-footer .*?book\.html"`).FindString(string(makefile))
	printing = strings.NewReplacer("build/site", dir, "$(CURDIR)/", "").Replace(printing)
	out, err := exec.Command("sh", "-c", "../../chromium "+printing).CombinedOutput()
	require.NoError(t, err, "%s", out)
	printed, err := os.ReadFile(filepath.Join(dir, "book.pdf"))
	require.NoError(t, err)
	assert.Equal(t, 2, bytes.Count(printed, []byte("/MediaBox [0 0 594.95996 841.91998]")), "each section begins a sheet")
	assert.Contains(t, string(printed), "/Outlines")
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	p := open(t)
	p.visit("02-run.html")
	p.do(chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "Skip to the text", evaluate[string](p, `document.activeElement.textContent`))
	assert.True(t, evaluate[bool](p, `document.activeElement.getBoundingClientRect().left >= 0`), "who tabs sees the link")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`location.hash === "#text"`)
	p.do(chromedp.KeyEvent(kb.Tab))
	assert.True(t, evaluate[bool](p, `document.querySelector("main").contains(document.activeElement)`),
		"after it comes the text")

	evaluate[any](p, `document.querySelector("input[type=search]").focus()`)
	p.do(chromedp.KeyEvent("lease"))
	p.until(`document.querySelectorAll(".found a").length > 0`)
	p.do(chromedp.KeyEvent(kb.ArrowDown))
	assert.True(t, evaluate[bool](p, `document.activeElement === document.querySelector(".found a")`))
	p.do(chromedp.KeyEvent(kb.Escape))
	assert.True(t, evaluate[bool](p, `document.querySelector(".found").hidden`))
	assert.Equal(t, "search", evaluate[string](p, `document.activeElement.type`), "the focus is where it was before")
}

func TestNoKeyIsTakenFromTheReader(t *testing.T) {
	p := open(t)
	p.visit("02-run.html")
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz/?", "") {
		p.do(chromedp.KeyEvent(key))
	}
	assert.True(t, strings.HasSuffix(evaluate[string](p, `location.href`), "02-run.html"))
	assert.Equal(t, "BODY", evaluate[string](p, `document.activeElement.tagName`))
}

// found is what the search says.
type found struct{ Title, Address, Kind string }

func TestTheSearchFindsWhatIsAskedForWithinFiftyMilliseconds(t *testing.T) {
	p := open(t)
	p.visit("index.html")
	evaluate[any](p, `loadIndex()`)
	for query, want := range map[string]found{
		"shrinkOld":      {"shrinkOld", "07-deployment.html#deployment.shrinkOld", "code"},
		"shrinkodl":      {"shrinkOld", "07-deployment.html#deployment.shrinkOld", "code"},
		"--leader-elect": {"--leader-elect", "", "flag"},
		"MinimumReplicasAvailable": {"MinimumReplicasAvailable", "07-deployment-code.html#deployment.reasonAvailable",
			"reason"},
		"expectation": {"expectation", "glossary.html#term-expectation", "term"},
		"expetcation": {"expectation", "glossary.html#term-expectation", "term"},
		"evicted pod replaced": {"An evicted pod is replaced", "scenarios.html#replicaset/an-evicted-pod-is-replaced",
			"scenario"},
		"evicted pod qwertzuiop": {"An evicted pod is replaced", "scenarios.html#replicaset/an-evicted-pod-is-replaced",
			"scenario"},
		"how small the old ones": {"How small the old ones may be", "07-deployment.html#how-small-the-old-ones-may-be",
			"section"},
	} {
		results := evaluate[[]found](p, fmt.Sprintf(`book.search(%q).slice(0, 5)`, query))
		assert.True(t, slices.ContainsFunc(results, func(f found) bool {
			return f.Title == want.Title && f.Kind == want.Kind && strings.HasPrefix(f.Address, want.Address)
		}), "%q finds %v", query, results)
		// A busy machine may take the processor away in the middle: the quickest of some counts.
		took := evaluate[float64](p, fmt.Sprintf(`(() => { let least = Infinity;
			for (let i = 0; i < 20 && least >= 50; i++) { const begin = performance.now(); book.search(%q); least = Math.min(least, performance.now() - begin); }
			return least; })()`, query))
		assert.Less(t, took, 50.0, "%q, milliseconds", query)
	}
	assert.Empty(t, evaluate[[]found](p, `book.search("qwertzuiop")`))
}

func TestWhatTheSearchHasFoundStandsInFrontOfThePage(t *testing.T) {
	p := open(t)
	for _, width := range []int64{360, 1280} {
		p.do(chromedp.EmulateViewport(width, 740))
		p.visit("03-leader-election.html")
		evaluate[any](p, `document.querySelector("input[type=search]").focus()`)
		p.do(chromedp.KeyEvent("lease"))
		p.until(`document.querySelectorAll(".found a").length > 0`)
		assert.Empty(t, evaluate[[]string](p, `[...document.querySelectorAll(".found a")].slice(0, 6).
			filter((a) => { const box = a.getBoundingClientRect(); return !a.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)); }).
			map((a) => a.textContent)`), "%d pixels wide", width)
	}
}

func TestCopyingTakesCodeAsItIsAndOfASessionTheCommands(t *testing.T) {
	p := open(t)
	p.visit("02-run.html")
	code := evaluate[string](p, `copied(document.getElementById("app.closeTimeout"))`)
	file, err := os.ReadFile("../../../kcm/app/serve.go")
	require.NoError(t, err)
	assert.Contains(t, string(file), code)
	session := evaluate[string](p, `copied(document.querySelector("figure.console"))`)
	assert.True(t, strings.HasPrefix(session, "KCM=$LAB/kubeconfig/kcm.kubeconfig\nkcm --kubeconfig"), session)
	assert.NotContains(t, session, "401 /healthz")
}

func TestASliderShowsADeclarationAsOfEachChapterAndItsSteps(t *testing.T) {
	p := open(t)
	p.visit("03-leader-election-code.html")
	figure := `document.getElementById("app.Run")`
	original := evaluate[string](p, figure+`.querySelector("pre").textContent`)
	evaluate[any](p, figure+`.querySelector("button[aria-expanded]").focus()`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(figure + `.querySelector("input[type=range]") === document.activeElement`)
	p.do(chromedp.KeyEvent(kb.Home))
	p.until(figure + `.querySelector("pre.then") !== null`)
	assert.Equal(t, "chapter 01", evaluate[string](p, figure+`.querySelector("input").getAttribute("aria-valuetext")`))
	p.do(chromedp.KeyEvent(kb.ArrowRight))
	assert.Equal(t, "chapter 02, one-context", evaluate[string](p, figure+`.querySelector("input").getAttribute("aria-valuetext")`))
	p.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	assert.Equal(t, "chapter 03", evaluate[string](p, figure+`.querySelector("input").getAttribute("aria-valuetext")`))
	then := evaluate[string](p, figure+`.querySelector("pre.then").textContent`)
	var now []string
	for line := range strings.Lines(then) {
		if !strings.HasPrefix(line, "-") {
			now = append(now, line[2:])
		}
	}
	assert.Equal(t, original, strings.Join(now, ""), "without what is gone it is what the chapter shows")
	assert.Positive(t, evaluate[int](p, figure+`.querySelectorAll("ins").length`))
}

func TestTheStartPageKnowsWhereTheReaderWas(t *testing.T) {
	p := open(t)
	p.visit("07-deployment.html#status")
	p.until(`JSON.parse(localStorage.getItem("kcm.place"))?.section === "Status"`)
	p.visit("index.html")
	assert.Equal(t, "07-deployment.html#status",
		evaluate[string](p, `document.querySelector(".resume a").getAttribute("href")`))
}

func TestAPageThatIsServedReloadsWhenItHasBeenWrittenAnew(t *testing.T) {
	p := open(t)
	server := httptest.NewServer(uncached(p.dir))
	defer server.Close()
	p.do(chromedp.Navigate(server.URL + "/glossary.html"))
	evaluate[any](p, `window.before = true`)
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(p.dir, "glossary.html"), later, later))
	require.Eventually(t, func() bool {
		gone, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`document.title !== "" && window.before === undefined`))
		return err == nil && gone // in between there is no page to ask
	}, patience, 100*time.Millisecond)
}

func TestWithoutJavaScriptEverythingIsThere(t *testing.T) {
	p := open(t)
	p.visit("07-deployment.html")
	with := evaluate[string](p, `[...document.querySelectorAll("main p:not(:has(a.moving)), main pre, main li, main td")].map((e) => e.textContent).join("\n")`)
	without := textOf(siteOf(t).pages["07-deployment.html"].root)
	for line := range strings.Lines(with) {
		assert.True(t, strings.Contains(without, strings.TrimSuffix(line, "\n")), "only JavaScript shows %q", line)
	}
}
