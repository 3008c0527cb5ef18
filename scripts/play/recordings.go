package main

import (
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
)

// recordings is where the moving pictures of the book are: for each a script, a page that plays
// what its second step has shown, and a still picture for who has no JavaScript.
const recordings = "labs/view/recordings"

// bookRoot leads from a recording among the site's pages to their root.
const bookRoot = "../../../../"

// recording is one of them.
type recording struct {
	chapter, name string
	// still is a JavaScript expression about a moment m with the number i, which is
	// true for the one that the still picture shows.
	still string
}

var allRecordings = []recording{
	{"03", "failover", `m.says.includes("is gone") && m.kind === "manager"`},
	{"03", "frozen", `m.says.includes("the Lease was not renewed")`},
	{"06", "expectations", `m.says.includes("waits: the cache is behind")`},
	{"07", "rollout", `m.kind === "pod" && m.says.endsWith(": ready")`},
}

// record records the moving pictures of chapters anew, or of all chapters those that
// were made by another form of the page.
func record(ctx context.Context, words []string) (err error) {
	narrator := newNarrator()
	for _, r := range allRecordings {
		text, _ := os.ReadFile(r.path(".html")) // there may be none yet
		if len(words) == 0 && strings.Contains(string(text), view.PageMark()) || len(words) > 0 && !slices.Contains(words, r.chapter) {
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

// write writes what the second step has shown as a page.
func (r recording) write(ctx context.Context, narrator play.Narrator, script *play.Script, shown *view.Lab) error {
	moments, _ := shown.After(0)
	step := func(n int) int {
		return slices.IndexFunc(moments, func(m view.Moment) bool { return strings.HasPrefix(m.Says, fmt.Sprintf("Step %d:", n)) })
	}
	text, err := shown.Export(script.Steps[1], bookRoot, step(2), step(3))
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path(".html"), text, 0o644); err != nil {
		return err
	}
	narrator.Say(fmt.Sprintf("%s: %d KB", r.path(".html"), len(text)/1000))
	if err := r.takeStill(ctx, text); err != nil {
		narrator.Say(fmt.Sprintf("the still picture %s stays as it was: %v", r.path(".svg"), err))
	}
	return nil
}

// takingStill goes to the first moment m, with the number i, about which something is true, and has the page consist of its
// picture as text when that is drawn.
const takingStill = `<script>addEventListener("load", () => {
	const n = view.player.moments.findIndex((m, i) => %s);
	location.hash = "#moment=" + n;
	if (n >= 0) setTimeout(() => { document.documentElement.textContent = view.still(); }, 1000);
})</script>`

var stillOf = regexp.MustCompile(`(?s)<html[^>]*>(&lt;svg.*)</html>`)

// takeStill takes the still picture of a page, where there is a browser.
func (r recording) takeStill(ctx context.Context, page []byte) error {
	taking := filepath.Join(os.TempDir(), "taking-"+r.name+".html")
	defer os.Remove(taking)
	if err := os.WriteFile(taking, fmt.Appendf(page, takingStill, r.still), 0o600); err != nil {
		return err
	}
	// A page has five seconds of its own time for what moves in it.
	cmd := exec.CommandContext(ctx, "scripts/chromium",
		"--window-size=1280,800", "--virtual-time-budget=5000", "--dump-dom", "file://"+taking)
	out, err := cmd.CombinedOutput()
	found := stillOf.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("no picture in what Chromium says (%v): %.1000s", err, out)
	}
	return os.WriteFile(r.path(".svg"), []byte(html.UnescapeString(string(found[1]))), 0o644)
}
