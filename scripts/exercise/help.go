package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// hint shows one hint more.
func hint(_ context.Context, w *workspace.Workspace) error {
	e, err := firstOpen(w)
	if err != nil {
		return err
	}
	n := w.Progress.Hints[e.Name]
	if n == len(e.Hints) {
		fmt.Printf("%s has no more hints; %s shows the book's. Once more:\n\n", e.Name, typed("solution", w.Chapter, "ONLY="+e.Name))
		n = 0
	}
	shown := e.Hints[n]
	fmt.Printf("%s, %s\n\n%s\n", e.Name, shown.Title, indented(shown.Text, "  "))
	w.Progress.Hints[e.Name] = max(n+1, w.Progress.Hints[e.Name])
	if left := len(e.Hints) - n - 1; left > 0 {
		fmt.Printf("\n%d more: %s\n", left, typed("hint", w.Chapter, "ONLY="+e.Name))
	}
	return w.Save()
}

// solution shows the book's solution and how it differs from the reader's. It asks
// first, if the reader's does not hold yet.
func solution(_ context.Context, w *workspace.Workspace) error {
	e, err := firstOpen(w)
	if err != nil {
		return err
	}
	if isOpen(w, e) && os.Getenv("YES") != "1" {
		if yes, err := agreed(w, e); err != nil || !yes {
			return err
		}
	}
	if e.Scenario() {
		return show(w.Root, "labs/scenarios/"+e.Answer)
	}
	book, err := weave.Open(w.Root)
	if err != nil {
		return err
	}
	all, err := book.Exercises(w.Chapter)
	if err != nil {
		return err
	}
	mine, err := w.Texts(e)
	if err != nil {
		return err
	}
	ours := exerciseOf(all, w.Chapter, e.Name)
	if ours == nil {
		return fmt.Errorf("the book has no exercise %s any more", e.Name)
	}
	shown := map[string]bool{}
	for _, f := range ours.Functions {
		if path := ours.Dir + "/" + f.File; e.Whole && !shown[path] {
			shown[path] = true
			if err := show(w.Root, path); err != nil {
				return err
			}
		}
		if e.Whole {
			continue
		}
		fmt.Printf("%s/%s\n\n%s\n", ours.Dir, f.File, f.Text)
		if text := mine[f.Name] + "\n"; text != f.Text && !slices.Contains(e.Unwritten(mine), f.Name) {
			fmt.Printf("From yours to the book's:\n\n%s\n", diff.Diff("yours", []byte(text), "the book's", []byte(f.Text)))
		}
	}
	return nil
}

// show shows a file of the book.
func show(root, path string) error {
	text, err := os.ReadFile(filepath.Join(root, path))
	fmt.Printf("%s\n\n%s\n", path, text)
	return err
}

// agreed asks whether the solution is to be shown. Its error is that nobody has answered.
func agreed(w *workspace.Workspace, e *workspace.Exercise) (bool, error) {
	left := ""
	if n := len(e.Hints) - w.Progress.Hints[e.Name]; n > 0 {
		left = fmt.Sprintf(" There are hints that you have not seen: %d.", n)
	}
	fmt.Printf("%s does not hold yet.%s Show the book's solution? [y/N] ", e.Name, left)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println()
	if err != nil && answer == "" {
		return false, errors.New("there was no answer; YES=1 answers, too")
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y"), nil
}

// progress sums up the workspaces below exercises/.
func progress(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, "exercises", "*", ".book"))
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return fmt.Errorf("there is no workspace yet: make exercise-00 writes the first")
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	passed, all, minutes := 0, 0, 0
	for _, dir := range dirs {
		w, err := workspace.Open(filepath.Dir(dir))
		if err != nil {
			return err
		}
		for _, e := range w.Exercises {
			if all++; isOpen(w, e) {
				minutes += e.Minutes
			} else {
				passed++
			}
			fmt.Fprintf(table, "%02d\t%s\t%s\t%d minutes\t%d of %d hints\n", w.Chapter, e.Name, mark(w, e), e.Minutes, w.Progress.Hints[e.Name], len(e.Hints))
		}
	}
	fmt.Fprintf(table, "\n%d of %d exercises hold; about %d minutes are left in these chapters\n", passed, all, minutes)
	return table.Flush()
}
