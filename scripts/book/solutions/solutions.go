// Package solutions reads solutions of exercises other than the book's: wrong ones, each a likely misconception, and
// right ones that are written differently.
//
// Those of an exercise are in labs/NN-slug/wrong/EXERCISE.txtar, of which labs/TEACHING.md has an example.
//
// A diff says which lines of the book's solution give way to which. The lines that it begins with, without numbers,
// stand in one place of it only; a line with @@ separates two places.
package solutions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"
)

// Solutions are those of one exercise.
type Solutions struct {
	// Path is that of the file, relative to the root.
	Path  string
	Wrong []*Wrong
	Right []Right
}

// Wrong is a wrong solution.
type Wrong struct {
	// Name is that of the section without .diff.
	Name string
	// Misconception is what somebody thinks who writes this, in one line.
	Misconception string
	// CaughtBy is the behaviour that it does not show.
	CaughtBy string
	// Diff are the lines that differ, with what stands around them.
	Diff  string
	place string
}

// Right is a right solution: declarations that take the place of the book's.
type Right struct{ Name, Text string }

// Read returns the solutions of an exercise of a chapter. There may be none yet.
func Read(root, slug, exercise string) (*Solutions, error) {
	s := &Solutions{Path: "labs/" + slug + "/wrong/" + exercise + ".txtar"}
	text, err := os.ReadFile(filepath.Join(root, s.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	for _, file := range txtar.Parse(text).Files {
		switch name, kind, _ := strings.Cut(file.Name, "."); kind {
		case "diff":
			wrong, err := parseWrong(s.Path+", "+file.Name, name, string(file.Data))
			if err != nil {
				return nil, err
			}
			s.Wrong = append(s.Wrong, wrong)
		case "go":
			s.Right = append(s.Right, Right{name, string(file.Data)})
		default:
			return nil, fmt.Errorf("%s: %s is neither a wrong solution, NAME.diff, nor a right one, NAME.go", s.Path, file.Name)
		}
	}
	return s, nil
}

// Find returns the wrong solution of that name.
func (s *Solutions) Find(name string) (*Wrong, error) {
	var known []string
	for _, wrong := range s.Wrong {
		if wrong.Name == name {
			return wrong, nil
		}
		known = append(known, wrong.Name)
	}
	return nil, fmt.Errorf("%s has no %s.diff: there is %s", s.Path, name, cmp.Or(strings.Join(known, ", "), "none"))
}

var (
	head  = regexp.MustCompile(`^# (.+)\n# caught by: (.+)\n`)
	blank = regexp.MustCompile(`(?m)^\n`)
	// stray matches a line that is no part of a diff.
	stray = regexp.MustCompile(`(?m)^([^ +@-]|@[^@]).*`)
)

func parseWrong(place, name, text string) (*Wrong, error) {
	said := head.FindStringSubmatch(text)
	if said == nil {
		return nil, fmt.Errorf("%s: begin with two lines: # what somebody thinks who writes this, "+
			"and # caught by: the behaviour that it does not show", place)
	}
	diff := blank.ReplaceAllString(text[len(said[0]):], " \n")
	if line := stray.FindString(diff); line != "" {
		return nil, fmt.Errorf("%s: %q begins neither with a space nor with - or +", place, line)
	}
	return &Wrong{name, said[1], said[2], diff, place}, nil
}

// Apply returns texts, those of the exercise's declarations, with the wrong lines in place of the right ones.
func (w *Wrong) Apply(texts map[string]string) (map[string]string, error) {
	changed := maps.Clone(texts)
	for hunk := range strings.SplitSeq(w.Diff, "@@\n") {
		before, after := without(hunk, '+'), without(hunk, '-')
		if before == after {
			return nil, fmt.Errorf("%s changes nothing", w.place)
		}
		in, with, places := "", "", 0
		for name, text := range changed {
			rest := text
			for line := range strings.Lines(text) {
				if behind, found := strings.CutPrefix(rest, before); found {
					in, with, places = name, strings.TrimSuffix(text, rest)+after+behind, places+1
				}
				rest = rest[len(line):]
			}
		}
		if places != 1 {
			return nil, fmt.Errorf("%s: these lines stand in %d places of the book's solution and have to stand in one:\n%s",
				w.place, places, before)
		}
		changed[in] = with
	}
	return changed, nil
}

// without returns the lines of a hunk but for those that begin with a sign.
func without(hunk string, sign byte) string {
	kept := ""
	for line := range strings.Lines(hunk) {
		if line[0] != sign {
			kept += line[1:]
		}
	}
	return kept
}
