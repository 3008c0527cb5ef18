package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/verdict"
	"github.com/kcm-book/kcm-book/labs/view"
)

// lab is a script that starts its managers itself.
type lab struct {
	name   string
	dir    string
	script *play.Script
	// record keeps what was shown of it, if it is played for that.
	record func(context.Context, *view.Lab) error
}

// find returns the lab whose name is or begins with a word, or all labs for "".
func find(word string) (found []lab, err error) {
	paths, _ := filepath.Glob("labs/*/lab.txtar") // the pattern is well-formed
	var names []string
	for _, path := range paths {
		l := lab{name: filepath.Base(filepath.Dir(path)), dir: filepath.Dir(path)}
		names = append(names, l.name)
		if word != "" && l.name != word && !strings.HasPrefix(l.name, word+"-") {
			continue
		}
		if l.script, err = play.ReadScript(path, l.manifests()...); err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	if found == nil {
		err = fmt.Errorf("there is no lab %s: there are %s", word, strings.Join(names, ", "))
	}
	return found, err
}

func (l lab) manifests() []string {
	return []string{l.dir, filepath.Join(l.dir, "manifests"), filepath.Join("labs", "scenarios", "manifests")}
}

// playLab plays a lab so that one can watch.
func playLab(ctx context.Context, args []string) error {
	labs, err := find(args[0])
	if err != nil {
		return err
	}
	return labs[0].play(ctx, newNarrator())
}

// playAll plays all labs side by side. What is told of a lab that fails is shown.
func playAll(ctx context.Context, _ []string) error {
	labs, err := find("")
	if err != nil {
		return err
	}
	subject, _ := subject()
	table := verdict.New([]string{subject}, verdict.Names(labs, func(l lab) string { return l.name }))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(3) // they wait most of the time, but each has a control plane of its own
	for _, l := range labs {
		group.Go(func() error {
			var told strings.Builder
			begin := time.Now()
			r := verdict.Result{Mark: verdict.Passed}
			if err := l.play(ctx, play.NewTeller(&told, false)); err != nil {
				r.Mark, r.Told = verdict.Failed, fmt.Sprintf("%s\n%v\nlogs are in build/labs/%s", &told, err, l.name)
			}
			r.Took = time.Since(begin)
			table.Put(subject, l.name, r)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Print(table)
	return table.Err()
}

func (l lab) play(ctx context.Context, narrator play.Narrator) (err error) {
	subject, reference := subject()
	viewed := l.record != nil || os.Getenv("VIEW") != "" && l.script.NeedsCluster()
	program, err := l.build(ctx, narrator, subject)
	if err != nil {
		return err
	}
	logs, _ := filepath.Abs(filepath.Join("build", "labs", l.name))
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	s := &play.Setting{Dir: l.dir, Module: filepath.Dir(filepath.Dir(program)), Logs: logs, Manifests: l.manifests(),
		Keep: os.Getenv("KEEP") != "", Narrator: narrator}
	if l.script.NeedsCluster() {
		if s.Cluster, err = startCluster(ctx, narrator); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Cluster.Close()) }()
	}
	if s.Manager, err = play.NewManager(ctx, s.Cluster, reference, program); err != nil {
		return err
	}
	var shown *view.Lab
	if viewed {
		var end func()
		if shown, end, err = show(ctx, s, reference, "The loops of "+subject+": "+l.name); err != nil {
			return err
		}
		defer end()
		shown.Replaces, s.Keep = l.name == "view", l.record == nil
	}
	if _, err = s.Perform(ctx, l.script); err == nil && l.record != nil {
		err = l.record(ctx, shown)
	}
	return err
}

// build builds the kcm of the lab's chapter as a reader does. A lab of no chapter is about the finished one.
func (l lab) build(ctx context.Context, narrator play.Narrator, subject string) (program string, err error) {
	chapter, _, _ := strings.Cut(l.name, "-")
	if strings.Trim(chapter, "0123456789") != "" {
		narrator.Title(fmt.Sprintf("The %s, with %s", l.name, subject))
		return finished()
	}
	narrator.Title(fmt.Sprintf("Lab %s, with %s", chapter, subject))
	if os.Getenv("VIEW") != "" {
		narrator.Say("VIEW=1 plays the finished kcm: the one of this chapter tells nothing of its inside.")
		return finished()
	}
	if os.Getenv("KCM") != "" {
		return finished()
	}
	unlock, err := cluster.Lock(filepath.Join("build", ".stage.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	out, err := exec.CommandContext(ctx, "make", "--no-print-directory", "stage-"+chapter).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the code of chapter %s: %w\n%s", chapter, err, out)
	}
	narrator.Say(strings.TrimSpace(string(out)))
	return filepath.Abs(filepath.Join("build", "stage-"+chapter, "bin", "kcm"))
}

// subject is the manager that is played: kcm, or with REFERENCE=1 the original.
func subject() (name string, reference bool) {
	if os.Getenv("REFERENCE") == "1" {
		return "the original kube-controller-manager", true
	}
	return "kcm", false
}

func startCluster(ctx context.Context, narrator play.Narrator) (*cluster.Cluster, error) {
	if os.Getenv("KUBECONFIG") != "" {
		narrator.Say("KUBECONFIG names a cluster of yours. It is left alone, and another one is started.")
	}
	begin := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{Progress: lines{narrator}})
	if err != nil {
		return nil, fmt.Errorf("start a lab cluster: %w", err)
	}
	narrator.Say(fmt.Sprintf("a cluster is up at %s (%.1f s)", c.Server, time.Since(begin).Seconds()))
	return c, nil
}

// lines tells what is written to it.
type lines struct{ play.Narrator }

func (l lines) Write(line []byte) (int, error) {
	l.Say(string(line))
	return len(line), nil
}
