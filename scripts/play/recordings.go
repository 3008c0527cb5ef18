package main

import (
	"context"
	"fmt"
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
	// still is in what the moment says that the still picture shows, the first one of these.
	still *regexp.Regexp
}

var allRecordings = []recording{
	{"03", "failover", regexp.MustCompile("^kcm-.* is gone")},
	{"03", "frozen", regexp.MustCompile("the Lease was not renewed")},
	{"06", "expectations", regexp.MustCompile("waits: the cache is behind")},
	{"07", "rollout", regexp.MustCompile("^pod .*: ready$")},
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

// write writes what the second step has shown as a page, and takes the still picture, where there is a browser.
func (r recording) write(ctx context.Context, narrator play.Narrator, script *play.Script, shown *view.Lab) error {
	moments, _ := shown.After(0)
	first := func(among []view.Moment, says *regexp.Regexp) int {
		return slices.IndexFunc(among, func(m view.Moment) bool { return says.MatchString(m.Says) })
	}
	from, to := first(moments, regexp.MustCompile("^Step 2:")), first(moments, regexp.MustCompile("^Step 3:"))
	text, err := shown.Export(script.Steps[1], bookRoot, from, to)
	if err != nil {
		return err
	}
	page, err := filepath.Abs(r.path(".html"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, text, 0o644); err != nil {
		return err
	}
	narrator.Say(fmt.Sprintf("%s: %d KB", r.path(".html"), len(text)/1000))
	still := first(moments[from:to], r.still)
	drawn := fmt.Sprintf(`document.getElementById("now").textContent === view.player.moments[%d].says`, still)
	cmd := exec.CommandContext(ctx, "go", "run", "./scripts/picture", "-size", "1280x800", "-until", drawn,
		fmt.Sprintf("file://%s#moment=%d", page, still), r.path(".svg"))
	if out, err := cmd.CombinedOutput(); err != nil {
		narrator.Say(fmt.Sprintf("the still picture %s stays as it was: %s", r.path(".svg"), out))
	}
	return nil
}
