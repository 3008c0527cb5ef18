package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// limit is how long the checks of one function of tests may take.
const limit = 20 * time.Second

// check says what holds, exercise by exercise, and shows the first thing that does
// not, or with ALL=1 each. Then, where CLUSTER is set and all holds, it goes to a
// cluster.
func check(ctx context.Context, w *workspace.Workspace) error {
	exercises, err := chosen(w)
	if err != nil {
		return err
	}
	c := &checker{w: w, built: map[string]built{}, all: os.Getenv("ALL") == "1"}
	if c.temp, err = os.MkdirTemp("", "check-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.temp)
	for _, e := range exercises {
		if e.Scenario() {
			continue
		}
		if err := c.check(ctx, e); err != nil {
			return err
		}
	}
	if err := w.Save(); err != nil {
		return err
	}
	c.sumUp(exercises)
	onlyScenarios := !slices.ContainsFunc(exercises, func(e *workspace.Exercise) bool { return !e.Scenario() })
	switch cluster := os.Getenv("CLUSTER"); {
	case c.open > 0:
		return errNotYet
	case cluster != "":
		return onCluster(ctx, w, exercises)
	case onlyScenarios:
		fmt.Printf("\nA scenario is checked on a cluster: %s\n", typed("check", w.Chapter, "ONLY="+exercises[0].Name, "CLUSTER=embedded"))
	case len(exercises) < len(w.Exercises):
		fmt.Printf("\nIt holds. All of the chapter: %s\n", typed("check", w.Chapter))
	default:
		fmt.Printf("\nAll code holds. Then on a cluster: %s\n", typed("check", w.Chapter, "CLUSTER=embedded"))
	}
	return nil
}

// checker checks the exercises of a workspace.
type checker struct {
	w     *workspace.Workspace
	temp  string
	built map[string]built // by directory
	// all says that each thing that does not hold is shown, and not the first alone,
	// told that one has been, and untold counts those that have not.
	all, told bool
	untold    int
	open      int
}

func (c *checker) check(ctx context.Context, e *workspace.Exercise) error {
	texts, err := c.w.Texts(e)
	if err != nil {
		c.open++
		c.failed(e)
		fmt.Printf("\n%s\n  ✗ %v\n", e.Name, err)
		return nil
	}
	if names := e.Unwritten(texts); len(names) > 0 {
		c.open++
		c.w.Progress.Held[e.Name] = [2]int{}
		fmt.Printf("\n%s: %s not written yet (%d minutes, %s)\n", e.Name, isAre(names), e.Minutes, strings.Join(e.Files, ", "))
		return nil
	}
	_, tried := c.built[e.Dir]
	program, err := c.build(ctx, e)
	if err != nil {
		c.open++
		c.failed(e)
		if !tried {
			fmt.Printf("\n%s does not compile\n%s\n", e.Dir, indented(err.Error(), "    "))
		}
		return ctx.Err()
	}
	fmt.Printf("\n%s\n", e.Name)
	held, all := 0, 0
	err = program.Run(ctx, e.Tests, func(b behaviours.Behaviour) {
		all++
		if b.Holds {
			held++
			fmt.Printf("  ✓ %s\n", b.Sentence())
			return
		}
		if needed := behaviours.Needs(b.Said); needed != "" && needed != e.Name {
			fmt.Printf("  – %s (needs %s, which is not written yet)\n", b.Sentence(), needed)
			return
		}
		fmt.Printf("  ✗ %s\n", b.Sentence())
		if c.told && !c.all {
			c.untold++
			return
		}
		c.told = true
		fmt.Print(c.explain(e, b))
	})
	if err != nil {
		return err
	}
	c.w.Progress.Held[e.Name] = [2]int{held, all}
	if held < all || all == 0 {
		c.open++
		delete(c.w.Progress.Passed, e.Name)
		return nil
	}
	c.w.Progress.Passed[e.Name] = workspace.Sum(texts)
	return nil
}

// failed takes back what an earlier check has found of an exercise that cannot be
// looked at now.
func (c *checker) failed(e *workspace.Exercise) {
	c.w.Progress.Held[e.Name] = [2]int{}
	delete(c.w.Progress.Passed, e.Name)
}

func isAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " are"
}

// built is a package's tests, or why they do not compile.
type built struct {
	program *behaviours.Program
	err     error
}

// build compiles the tests of the exercise's package, once.
func (c *checker) build(ctx context.Context, e *workspace.Exercise) (*behaviours.Program, error) {
	b, done := c.built[e.Dir]
	if !done {
		b.program, b.err = behaviours.Build(ctx, c.w.Dir, e.Dir, filepath.Join(c.temp, strings.ReplaceAll(e.Dir, "/", "-")))
		if b.err == nil {
			b.program.Limit = limit
		}
		c.built[e.Dir] = b
	}
	return b.program, b.err
}

// explain says of a behaviour that does not hold what was expected, what was seen,
// and where the rule stands.
func (c *checker) explain(e *workspace.Exercise, b behaviours.Behaviour) string {
	var out strings.Builder
	for _, part := range behaviours.Tell(b.Said) {
		out.WriteString("\n" + indented(part, "      "))
	}
	fmt.Fprintf(&out, "\n\n      The rule: “%s”, in %s\n\n", e.Rule, filepath.Join(relative(c.w.Root, c.w.Dir), e.Page))
	return out.String()
}

// longest is how many lines of what a test prints are shown, and widest how much of
// each: an object that is printed whole hides what is said of it.
const (
	longest = 40
	widest  = 400
)

func indented(text, by string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > widest {
			lines[i] = string(runes[:widest]) + " …"
		}
	}
	if more := len(lines) - longest; more > 0 {
		lines = append(lines[:longest], fmt.Sprintf("... and %d lines more", more))
	}
	return by + strings.Join(lines, "\n"+by)
}

// sumUp says in one line how far each exercise is.
func (c *checker) sumUp(exercises []*workspace.Exercise) {
	var parts []string
	for _, e := range exercises {
		held := c.w.Progress.Held[e.Name]
		switch {
		case e.Scenario() && isOpen(c.w, e):
			parts = append(parts, e.Name+" – (on a cluster)")
		case e.Scenario():
			parts = append(parts, e.Name+" ✓")
		case held[1] == 0:
			parts = append(parts, e.Name+" –")
		case held[0] == held[1]:
			parts = append(parts, e.Name+" ✓")
		default:
			parts = append(parts, fmt.Sprintf("%s %d of %d", e.Name, held[0], held[1]))
		}
	}
	fmt.Printf("\n%s\n", strings.Join(parts, " · "))
	if c.untold > 0 {
		var only []string
		if len(exercises) == 1 {
			only = []string{"ONLY=" + exercises[0].Name}
		}
		fmt.Printf("what each ✗ expected and saw, %d more: %s\n", c.untold, typed("check", c.w.Chapter, append(only, "ALL=1")...))
	}
	if i := slices.IndexFunc(exercises, func(e *workspace.Exercise) bool { return !e.Scenario() && isOpen(c.w, e) }); i >= 0 {
		fmt.Printf("stuck with %s? %s\n", exercises[i].Name, typed("hint", c.w.Chapter, "ONLY="+exercises[i].Name))
	}
}
