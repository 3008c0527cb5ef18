package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// onCluster judges the scenarios that the reader has written, and then plays the lab
// and the scenarios of the chapter with the reader's manager.
func onCluster(ctx context.Context, w *workspace.Workspace, exercises []*chapters.Exercise) error {
	open := false
	for _, e := range exercises {
		if !e.Scenario() {
			continue
		}
		said, passed, err := judgeWritten(ctx, w, e)
		if err != nil {
			return err
		}
		open = open || !passed
		fmt.Printf("\n%s\n  %s\n", e.Name, said)
	}
	if len(exercises) == len(w.Exercises) {
		if err := playChapter(ctx, w); err != nil {
			return err
		}
	}
	if open {
		return errNotYet
	}
	return nil
}

// playChapter plays what there is of the chapter's lab and scenarios, and says what.
func playChapter(ctx context.Context, w *workspace.Workspace) error {
	program, err := build(ctx, w)
	if err != nil {
		return err
	}
	played := "nothing: this chapter has no lab"
	if _, err := os.Stat(filepath.Join(w.Root, "labs", w.Slug, "lab.txtar")); err == nil {
		if err := play(ctx, w.Root, program, nil, os.Stdout, "lab", fmt.Sprintf("%02d", w.Number)); err != nil {
			return err
		}
		played = "the lab"
	}
	pattern, err := scenariosOf(w)
	if err != nil {
		return err
	}
	if pattern != "" {
		if err := play(ctx, w.Root, program, nil, os.Stdout, "scenarios", pattern); err != nil {
			return err
		}
		played = "the lab and the scenarios of the chapter"
	}
	fmt.Printf("\nYour program has passed %s.\n", played)
	return nil
}

// scenariosOf returns an expression for the scenarios of the controllers that a chapter brings, or "".
func scenariosOf(w *workspace.Workspace) (string, error) {
	all, err := chapters.Read(w.Root)
	if err != nil {
		return "", err
	}
	folders, err := filepath.Glob(filepath.Join(w.Root, "labs", "scenarios", "*"))
	var of []string
	for _, folder := range folders {
		name := filepath.Base(folder)
		if c := chapters.OfController(all, name); c != nil && c.Number == w.Number {
			of = append(of, name)
		}
	}
	if of == nil {
		return "", err
	}
	return "(^|/)(" + strings.Join(of, "|") + ")/", err
}

// buildProgram builds the reader's program, to be run by hand.
func buildProgram(ctx context.Context, w *workspace.Workspace) error {
	program, err := build(ctx, w)
	if err != nil {
		return err
	}
	fmt.Printf("built %s; this puts it first: eval \"$(make env DEST=%s)\"\n",
		relative(w.Root, program), relative(w.Root, w.Dir))
	return nil
}

// build builds the reader's manager, or the program of the chapter's lab where it has no manager yet.
func build(ctx context.Context, w *workspace.Workspace) (program string, err error) {
	main := "kcm/cmd/kcm"
	if _, err := os.Stat(filepath.Join(w.Dir, main)); err != nil {
		mains, err := filepath.Glob(filepath.Join(w.Dir, "labs", w.Slug, "*", "main.go"))
		if err != nil || len(mains) != 1 {
			return "", fmt.Errorf("%s has no program that could be run on a cluster", w.Dir)
		}
		main = "labs/" + w.Slug + "/" + filepath.Base(filepath.Dir(mains[0]))
	}
	return buildMain(ctx, w.Dir, main, "bin")
}

// buildMain builds a program of a module into one of its directories.
func buildMain(ctx context.Context, module, main, bin string) (program string, err error) {
	program = filepath.Join(module, bin, filepath.Base(main))
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", os.Getenv("KCM_LDFLAGS"), "-o", program, "./"+main)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s in %s: %w\n%s", main, module, err, out)
	}
	return program, nil
}

