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
	book, err := weave.Open(w.Root)
	if err != nil {
		return err
	}
	all, err := book.Exercises(w.Chapter)
	if err != nil {
		return err
	}
	for _, ours := range all {
		if ours.Name != e.Name || ours.Chapter.Number != w.Chapter {
			continue
		}
		if e.Scenario() {
			return showScenario(w, e)
		}
		mine, err := w.Texts(e)
		if err != nil {
			return err
		}
		if e.Whole {
			return showPackage(w.Root, ours)
		}
		for _, f := range ours.Functions {
			fmt.Printf("%s/%s\n\n%s\n", ours.Dir, f.File, f.Text)
			if text := mine[f.Name]; text != "" && len(e.Unwritten(map[string]string{f.Name: text})) < len(e.Functions) && text+"\n" != f.Text {
				fmt.Printf("From yours to the book's:\n\n%s\n", diff.Diff("yours", []byte(text+"\n"), "the book's", []byte(f.Text)))
			}
		}
	}
	return nil
}

// showPackage shows the book's files of a package that is written as a whole.
func showPackage(root string, e *weave.Exercise) error {
	var files []string
	for _, f := range e.Functions {
		if !slices.Contains(files, f.File) {
			files = append(files, f.File)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, e.Dir, file))
		if err != nil {
			return err
		}
		fmt.Printf("%s/%s\n\n%s\n", e.Dir, file, text)
	}
	return nil
}

func showScenario(w *workspace.Workspace, e *workspace.Exercise) error {
	text, err := os.ReadFile(w.Root + "/labs/scenarios/" + e.Answer)
	if err != nil {
		return err
	}
	fmt.Printf("labs/scenarios/%s\n\n%s", e.Answer, text)
	return nil
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
