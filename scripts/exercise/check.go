package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// limit is how long the checks of one function of tests may take, and soon when they are ended that only wait.
const (
	limit = 20 * time.Second
	soon  = 5 * time.Second
)

// check says what holds, exercise by exercise, and shows the first thing that does not, or with ALL=1 each. Then,
// where CLUSTER is set and all holds, it goes to a cluster.
func check(ctx context.Context, w *workspace.Workspace) error {
	exercises, err := w.Choose(os.Getenv("ONLY"))
	if err != nil {
		return err
	}
	c := &checker{w: w, programs: map[string]*behaviours.Program{}, overlay: map[string]string{},
		broken: map[string]string{}, all: os.Getenv("ALL") == "1"}
	if c.temp, err = os.MkdirTemp("", "check-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.temp)
	code := 0
	for _, e := range exercises {
		if e.Scenario() {
			continue
		}
		code++
		if err := c.check(ctx, e); err != nil {
			return err
		}
	}
	if err := w.Save(); err != nil {
		return err
	}
	c.sumUp(exercises)
	switch cluster := os.Getenv("CLUSTER"); {
	case c.open > 0:
		return errNotYet
	case cluster != "":
		return onCluster(ctx, w, exercises)
	case code == 0:
		again := typed("check", w, "ONLY="+exercises[0].Name, "CLUSTER=embedded")
		fmt.Printf("\nA scenario is checked on a cluster: %s\n", again)
	case len(exercises) < len(w.Exercises):
		fmt.Printf("\nIt holds. All of the chapter: %s\n", typed("check", w))
	default:
		fmt.Printf("\nAll code holds. Then on a cluster: %s\n", typed("check", w, "CLUSTER=embedded"))
	}
	return nil
}

type checker struct {
	w        *workspace.Workspace
	temp     string
	programs map[string]*behaviours.Program
	// broken has what the compiler says, by file of the reader's, or by directory where no such file alone is why.
	// overlay has what is read in place of a broken file: the file as it was written, so that it blocks no other.
	broken, overlay map[string]string
	// all says that each thing that does not hold is shown, and not the first alone,
	// told that one has been, and untold counts those that have not.
	all, told bool
	untold    int
	open      int
}

// check checks an exercise. What an earlier check has found of it is forgotten.
func (c *checker) check(ctx context.Context, e *chapters.Exercise) error {
	c.w.Progress.Held[e.Name] = [2]int{}
	delete(c.w.Progress.Passed, e.Name)
	c.open++
	answer, err := c.w.Answer(e)
	if err != nil {
		fmt.Printf("\n%s\n  ✗ %v\n", e.Name, err)
		return nil
	}
	if names := answer.Unwritten(); len(names) > 0 {
		files := strings.Join(answer.Files(), ", ")
		fmt.Printf("\n%s: not written yet: %s (%d minutes, %s)\n", e.Name, strings.Join(names, ", "), e.Minutes, files)
		return nil
	}
	program := c.program(ctx, e)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("\n%s\n", e.Name)
	for _, path := range append(answer.Files(), e.Blocks[0].Package) {
		if said := c.broken[path]; said != "" {
			fmt.Printf("  ✗ %s does not compile\n\n%s\n", path, indented(said, "      "))
			return nil
		}
	}
	return c.run(ctx, e, answer, program)
}

func (c *checker) run(
	ctx context.Context, e *chapters.Exercise, answer workspace.Answer, program *behaviours.Program,
) error {
	own := *program // the others of the package have functions of theirs
	for _, part := range answer {
		own.Own = append(own.Own, part.Name)
	}
	held, all := 0, 0
	// A history is the better answer, where there is one.
	history := func(test string) int { return len(lateCache.FindString(test)) }
	tests := slices.SortedStableFunc(slices.Values(e.Tests), func(a, b string) int { return history(b) - history(a) })
	if err := own.Run(ctx, tests, func(b behaviours.Behaviour) {
		if all++; b.Holds {
			held++
		}
		c.tell(e, b)
	}); err != nil {
		return err
	}
	c.w.Progress.Held[e.Name] = [2]int{held, all}
	if held == all {
		c.open--
		c.w.Progress.Passed[e.Name] = answer.Sum()
	}
	return nil
}

// program returns the tests of a package, compiled without the files of the reader's that the compiler refuses, or
// nil where that is no help.
func (c *checker) program(ctx context.Context, e *chapters.Exercise) *behaviours.Program {
	dir, flags := e.Blocks[0].Package, c.flags(e)
	key := strings.ReplaceAll(strings.Join(append(flags, dir), ""), "/", "-")
	for c.programs[key] == nil && c.broken[dir] == "" {
		program, err := behaviours.Build(ctx, c.w.Dir, dir, c.overlay, filepath.Join(c.temp, key), flags...)
		if err == nil {
			program.Limit, program.Soon = limit, soon
			c.programs[key] = program
			break
		}
		if flags != nil && strings.HasPrefix(err.Error(), "go: -race") {
			flags = nil // there is no C compiler, which the reader need not have
			continue
		}
		refused := map[string]string{}
		for _, m := range complaint.FindAllStringSubmatch(err.Error(), -1) {
			if refused[m[1]] != "" || c.w.WithoutFile(m[1], c.overlay) {
				refused[m[1]] += m[0]
			}
		}
		if maps.Copy(c.broken, refused); len(refused) == 0 {
			c.broken[dir] = err.Error()
		}
	}
	return c.programs[key]
}

// flags are those with which the tests of an exercise are compiled: where one of them has "//exercise:race" above it,
// that they find data races. That costs a model with late caches seconds, and the others nothing that one notices.
func (c *checker) flags(e *chapters.Exercise) (flags []string) {
	source := behaviours.Source(filepath.Join(c.w.Dir, e.Blocks[0].Package))
	for _, test := range e.Tests {
		if strings.Contains(source, "//exercise:race\nfunc "+test+"(") {
			return []string{"-race"}
		}
	}
	return nil
}

// complaint is what the compiler says of a file: a line, and those that continue it.
var complaint = regexp.MustCompile(`(?m)^(\S+\.go):\d+.*\n?(?:\t.*\n?)*`)

func (c *checker) tell(e *chapters.Exercise, b behaviours.Behaviour) {
	needed := behaviours.Needs(b.Said)
	switch {
	case b.Holds:
		fmt.Printf("  ✓ %s\n", behaviours.Sentence(b.Test))
	case needed != "" && needed != e.Name:
		fmt.Printf("  – %s (needs %s first)\n", behaviours.Sentence(b.Test), needed)
	case c.told && !c.all:
		c.untold++
		fmt.Printf("  ✗ %s\n", behaviours.Sentence(b.Test))
	default:
		c.told = true
		fmt.Printf("  ✗ %s\n%s", behaviours.Sentence(b.Test), c.explain(e, b))
	}
}

// explain says of a behaviour that does not hold what was expected, what was seen, and where the rule stands.
func (c *checker) explain(e *chapters.Exercise, b behaviours.Behaviour) string {
	var out strings.Builder
	for _, part := range behaviours.Tell(b.Said) {
		out.WriteString("\n" + indented(part, "      "))
	}
	page := filepath.Join(relative(c.w.Root, c.w.Dir), path.Base(e.Path))
	fmt.Fprintf(&out, "\n\n      The rule: “%s”, in %s\n", e.Heading, page)
	var others []string
	for _, other := range c.w.Exercises {
		if lateCache.MatchString(b.Test) && other != e && !other.Scenario() && isOpen(c.w, other) {
			others = append(others, fmt.Sprintf("%s (“%s”)", other.Name, other.Heading))
		}
	}
	if others != nil {
		fmt.Fprintf(&out, "      All of the loop took part, and not all has passed: %s\n", strings.Join(others, ", "))
	}
	return out.String() + "\n"
}

// lateCache are tests that tell a history: the whole loop on caches that are behind.
var lateCache = regexp.MustCompile(`OnA?LateCaches?(/|$)`)

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
func (c *checker) sumUp(exercises []*chapters.Exercise) {
	var parts []string
	stuck := ""
	for _, e := range exercises {
		parts = append(parts, e.Name+" "+mark(c.w, e))
		if stuck == "" && !e.Scenario() && isOpen(c.w, e) {
			stuck = e.Name
		}
	}
	fmt.Printf("\n%s\n", strings.Join(parts, " · "))
	if c.untold > 0 {
		settings := []string{"ALL=1"}
		if len(exercises) == 1 {
			settings = []string{"ONLY=" + exercises[0].Name, "ALL=1"}
		}
		fmt.Printf("what each ✗ expected and saw, %d more: %s\n", c.untold, typed("check", c.w, settings...))
	}
	if stuck != "" {
		fmt.Printf("stuck with %s? %s\n", stuck, typed("hint", c.w, "ONLY="+stuck))
	}
}

// mark says in a word how far an exercise is.
func mark(w *workspace.Workspace, e *chapters.Exercise) string {
	held := w.Progress.Held[e.Name]
	switch {
	case !isOpen(w, e):
		return "✓"
	case e.Scenario():
		return "– (on a cluster)"
	case held[1] == 0:
		return "–"
	}
	return fmt.Sprintf("%d of %d", held[0], held[1])
}
