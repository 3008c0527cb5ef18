package main

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/view"
	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// show has a page show what a script plays in a setting, until end is called. The
// script ends when somebody has had time to look, with Ctrl-C.
func show(ctx context.Context, s *play.Setting, reference bool, title string) (l *view.Lab, end func(), err error) {
	book, err := declared()
	if err != nil {
		return nil, nil, err
	}
	if l, err = view.NewLab(ctx, s.Cluster, reference, title); err != nil {
		return nil, nil, err
	}
	l.Book = book
	if _, err := os.Stat("build/site/index.html"); err == nil {
		l.Pages = "build/site"
	}
	address, stop, err := l.Serve(cmp.Or(os.Getenv("PORT"), "0"))
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	s.Narrator.Say("The loops are at " + address)
	s.Spectator, s.Keep = l, true
	s.Narrator = stepsToo{s.Narrator, l.View}
	return l, func() { stop(); l.Close() }, nil
}

// explained are the packages of the loops whose steps the page has links for.
var explained = map[string]string{
	"deployment-controller":            "kcm/controller/deployment",
	"replicaset-controller":            "kcm/controller/replication",
	"replicationcontroller-controller": "kcm/controller/replication",
}

// declared returns where the pages of the book declare what steps are about, by loop and step.
func declared() (map[string]map[string]string, error) {
	all, err := chapters.Read(".")
	if err != nil {
		return nil, err
	}
	book := map[string]map[string]string{}
	for loop, dir := range explained {
		book[loop] = map[string]string{}
		for step, declaration := range map[string][2]string{
			"observed": {dir, "(*Controller).observe"}, "decided": {dir, "decide"}, "done": {dir, "(*Controller).act"},
			"queue": {"kcm/controller", "(*Loop).retry"}, "error": {"kcm/controller", "(*Loop).retry"},
			"waits": {"kcm/controller", "(*OwnWrites).Observed"},
		} {
			if book[loop][step] = addressOf(all, declaration[0], declaration[1]); book[loop][step] == "" {
				return nil, fmt.Errorf("no chapter shows %s, which the view links to", declaration)
			}
		}
	}
	return book, nil
}

// addressOf returns the page and the anchor of a declaration where the book shows it last.
func addressOf(all []*chapters.Chapter, dir, name string) (address string) {
	for _, chapter := range all {
		for _, block := range chapter.Blocks {
			if block.Package == dir && slices.Contains(block.Names, name) {
				anchor := filepath.Base(dir) + "." + strings.NewReplacer("(", "", "*", "", ")", "").Replace(name)
				address = block.Page.Web() + "#" + anchor
			}
		}
	}
	return address
}

// stepsToo tells a view of the steps of a script.
type stepsToo struct {
	play.Narrator
	view *view.View
}

// Step begins a step when the narrator does.
func (s stepsToo) Step(ctx context.Context, number int, sentence string) error {
	err := s.Narrator.Step(ctx, number, sentence)
	s.view.Did(fmt.Sprintf("Step %d: %s", number, sentence))
	return err
}

// recordings is where the moving pictures of the book are: for each a script, a page that plays
// what its second step has shown, and a still picture for who has no JavaScript.
const recordings = "labs/view/recordings"

type recording struct {
	chapter, name string
	// still is in what the moment says that the still picture shows, the first one of these.
	still *regexp.Regexp
}

var allRecordings = []recording{
	{"03", "failover", regexp.MustCompile("^kcm-.* is gone")},
	{"03", "frozen", regexp.MustCompile("the Lease was not renewed")},
	{"06", "expectations", regexp.MustCompile("waits: the cache is behind")},
	{"07", "rollout", regexp.MustCompile("^pod .*: ready$")},
	{"16", "silence", regexp.MustCompile("^node .*: taints")},
}

// record records the moving pictures of chapters anew, or of all chapters.
func record(ctx context.Context, words []string) (err error) {
	narrator := newNarrator()
	for _, r := range allRecordings {
		if len(words) > 0 && !slices.Contains(words, r.chapter) {
			continue
		}
		l := lab{name: r.name, dir: filepath.Dir(recordings)}
		if l.script, err = play.ReadScript(r.path(".txtar"), l.manifests()...); err != nil {
			return err
		}
		l.record = func(ctx context.Context, shown *view.Lab) error { return r.write(ctx, narrator, l.script, shown) }
		if err := l.play(ctx, narrator); err != nil {
			return fmt.Errorf("record %s: %w", r.name, err)
		}
	}
	return nil
}

func (r recording) path(extension string) string {
	return filepath.Join(recordings, r.name+extension)
}

// write writes what the second step has shown as a page, and takes the still picture, where there is a browser.
func (r recording) write(ctx context.Context, narrator play.Narrator, script *play.Script, shown *view.Lab) error {
	moments, _ := shown.After(0)
	first := func(among []view.Moment, says *regexp.Regexp) int {
		return slices.IndexFunc(among, func(m view.Moment) bool { return says.MatchString(m.Says) })
	}
	from, to := first(moments, regexp.MustCompile("^Step 2:")), first(moments, regexp.MustCompile("^Step 3:"))
	toRoot := "../../../../" // of the site's pages, among which the recording is
	text, err := shown.Recording(script.Steps[1], toRoot, "../page", from, to)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path(".html"), text, 0o644); err != nil {
		return err
	}
	narrator.Say(fmt.Sprintf("%s: %d KB", r.path(".html"), len(text)/1000))
	if err := r.takeStill(ctx, text, first(moments[from:to], r.still)); err != nil {
		narrator.Say(fmt.Sprintf("the still picture %s stays as it was: %v", r.path(".svg"), err))
	}
	return nil
}

// takingStill has the page consist of its picture as text when that is drawn.
const takingStill = `<script>addEventListener("load", () => {
	setTimeout(() => { document.documentElement.textContent = view.still(); }, 1000);
})</script>`

var stillOf = regexp.MustCompile(`(?s)<html[^>]*>(&lt;svg.*)</html>`)

// takeStill takes the still picture of a page at a moment, where there is a browser.
func (r recording) takeStill(ctx context.Context, page []byte, moment int) error {
	taking, _ := filepath.Abs(r.path(".taking.html"))
	defer os.Remove(taking)
	if err := os.WriteFile(taking, append(page, takingStill...), 0o600); err != nil {
		return err
	}
	// A page has five seconds of its own time for what moves in it.
	out, err := exec.CommandContext(ctx, "scripts/chromium", "--window-size=1280,800", "--virtual-time-budget=5000",
		"--dump-dom", fmt.Sprintf("file://%s#moment=%d", taking, moment)).CombinedOutput()
	found := stillOf.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("no picture in what Chromium says (%v): %.1000s", err, out)
	}
	return os.WriteFile(r.path(".svg"), []byte(html.UnescapeString(string(found[1]))), 0o644)
}
