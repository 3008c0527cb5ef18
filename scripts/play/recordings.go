package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/view"
)

// recordings is where the moving pictures of the book are: for each a page that plays
// it, and a still picture for who has no JavaScript.
const recordings = "labs/view/recordings"

// bookRoot leads from a recording among the site's pages to their root.
const bookRoot = "../../../../"

// recording is one of them.
type recording struct {
	chapter, name, title string
	// still is a JavaScript expression about a moment m with the number i, which is
	// true for the one that the still picture shows.
	still string
	play  func(v *viewed, ctx context.Context) error
}

var allRecordings = []recording{
	{"03", "failover", "A leader is killed in the middle of a rollout", `m.says.includes("is gone") && m.kind === "manager"`, (*viewed).playFailover},
	{"03", "frozen", "A leader is frozen, and wakes up when another one leads", `m.says.includes("the Lease was not renewed")`, (*viewed).playFrozen},
	{"06", "expectations", "Expectations, while the watch of pods is late", `m.says.includes("waits: the cache is behind")`, (*viewed).playExpectations},
	{"07", "rollout", "A rollout", `m.kind === "pod" && m.says.endsWith(": ready")`, (*viewed).playRollout},
}

// record records the moving pictures of chapters anew, or of all chapters those that
// were made by another form of the page.
func record(ctx context.Context, words []string) (err error) {
	wanted := slices.DeleteFunc(slices.Clone(allRecordings), func(r recording) bool {
		text, _ := os.ReadFile(r.path(".html")) // there may be none yet
		return len(words) == 0 && strings.Contains(string(text), view.PageMark()) || len(words) > 0 && !slices.Contains(words, r.chapter)
	})
	if len(wanted) == 0 {
		return nil
	}
	narrator := newNarrator()
	narrator.Title("Recording what moves in the book")
	for _, r := range wanted {
		if err := r.record(ctx, narrator); err != nil {
			return fmt.Errorf("record %s: %w", r.name, err)
		}
	}
	return nil
}

func (r recording) path(extension string) string {
	return filepath.Join(recordings, r.name+extension)
}

// record plays a recording on a cluster of its own.
func (r recording) record(ctx context.Context, narrator play.Narrator) error {
	v, end, err := newViewed(ctx, narrator, false)
	if err != nil {
		return err
	}
	defer end()
	if err := v.begin(ctx); err != nil {
		return err
	}
	if err := v.awaitRolledOut(ctx); err != nil {
		return err
	}
	before, _ := v.After(0)
	if err := r.play(v, ctx); err != nil {
		return err
	}
	if err := v.awaitRolledOut(ctx); err != nil {
		return err
	}
	text, err := v.Export(r.title, bookRoot, len(before)-1)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path(".html"), text, 0o644); err != nil {
		return err
	}
	narrator.Say(fmt.Sprintf("%s: %d KB", r.path(".html"), len(text)/1000))
	return r.takeStill(ctx, narrator)
}

// takeStill takes the still picture, where there is a browser.
func (r recording) takeStill(ctx context.Context, narrator play.Narrator) error {
	page, err := filepath.Abs(r.path(".html"))
	if err != nil {
		return err
	}
	until := toMoment(r.still)
	cmd := exec.CommandContext(ctx, "go", "run", "./scripts/picture", "-size", "1280x800", "-until", until, "file://"+page, r.path(".svg"))
	if out, err := cmd.CombinedOutput(); err != nil {
		narrator.Say(fmt.Sprintf("the still picture %s stays as it was: %s", r.path(".svg"), out))
	}
	return nil
}

// toMoment returns an expression that has a page go to the first moment m, with the
// number i, about which another one is true, and is true when that is drawn.
func toMoment(is string) string {
	return fmt.Sprintf(`(() => {
		const p = view.player, n = p.moments.findIndex((m, i) => %s);
		if (n < 0) return false;
		location.hash = "#moment=" + n;
		return p.at === n && document.getElementById("now").textContent === p.moments[n].says;
	})()`, is)
}

// awaitRolledOut waits until the Deployment is rolled out.
func (v *viewed) awaitRolledOut(ctx context.Context) error {
	return await.Until(ctx, 50*time.Millisecond, time.Minute, "Deployment web is rolled out", func(ctx context.Context) error {
		d, err := v.client.AppsV1().Deployments(shop).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		want, s := *d.Spec.Replicas, d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
			return fmt.Errorf("of %d pods %d are new and %d available, and %d there", want, s.UpdatedReplicas, s.AvailableReplicas, s.Replicas)
		}
		return nil
	})
}

// awaitMoment waits for a moment from number n on that says something.
func (v *viewed) awaitMoment(ctx context.Context, n int, says string) error {
	return await.Until(ctx, 20*time.Millisecond, time.Minute, "somebody says "+says, func(context.Context) error {
		moments, _ := v.After(n)
		if !slices.ContainsFunc(moments, func(m view.Moment) bool { return strings.Contains(m.Says, says) }) {
			return errors.New("nobody has said so yet")
		}
		return nil
	})
}

// press does what a button does.
func (v *viewed) press(ctx context.Context, name string) error {
	i := slices.IndexFunc(v.Deeds, func(d view.Deed) bool { return d.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no button %s", name)
	}
	v.Did(name + ": " + v.Deeds[i].Does)
	return v.Deeds[i].Do(ctx)
}

func (v *viewed) playRollout(ctx context.Context) error { return v.press(ctx, "Roll out") }

func (v *viewed) playFailover(ctx context.Context) error {
	before, _ := v.After(0)
	if err := v.press(ctx, "Roll out"); err != nil {
		return err
	}
	if err := v.awaitMoment(ctx, len(before), "updated 3"); err != nil {
		return err
	}
	return v.press(ctx, "Leader killed")
}

func (v *viewed) playFrozen(ctx context.Context) error {
	before, _ := v.After(0)
	if err := v.press(ctx, "Leader frozen"); err != nil {
		return err
	}
	if err := v.press(ctx, "Roll out"); err != nil {
		return err
	}
	return v.awaitMoment(ctx, len(before), "wakes up")
}

func (v *viewed) playExpectations(ctx context.Context) error {
	before, _ := v.After(0)
	if err := v.press(ctx, "Watch late"); err != nil {
		return err
	}
	v.Did("Deployment web is scaled up by three")
	err := v.change(ctx, func(d *appsv1.Deployment) { *d.Spec.Replicas += 3 })
	if err != nil {
		return err
	}
	return v.awaitMoment(ctx, len(before), "the cache is behind")
}

// takePicture takes a picture of the live view in the middle of a failover.
func takePicture(ctx context.Context, file string) error {
	v, end, err := newViewed(ctx, newNarrator(), false)
	if err != nil {
		return err
	}
	defer end()
	if err := errors.Join(v.begin(ctx), v.awaitRolledOut(ctx)); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	addresses, served := make(chan string, 1), make(chan error, 1)
	go func() { served <- v.Serve(serving, 0, func(address string) { addresses <- address }) }()
	var address string
	select {
	case address = <-addresses:
	case err := <-served:
		return err
	}
	if err := v.playFailover(ctx); err != nil {
		return err
	}
	// The next leader goes on with the rollout. However long the browser takes to start,
	// it goes back to that moment.
	until := toMoment(`m.says.includes(" decides change") && p.moments.slice(0, i).some((m) => m.says.endsWith("is gone"))`)
	picture := exec.CommandContext(ctx, "go", "run", "./scripts/picture", "-size", "1280x1100", "-until", until, address, file)
	picture.Stdout, picture.Stderr = os.Stdout, os.Stderr
	return picture.Run()
}
