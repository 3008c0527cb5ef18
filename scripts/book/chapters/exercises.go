package chapters

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Exercise is a part of a chapter that the reader writes. A comment begins it:
//
//	<!-- exercise: bounds, 20 minutes, TestBounds TestABoundHolds -->
//
// and the next heading or exercise ends it. In between stand what is to be done, as a
// table of examples or a numbered list; hints, folded; and the code, in blocks whose
// info strings end with exercise.
//
// In an exercise of the other kind the reader gets a broken manager and writes the
// scenario that rejects it:
//
//	<!-- scenario: too-many, 30 minutes, decide/counts-deletions, replicaset/surplus.txtar -->
//
// What is broken may be of an earlier chapter, as in 06/decide/counts-deletions.
type Exercise struct {
	Chapter *Chapter
	// Place is that of the comment.
	Place
	Name    string
	Minutes int
	// Tests are the functions that check it, the quickest first.
	Tests []string
	// Broken is the wrong solution that the manager has, as EXERCISE/WRONG, and
	// Answer the script below labs/scenarios that rejects it. They are set where
	// the reader writes a scenario.
	Broken, Answer string
	// BrokenIn is the number of the chapter that has the wrong solution.
	BrokenIn int
	// Heading is that of the section, in which the rule stands.
	Heading string
	// Steps are the numbered list, if there is one.
	Steps []string
	Hints []Hint
	// Blocks hold the code.
	Blocks []*Block
	// Stub is the block with what the reader finds, or nil where there is to be none.
	Stub *Block
	// begin is the offset of the comment.
	begin int
}

// Hint is what helps somebody who is stuck.
type Hint struct{ Title, Text string }

// Scenario tells whether the reader writes a scenario, and no code.
func (e *Exercise) Scenario() bool { return e.Broken != "" }

// Whole tells whether the reader writes a package as a whole.
func (e *Exercise) Whole() bool { return len(e.Blocks) > 0 && e.Blocks[0].Whole() }

// Errorf returns an error about the exercise that begins with its path and line.
func (e *Exercise) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", e.Place, fmt.Errorf(format, args...))
}

// mark is a place in a chapter that an exercise can begin or end at, or its list.
type mark struct {
	offset  int
	heading string
	comment string
	list    []string
}

var exerciseComment = regexp.MustCompile(`(?s)<!--\s*((?:exercise|scenario):.*?)\s*-->`)

// addComments finds the comments that begin exercises in a part of the text.
func (c *Chapter) addComments(begin, end int) {
	for _, match := range exerciseComment.FindAllSubmatchIndex(c.Source[begin:end], -1) {
		c.marks = append(c.marks, mark{offset: begin + match[0], comment: string(c.Source[begin+match[2] : begin+match[3]])})
	}
}

func (c *Chapter) addHeading(node *ast.Heading) {
	if lines := node.Lines(); lines.Len() > 0 {
		c.marks = append(c.marks, mark{offset: lines.At(0).Start, heading: string(lines.Value(c.Source))})
	}
}

// addList adds a numbered list.
func (c *Chapter) addList(node *ast.List) {
	if !node.IsOrdered() {
		return
	}
	var items []string
	begin := 0
	for item := node.FirstChild(); item != nil; item = item.NextSibling() {
		lines := item.FirstChild().Lines()
		if lines.Len() == 0 {
			continue
		}
		if begin == 0 {
			begin = lines.At(0).Start
		}
		items = append(items, strings.Join(strings.Fields(string(lines.Value(c.Source))), " "))
	}
	c.marks = append(c.marks, mark{offset: begin, list: items})
}