// play plays something with a program in place of kcm, and something more in the environment.
func play(ctx context.Context, root, program string, env []string, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "play"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
	variable := "KCM="
	if filepath.Base(program) != "kcm" {
		variable = "LOOP=" // chapter 00 has a loop and no manager
	}
	cmd.Env = slices.Concat(os.Environ(), []string{variable + program}, env)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("play %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// verb matches a line of a script that does something.
var verb = regexp.MustCompile(`(?m)^[^#\s]`)

// judgeWritten judges the scenario that the reader has written, and says why: the
// original has to pass it, and the broken manager must not.
func judgeWritten(
	ctx context.Context, w *workspace.Workspace, e *chapters.Exercise,
) (said string, passed bool, err error) {
	answer, err := w.Answer(e)
	if err != nil {
		return "", false, err
	}
	if !verb.MatchString(answer[0].Text) {
		return fmt.Sprintf("– not written yet (%d minutes, %s)", e.Minutes, answer[0].File), false, nil
	}
	book, err := weave.Open(w.Root)
	if err != nil {
		return "", false, err
	}
	broken, err := buildBroken(ctx, w.Root, book, e)
	if err != nil {
		return "", false, err
	}
	script := filepath.Join(w.Dir, answer[0].File)
	switch told, failed := fails(ctx, w.Root, broken, script, "REFERENCE=1"); {
	case failed != "":
		return "✗ the original does not pass it, so it says nothing true about Kubernetes" + told, false, ctx.Err()
	case told != "":
		return "✗ it cannot be played" + told, false, ctx.Err()
	}
	how, wrong, err := reject(ctx, w.Root, broken, script)
	if err != nil || wrong != "" {
		return "✗ " + wrong, false, err
	}
	w.Progress.Passed[e.Name] = answer.Sum()
	return "✓ the original passes it, and the broken manager does not:\n    " + how, true, w.Save()
}

// failure matches what is said last of a script that has failed: its line, and what was not as it says.
var failure = regexp.MustCompile(`the script has failed: (.+)`)

// fails plays a script. It returns what was printed if that did not end well, and where it is the script that has
// failed, at which of its lines.
func fails(ctx context.Context, root, program, script string, env ...string) (told, failed string) {
	var out bytes.Buffer
	if play(ctx, root, program, env, &out, "file", script) == nil {
		return "", ""
	}
	if match := failure.FindStringSubmatch(out.String()); match != nil {
		failed = match[1]
	}
	return "\n\n" + indented(out.String(), "    "), failed
}

// reject plays a script with a broken manager, up to three times, since what is broken
// may go well once. It returns how it has failed, or what is wrong with a script that
// never rejects it.
func reject(ctx context.Context, root, broken, script string) (how, wrong string, err error) {
	for range 3 {
		switch told, failed := fails(ctx, root, broken, script); {
		case failed != "":
			return failed, "", ctx.Err()
		case told != "":
			return "", "the broken manager could not be tried" + told, ctx.Err()
		}
	}
	return "", "the broken manager passes it each time, and it was played three times", nil
}

// buildBroken builds the finished manager with the wrong solution in it that a scenario is to reject.
func buildBroken(ctx context.Context, root string, book *weave.Book, scenario *chapters.Exercise) (string, error) {
	in := scenario.BrokenIn
	exercises, err := book.Exercises(in)
	if err != nil {
		return "", err
	}
	of, name, _ := strings.Cut(scenario.Broken, "/")
	at := slices.IndexFunc(exercises, func(e *weave.Exercise) bool { return e.Chapter.Number == in && e.Name == of })
	if at < 0 {
		return "", scenario.Errorf("the broken manager is to have %s, but chapter %02d has no exercise %s",
			scenario.Broken, in, of)
	}
	broken := exercises[at]
	wrong, err := broken.Solutions.Find(name)
	if err != nil {
		return "", scenario.Errorf("%w", err)
	}
	texts, err := wrong.Apply(broken.Texts())
	if err != nil {
		return "", err
	}
	all := book.Chapters
	files, err := book.Module(all[len(all)-1].Number, func(e *weave.Exercise) map[string]string {
		if e.Exercise == broken.Exercise {
			return texts
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	module, main := filepath.Join(root, "build", "broken", "module"), "kcm/cmd/kcm"
	if err := weave.WriteFiles(module, files); err != nil {
		return "", err
	}
	if strings.HasPrefix(broken.Dir, "labs/") {
		main = broken.Dir // a program of the chapter's own
	}
	return buildMain(ctx, module, main, filepath.Join("..", "bin", scenario.Chapter.Slug)) // others run meanwhile
}

// judgeAll proves that the book's own scenarios reject the broken managers. That the
// original passes them is known: they are among those that it is compared by.
func judgeAll(ctx context.Context, root string, numbers []string) error {
	book, err := weave.Open(root)
	if err != nil {
		return err
	}
	chosen, err := chapters.Choose(book.Chapters, numbers...)
	if err != nil {
		return err
	}
	var building sync.Mutex // all are built in one place, so that what they share is built once
	return chapters.Each(ctx, chosen, 4, os.Stdout, func(chapter *chapters.Chapter) (string, error) {
		var said []string
		for _, e := range chapter.Exercises {
			if !e.Scenario() {
				continue
			}
			building.Lock()
			broken, err := buildBroken(ctx, root, book, e)
			building.Unlock()
			if err != nil {
				return "", err
			}
			_, wrong, err := reject(ctx, root, broken, filepath.Join(root, "labs", "scenarios", e.Answer))
			if err != nil {
				return "", err
			}
			if wrong != "" {
				return "", e.Errorf("%s with %s: %s", e.Answer, e.Broken, wrong)
			}
			said = append(said, fmt.Sprintf("%s rejects %s", e.Answer, e.Broken))
		}
		return cmp.Or(strings.Join(said, "; "), "has no broken manager"), nil
	})
}
