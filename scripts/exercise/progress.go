package main

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

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
			mark := "–"
			held := w.Progress.Held[e.Name]
			switch {
			case !isOpen(w, e):
				mark = "✓"
				passed++
			case held[1] > 0:
				mark = fmt.Sprintf("%d of %d", held[0], held[1])
				minutes += e.Minutes
			default:
				minutes += e.Minutes
			}
			all++
			fmt.Fprintf(table, "%02d\t%s\t%s\t%d minutes\t%d of %d hints\n", w.Chapter, e.Name, mark, e.Minutes, w.Progress.Hints[e.Name], len(e.Hints))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d exercises hold; about %d minutes are left in these chapters\n", passed, all, minutes)
	return nil
}
