package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

func hint(_ context.Context, w *workspace.Workspace) error {
	e, err := firstOpen(w)
	if err != nil {
		return err
	}
	n := w.Progress.Hints[e.Name]
	if n == len(e.Hints) {
		fmt.Printf("%s has no more hints; %s shows the book's. Once more:\n\n", e.Name, typed("solution", w, "ONLY="+e.Name))
		n = 0
	}
	shown := e.Hints[n]
	fmt.Printf("%s, %s\n\n%s\n", e.Name, shown.Title, indented(shown.Text, "  "))
	w.Progress.Hints[e.Name] = max(n+1, w.Progress.Hints[e.Name])
	if left := len(e.Hints) - n - 1; left > 0 {
		fmt.Printf("\n%d more: %s\n", left, typed("hint", w, "ONLY="+e.Name))
	}
	return w.Save()
}

// solution shows the book's solution and how it differs from the reader's. It wants to
// hear twice that it should, if the reader's does not hold yet.
func solution(_ context.Context, w *workspace.Workspace) error {
	e, err := firstOpen(w)
	if err != nil {
		return err
	}
	if isOpen(w, e) && os.Getenv("YES") != "1" {
		left, again := len(e.Hints)-w.Progress.Hints[e.Name], typed("solution", w, "ONLY="+e.Name, "YES=1")
		return fmt.Errorf("%s does not hold yet, and %d of its %d hints are left; "+
			"this shows the book's solution all the same: %s", e.Name, left, len(e.Hints), again)
	}
	mine, err := w.Answer(e)
	if err != nil {
		return err
	}
	if e.Scenario() {
		return show(w.Root, "labs/scenarios/"+e.Answer)
	}
	book := &workspace.Workspace{Chapter: w.Chapter, Dir: w.Root}
	ours, err := book.Answer(e)
	if err != nil {
		return err
	}
	if e.Whole() {
		for _, file := range ours.Files() {
			if err := show(w.Root, file); err != nil {
				return err
			}
		}
		return nil
	}
	for _, part := range ours {
		fmt.Printf("%s\n\n%s\n\n", part.File, part.Text)
		for _, my := range mine {
			if my.Name == part.Name && my.Text != part.Text && !slices.Contains(mine.Unwritten(), my.Name) {
				changes := diff.Diff("yours", []byte(my.Text+"\n"), "the book's", []byte(part.Text+"\n"))
				fmt.Printf("From yours to the book's:\n\n%s\n", changes)
			}
		}
	}
	return nil
}

func show(root, path string) error {
	text, err := os.ReadFile(filepath.Join(root, path))
	fmt.Printf("%s\n\n%s\n", path, text)
	return err
}

// progress sums up the workspaces below exercises/.
func progress(root string) error {
	dirs, _ := filepath.Glob(filepath.Join(root, "exercises", "*", ".book")) // the pattern is well-formed
	if len(dirs) == 0 {
		return fmt.Errorf("there is no workspace yet: make exercise-00 writes the first")
	}
	all, err := chapters.Read(root)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	passed, exercises, minutes := 0, 0, 0
	for _, dir := range dirs {
		w, err := workspace.Open(root, all, filepath.Dir(dir))
		if err != nil {
			return err
		}
		for _, e := range w.Exercises {
			if exercises++; isOpen(w, e) {
				minutes += e.Minutes
			} else {
				passed++
			}
			fmt.Fprintf(table, "%02d\t%s\t%s\t%d minutes\t%d of %d hints\n",
				w.Number, e.Name, mark(w, e), e.Minutes, w.Progress.Hints[e.Name], len(e.Hints))
		}
	}
	fmt.Fprintf(table, "\n%d of %d exercises hold; about %d minutes of writing are left in these chapters\n",
		passed, exercises, minutes)
	return table.Flush()
}