// findExercises puts together what the marks say.
func (c *Chapter) findExercises() error {
	heading := ""
	for i, m := range c.marks {
		if m.heading != "" {
			heading = m.heading
		}
		if m.comment == "" {
			continue
		}
		e, err := c.exercise(m)
		if err != nil {
			return err
		}
		e.Heading = heading
		end := len(c.Source)
		for _, later := range c.marks[i+1:] {
			if later.heading != "" || later.comment != "" {
				end = later.offset
				break
			}
			if len(e.Steps) == 0 && !bytes.Contains(c.Source[m.offset:later.offset], []byte("<details>")) {
				e.Steps = later.list // one that is folded is a hint
			}
		}
		e.Hints = hintsIn(string(c.Source[m.offset:end]))
		for _, b := range c.Blocks {
			if b.Exercise() && m.offset < b.begin && b.begin < end {
				e.Blocks = append(e.Blocks, b)
			}
			if b.Stub() && m.offset < b.begin && b.begin < end {
				e.Stub = b
			}
		}
		if e.Stub == nil && !e.Scenario() && c.standsApart() {
			e.Stub = c.missingStub(m.offset)
		}
		if err := c.addExercise(e); err != nil {
			return err
		}
	}
	for _, b := range c.Blocks {
		if b.Exercise() && !slices.ContainsFunc(c.Exercises, func(e *Exercise) bool { return slices.Contains(e.Blocks, b) }) {
			return b.Errorf("the block belongs to no exercise: one begins with a comment like <!-- exercise: bounds, 20 minutes, TestBounds -->, below the same heading")
		}
	}
	return nil
}

// signatures is a block that the stub of an exercise replaces.
var signatures = regexp.MustCompile("^\n```(text|go)\nfunc [^`]*```\n")

// missingStub returns the block that is to stand behind the first paragraph of an
// exercise.
func (c *Chapter) missingStub(begin int) *Block {
	end := c.page(begin).end()
	b := &Block{Chapter: c, Info: []string{"go", "stub"}, Place: c.at(begin), Missing: true, begin: end, end: end, fence: "```"}
	if length := bytes.Index(c.Source[begin:end], []byte("\n\n")); length >= 0 {
		b.begin = begin + length + 1
		b.end = b.begin + len(signatures.Find(c.Source[b.begin:]))
	}
	return b
}

var (
	exerciseWords = regexp.MustCompile(`^exercise:\s*([a-z0-9-]+),\s*(\d+) minutes,\s*(Test\w+(?:\s+Test\w+)*)$`)
	scenarioWords = regexp.MustCompile(`^scenario:\s*([a-z0-9-]+),\s*(\d+) minutes,\s*(?:(\d\d)/)?([a-z0-9-]+/[a-z0-9-]+),\s*(\S+\.txtar)$`)
)

func (c *Chapter) exercise(m mark) (*Exercise, error) {
	e := &Exercise{Chapter: c, Place: c.at(m.offset), begin: m.offset}
	if words := exerciseWords.FindStringSubmatch(m.comment); words != nil {
		e.Name, e.Tests = words[1], strings.Fields(words[3])
		e.Minutes, _ = strconv.Atoi(words[2]) // digits, by the expression
		return e, nil
	}
	if words := scenarioWords.FindStringSubmatch(m.comment); words != nil {
		e.Name, e.Broken, e.Answer = words[1], words[4], words[5]
		e.Minutes, _ = strconv.Atoi(words[2])
		e.BrokenIn = c.Number
		if words[3] != "" {
			e.BrokenIn, _ = strconv.Atoi(words[3])
		}
		return e, nil
	}
	return nil, e.Errorf("%q is no exercise: write <!-- exercise: bounds, 20 minutes, TestBounds TestABoundHolds --> "+
		"or <!-- scenario: too-many, 30 minutes, decide/counts-deletions, replicaset/surplus.txtar -->", m.comment)
}

// addExercise adds an exercise that has all it needs.
func (c *Chapter) addExercise(e *Exercise) error {
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
	case slices.ContainsFunc(e.Blocks, func(b *Block) bool { return b.Whole() != e.Whole() }):
		return e.Errorf("the exercise %s is a whole package or it is not: its blocks end with whole or with exercise, all of them", e.Name)
	}
	c.Exercises = append(c.Exercises, e)
	return nil
}

// folded matches what a reader unfolds: its title and what is in it.
var folded = regexp.MustCompile(`(?s)<details><summary>([^\n]*)</summary>\n\n(.*?)\n\n</details>\n`)

func hintsIn(section string) []Hint {
	var hints []Hint
	for _, match := range folded.FindAllStringSubmatch(section, -1) {
		if strings.HasPrefix(match[1], "Hint") {
			hints = append(hints, Hint{match[1], match[2]})
		}
	}
	return hints
}

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
