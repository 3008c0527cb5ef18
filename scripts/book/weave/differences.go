package weave

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// differencesPage lists where kcm differs from the original on purpose.
const differencesPage = "chapters/where-kcm-differs.md"

var (
	// leavesOut is a line of a script that leaves the original out: a whole
	// scenario, or a step of a lab.
	leavesOut = regexp.MustCompile(`(?m)^(\[reference\] skip|only kcm) `)
	// scriptLink is a link to a script: its words and the path in the repository.
	scriptLink = regexp.MustCompile(`\[([^\]]+)\]\(\.\./(labs/[^)]+\.txtar)\)`)
)

// checkDifferences finds what is played with kcm alone and is not on the page, and
// what the page lists although the original plays it. A scenario is known by its
// path, and a step of a lab by its sentence, which are the words of the link.
func checkDifferences(root string) []error {
	played, err := playedWithKcmAlone(root)
	if err != nil {
		return []error{err}
	}
	page, err := os.ReadFile(filepath.Join(root, differencesPage))
	if err != nil && len(played) > 0 {
		return []error{fmt.Errorf("%w: it has to list what is played with kcm alone", err)}
	}
	listed := map[string]bool{}
	for _, match := range scriptLink.FindAllStringSubmatch(string(page), -1) {
		words, path := match[1], match[2]
		if filepath.Base(path) == "lab.txtar" {
			path += ": " + words
		}
		listed[path] = true
	}
	var mistakes []error
	for _, what := range slices.Sorted(maps.Keys(played)) {
		if !listed[what] {
			mistakes = append(mistakes, fmt.Errorf("%s does not say why the original is left out of %s", differencesPage, what))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(listed)) {
		if !played[what] {
			mistakes = append(mistakes, fmt.Errorf("%s lists %s, and nothing of that name leaves the original out", differencesPage, what))
		}
	}
	return mistakes
}

// playedWithKcmAlone returns the scenarios, and the steps of labs, that leave the
// original out.
func playedWithKcmAlone(root string) (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(root, "labs", "*", "*.txtar"))
	if err != nil {
		return nil, err
	}
	scenarios, err := filepath.Glob(filepath.Join(root, "labs", "scenarios", "*", "*.txtar"))
	if err != nil {
		return nil, err
	}
	alone := map[string]bool{}
	for _, path := range append(paths, scenarios...) {
		script, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/")
		for i, part := range strings.Split("\n"+string(script), "\nstep ") {
			if !leavesOut.MatchString(part) {
				continue
			}
			if sentence, _, _ := strings.Cut(part, "\n"); i > 0 {
				alone[name+": "+sentence] = true
			} else {
				alone[name] = true
			}
		}
	}
	return alone, nil
}
