package chapters

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Exercise is a part of a chapter that the reader writes, or a broken manager for which the reader writes the scenario
// that rejects it. A comment begins it, as CONTRIBUTING.md says, and the next heading or exercise ends it.
type Exercise struct {
	Chapter *Chapter
	// Place is that of the comment.
	Place
	Name    string
	Minutes int
	// Tests are the functions that check it, the quickest first.
	Tests []string
	// Broken is the wrong solution that the manager has, as EXERCISE/WRONG, and Answer the script below labs/scenarios
	// that rejects it. They are set where the reader writes a scenario.
	Broken, Answer string
	// BrokenIn is the number of the chapter that has the wrong solution.
	BrokenIn int
	// Heading is that of the section, in which the rule stands.
	Heading string
	Hints   []Hint
	// Blocks hold the code.
	Blocks []*Block
	// Stub is the block with what the reader finds, or nil where there is to be none.
	Stub *Block
	// begin is the line of the comment, counted from 0, page where it stands, and before the number of blocks before it.
	begin, before int
	page          *Page
}

// Hint is what helps somebody who is stuck.
type Hint struct{ Title, Text string }

// Scenario tells whether the reader writes a scenario, and no code.
func (e *Exercise) Scenario() bool { return e.Broken != "" }

// LacksStub tells whether the lesson does not show what the reader finds, although the rest of the code is elsewhere.
func (e *Exercise) LacksStub() bool {
	return e.Stub == nil && !e.Scenario() && e.Chapter.standsApart()
}

// Whole tells whether the reader writes a package as a whole.
func (e *Exercise) Whole() bool { return len(e.Blocks) > 0 && e.Blocks[0].Whole }

func (c *Chapter) addToExercise(b *Block) error {
	switch {
	case b.Exercise && c.current == nil:
		return b.Errorf("the block belongs to no exercise: one begins with a comment like " +
			"<!-- exercise: bounds, 20 minutes, TestBounds -->, below the same heading")
	case b.Exercise:
		c.current.Blocks = append(c.current.Blocks, b)
	case b.Stub && c.current != nil:
		c.current.Stub = b
	}
	return nil
}

var (
	exerciseWords = regexp.MustCompile(`^exercise:\s*([a-z0-9-]+),\s*(\d+) minutes,\s*(Test\w+(?:\s+Test\w+)*)$`)
	scenarioWords = regexp.MustCompile(`^scenario:\s*([a-z0-9-]+),\s*(\d+) minutes,` +
		`\s*(?:(\d\d)/)?([a-z0-9-]+/[a-z0-9-]+),\s*(\S+\.txtar)$`)
)

func (c *Chapter) beginExercise(said string, p *Page, line int) error {
	if err := c.endExercise(line); err != nil {
		return err
	}
	e := &Exercise{Chapter: c, Place: p.place(line), Heading: c.heading, BrokenIn: c.Number,
		begin: line, before: len(c.Blocks), page: p}
	words := exerciseWords.FindStringSubmatch(said)
	if words != nil {
		e.Tests = strings.Fields(words[3])
	} else if words = scenarioWords.FindStringSubmatch(said); words != nil {
		e.Broken, e.Answer = words[4], words[5]
		if words[3] != "" {
			e.BrokenIn, _ = strconv.Atoi(words[3]) // digits, by the expression
		}
	} else {
		return e.Errorf("%q is no exercise: write <!-- exercise: bounds, 20 minutes, TestBounds TestABoundHolds --> "+
			"or <!-- scenario: too-many, 30 minutes, decide/counts-deletions, replicaset/surplus.txtar -->", said)
	}
	e.Name = words[1]
	e.Minutes, _ = strconv.Atoi(words[2])
	c.current = e
	return nil
}

// endExercise adds the exercise that ends before a line, if it has all it needs.
func (c *Chapter) endExercise(end int) error {
	e := c.current
	if c.current = nil; e == nil {
		return nil
	}
	for _, match := range foldedHint.FindAllStringSubmatch(e.page.text(e.begin, end), -1) {
		e.Hints = append(e.Hints, Hint{match[1], match[2]})
	}
	for _, other := range c.Exercises {
		if other.Name == e.Name {
			return e.Errorf("a second exercise %s; the first is %s", e.Name, other.Place)
		}
	}
	switch {
	case len(e.Hints) == 0:
		return e.Errorf("the exercise %s has no hint: fold one, <details><summary>Hint 1: ...</summary>", e.Name)
	case !e.Scenario() && len(e.Blocks) == 0:
		return e.Errorf("the exercise %s has no code: fold a block whose info string ends with exercise", e.Name)
	case slices.ContainsFunc(e.Blocks, func(b *Block) bool { return b.Whole != e.Whole() }):
		return e.Errorf("the exercise %s is a whole package or it is not: "+
			"its blocks end with whole or with exercise, all of them", e.Name)
	}
	c.Exercises = append(c.Exercises, e)
	return nil
}

// foldedHint matches a hint: its title and its text.
var foldedHint = regexp.MustCompile(`(?s)<details><summary>(Hint[^\n]*)</summary>\n\n(.*?)\n\n</details>\n`)

// WithoutAnswers returns the page without what is folded as an answer: the code
// of exercises, what goes wrong in them, and the answers to questions.
func (p *Page) WithoutAnswers() string {
	var out strings.Builder
	inside := 0 // how many folded parts deep the answer is
	for line := range strings.Lines(string(p.Source)) {
		text := strings.TrimLeft(line, " ") // in a list it is indented
		opens := strings.HasPrefix(text, "<details>")
		switch {
		case inside > 0 && opens:
			inside++
		case inside > 0 && strings.HasPrefix(text, "</details>"):
			inside--
		case inside == 0 && opens && answer.MatchString(text):
			inside = 1
		case inside == 0:
			out.WriteString(line)
		}
	}
	return manyLines.ReplaceAllString(out.String(), "\n\n")
}

var (
	answer    = regexp.MustCompile(`^<details><summary>(The code|Answer|How it goes wrong)`)
	manyLines = regexp.MustCompile(`\n{3,}`)
)
