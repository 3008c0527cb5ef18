package chapters

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Size is what a reader of a page meets without unfolding anything.
type Size struct {
	// Words are those of the prose, Go and Sessions the lines of code of kcm or a lab and of what is typed in a terminal.
	// Lines are all that the page has, Open those that are not folded.
	Words, Go, Sessions, Lines, Open int
}

// Bounds are what a page of a lesson may have at most.
var Bounds = Size{Words: 6000, Go: 400, Sessions: 120}

// Size counts what the page shows.
func (p *Page) Size() Size {
	var size Size
	fence, folded := "", 0
	for line := range strings.Lines(string(WithoutTurn(p.Source))) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case fence == "" && strings.HasPrefix(trimmed, "<details"):
			folded++
		case fence == "" && strings.HasPrefix(trimmed, "</details"):
			folded--
		case fence == "" && strings.HasPrefix(trimmed, "```"):
			fence = strings.TrimLeft(trimmed, "`") + " "
		case strings.HasPrefix(trimmed, "```"):
			fence = ""
		case folded > 0 || strings.HasPrefix(trimmed, "<"):
		case fence == "":
			size.Words += len(strings.Fields(line))
		case strings.HasPrefix(fence, "go kcm"), strings.HasPrefix(fence, "go labs"), strings.HasPrefix(fence, "diff kcm"):
			size.Go++
		case strings.HasPrefix(fence, "console ") || strings.HasPrefix(fence, "sh "):
			size.Sessions++
		}
		if size.Lines++; folded == 0 {
			size.Open++
		}
	}
	return size
}

// seconds is how long a reader takes: 150 words or 12 lines a minute, as those have who have read the book and said so.
func (s Size) seconds() int { return s.Words*60/150 + (s.Go+s.Sessions)*60/12 }

// Table prints how much a reader meets on the pages of the lessons.
func Table(all []*Chapter, out io.Writer) {
	const row = "%-48v %6v %5v %9v %6v %6v %8v\n"
	fmt.Fprintf(out, row, "", "words", "Go", "sessions", "lines", "open", "minutes")
	var sum Size
	for _, c := range all {
		for _, p := range c.Pages {
			if size := p.Size(); !p.Code() {
				fmt.Fprintf(out, row, strings.TrimPrefix(p.Path, "chapters/"), size.Words, size.Go, size.Sessions,
					size.Lines, size.Open, (size.seconds()+30)/60)
				sum = Size{sum.Words + size.Words, sum.Go + size.Go, sum.Sessions + size.Sessions,
					sum.Lines + size.Lines, sum.Open + size.Open}
			}
		}
	}
	fmt.Fprintf(out, row, "all", sum.Words, sum.Go, sum.Sessions, sum.Lines, sum.Open, sum.seconds()/60)
}

// Exceeds says what of a page is too long, or "".
func (s Size) Exceeds(bounds Size) string {
	var said []string
	say := func(is, most int, of string) {
		if is > most {
			said = append(said, fmt.Sprintf("%d %s, and may have %d", is, of, most))
		}
	}
	say(s.Words, bounds.Words, "words of prose")
	say(s.Go, bounds.Go, "visible lines of Go")
	say(s.Sessions, bounds.Sessions, "visible lines of sessions")
	return strings.Join(said, ", ")
}

var duration = regexp.MustCompile(`(?m)^<sub>To read: .*</sub>$`)

// Timed tells whether the first page has the line that says how long the chapter takes, or need not have it.
func (c *Chapter) Timed() bool { return !c.standsApart() || duration.Match(c.Pages[0].Source) }

// timed returns the texts of the pages with the line, where there is one, that says how long a reader takes for the
// lesson, and how long with its lab and with its exercises, by what they state.
func (c *Chapter) timed(texts [][]byte) [][]byte {
	seconds := 0
	for i, text := range texts {
		if !c.Pages[i].Code() {
			seconds += (&Page{Source: text}).Size().seconds()
		}
	}
	reading := (seconds/60 + 4) / 5 * 5
	all := reading + 5
	for _, e := range c.Exercises {
		all += e.Minutes
	}
	const takes = "<sub>To read: about %d minutes. With its exercises and the lab: about %d.</sub>"
	texts[0] = duration.ReplaceAll(texts[0], fmt.Appendf(nil, takes, reading, all))
	return texts
}
