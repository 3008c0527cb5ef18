// Command exercise is for who writes the bodies that matter: it writes the workspace
// of a chapter, checks what is in it, helps, and grades.
//
// In the environment, DEST is the workspace if it is not exercises/NN, ONLY the name of one exercise, FROM the
// workspace whose exercises are carried over, ALL=1 shows each behaviour that does not hold, CLUSTER=embedded or
// CLUSTER=kind checks on a cluster, too, and YES=1 shows the solution of what does not hold yet.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/exercise/prove"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // who reads no further, as head does, leaves the end to us, and what there is to remove
	// A second Ctrl-C ends it at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	root, err := os.Getwd()
	if err == nil {
		err = command(root).ExecuteContext(ctx)
	}
	switch {
	case errors.Is(err, errNotYet):
		os.Exit(1) // that has been said already
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "exercise: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "exercise:", err)
		os.Exit(2)
	}
}

// errNotYet is the error of a check that has found something.
var errNotYet = errors.New("not all behaviours hold yet")

func command(root string) *cobra.Command {
	exercise := &cobra.Command{
		Use: "exercise", Short: "Write, check, help with and grade what the reader writes",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	add := func(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) {
		exercise.AddCommand(&cobra.Command{Use: use, Short: short, Args: args,
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }})
	}
	in := func(run func(ctx context.Context, w *workspace.Workspace) error) func(context.Context, []string) error {
		return func(ctx context.Context, args []string) error {
			w, err := open(root, args[0])
			if err != nil {
				return err
			}
			return run(ctx, w)
		}
	}
	one, any := cobra.ExactArgs(1), cobra.ArbitraryArgs
	add("write NN", "Write the workspace of a chapter; what you have changed in it stays", one,
		func(_ context.Context, args []string) error { return writeWorkspace(root, args[0]) })
	add("check NN", "Say behaviour by behaviour what holds", one, in(check))
	add("hint NN", "Show one more hint for the first exercise that is open", one, in(hint))
	add("solution NN", "Show the book's solution, and how yours differs", one, in(solution))
	add("build NN", "Build the program, to run it by hand", one, in(buildProgram))
	add("progress", "Sum up all workspaces", cobra.NoArgs, func(context.Context, []string) error { return progress(root) })
	add("grade DIR", "Grade a workspace, or each folder in a directory", one,
		func(ctx context.Context, args []string) error { return grade(ctx, root, args[0]) })
	add("prove [NN]...", "Prove that right solutions pass, and that wrong ones do not", any,
		func(ctx context.Context, args []string) error { return prove.Run(ctx, root, args, os.Stdout) })
	add("judge [NN]...", "Prove on a cluster that the scenarios of exercises reject the broken managers", any,
		func(ctx context.Context, args []string) error { return judgeAll(ctx, root, args) })
	return exercise
}

func open(root, number string) (*workspace.Workspace, error) {
	all, err := chapters.Read(root)
	if err != nil {
		return nil, err
	}
	chosen, err := chapters.Choose(all, number)
	if err != nil {
		return nil, err
	}
	n := chosen[0].Number
	dir, _ := filepath.Abs(cmp.Or(os.Getenv("DEST"), workspace.Default(n))) // the root was found from where we are
	w, err := workspace.Open(root, all, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no workspace in %s: write it with make exercise-%02d", relative(root, dir), n)
	case err == nil && w.Number != n:
		return nil, fmt.Errorf("%s is the workspace of chapter %02d", relative(root, dir), w.Number)
	}
	return w, err
}

// relative returns a path as somebody in the root would type it.
func relative(root, path string) string {
	if short, err := filepath.Rel(root, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}

func writeWorkspace(root, number string) error {
	w, err := workspace.Write(root, number, os.Getenv("DEST"), os.Getenv("FROM"))
	if err != nil {
		return err
	}
	shown := relative(root, w.Dir)
	if w.New {
		fmt.Printf("chapter %02d is in %s: read README.md there, and write what the comments ask for\n\n", w.Number, shown)
	} else {
		fmt.Printf("chapter %02d in %s is up to date\n\n", w.Number, shown)
	}
	for _, e := range w.Exercises {
		answer, _ := w.Answer(e) // where a file does not compile, it is not named
		fmt.Printf("  %-18s %2d minutes   %s\n", e.Name, e.Minutes, strings.Join(answer.Files(), ", "))
	}
	fmt.Println("\nThe minutes are those of writing: the line below the chapter's title has the reading, too.")
	list := func(title string, names []string) {
		if len(names) > 0 {
			fmt.Printf("\n%s:\n  %s\n", title, strings.Join(names, "\n  "))
		}
	}
	list("yours, from earlier chapters", w.Carried)
	list("the book's, because yours have changed since they passed (check them again, then this)", w.Left)
	list("with what you have changed in it (to begin anew, move the folder away)", w.Kept)
	fmt.Printf("\nthen: %s, or %s, which checks at each save\n", typed("check", w.Workspace), typed("watch", w.Workspace))
	return nil
}

// typed is a command for a workspace as it has to be typed in the book's folder.
func typed(verb string, w *workspace.Workspace, settings ...string) string {
	command := fmt.Sprintf("make %s-%02d", verb, w.Number)
	if dir := os.Getenv("DEST"); dir != "" {
		settings = append(settings, "DEST="+dir)
	}
	return strings.Join(append([]string{command}, settings...), " ")
}

// isOpen tells whether an exercise has not passed as it is now.
func isOpen(w *workspace.Workspace, e *chapters.Exercise) bool {
	answer, err := w.Answer(e)
	return err != nil || w.Progress.Passed[e.Name] != answer.Sum()
}

// firstOpen returns the first exercise that is open, or the one that ONLY names.
func firstOpen(w *workspace.Workspace) (*chapters.Exercise, error) {
	exercises, err := w.Choose(os.Getenv("ONLY"))
	if err != nil {
		return nil, err
	}
	for _, e := range exercises {
		if len(exercises) == 1 || isOpen(w, e) {
			return e, nil
		}
	}
	return nil, fmt.Errorf("all exercises of chapter %02d hold; ONLY=name chooses one all the same", w.Number)
}
