package behaviours

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Outcome is what a run of some tests has shown.
type Outcome struct {
	// Order are the tests in the order in which they began.
	Order []string
	// Results are PASS, FAIL or SKIP by test; one that has not ended has none.
	Results map[string]string
	// Passed tells whether the program has ended by itself and without a failure.
	Passed bool
	// Late and TooMuch say why it was ended: after the time that it had, or because of what it printed.
	Late, TooMuch bool

	output string
	// hangs tells that it certainly was not slow, and where says what it waited for.
	hangs bool
	where string
}

const (
	// maxSaid is how much is kept of what a run has printed, maxPrinted what it may print.
	maxSaid    = 64 << 10
	maxPrinted = 8 << 20
)

// printed keeps what a program prints, and ends it if that is too much.
type printed struct {
	text bytes.Buffer
	stop func()
}

func (p *printed) Write(text []byte) (int, error) {
	if p.text.Len() > maxPrinted {
		p.stop()
		return len(text), nil
	}
	return p.text.Write(text)
}

// marked is a line that says which test begins, lets others go first, goes on or ends: with -test.v=test2json it begins
// with a mark, wherever the line before ends.
var marked = regexp.MustCompile(`\x16(?:=== (RUN|PAUSE|CONT)|--- (PASS|FAIL|SKIP):) +(\S+)`)

func read(output string) *Outcome {
	output, dump, _ := strings.Cut(output, "\nSIGQUIT: quit\n")
	o := &Outcome{Results: map[string]string{}, output: strings.ReplaceAll(output, "\x16", "")}
	o.where, o.hangs = hang(dump)
	paused := map[string]bool{}
	for _, match := range marked.FindAllStringSubmatch(output, -1) {
		switch test := match[3]; match[1] {
		case "RUN":
			o.Order = append(o.Order, test)
		case "":
			o.Results[test] = match[2]
		default:
			paused[test] = match[1] == "PAUSE"
		}
	}
	hung := func(test string) bool { return o.Results[test] == "" && !paused[test] }
	if dump != "" && slices.ContainsFunc(o.Behaviours(), hung) { // it is not what has not begun
		o.Order = slices.DeleteFunc(o.Order, func(test string) bool { return paused[test] })
	}
	return o
}

// Said returns what was printed, but for the middle of what is long.
func (o *Outcome) Said() string {
	if over := len(o.output) - maxSaid; over > 0 {
		return o.output[:maxSaid/2] + "\n...\n" + o.output[over+maxSaid/2:]
	}
	return o.output
}

// Behaviours returns the tests without subtests that have begun.
func (o *Outcome) Behaviours() []string {
	return slices.DeleteFunc(slices.Clone(o.Order), func(test string) bool {
		return slices.ContainsFunc(o.Order, func(other string) bool { return strings.HasPrefix(other, test+"/") })
	})
}

// complete tells whether the program has run to its end: a panic leaves out what has not begun.
func (o *Outcome) complete() bool {
	return !o.Late && !o.TooMuch && len(o.Order) > 0 && o.Crash() == "" &&
		!slices.ContainsFunc(o.Order, func(test string) bool { return o.Results[test] == "" })
}

var crashed = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)

// Crash returns the line that says why the program has crashed, or "".
func (o *Outcome) Crash() string { return crashed.FindString(o.output) }

// why says how a program came to its end that did not run to it.
func (o *Outcome) why() string {
	switch {
	case o.Late:
		return cmp.Or(o.where, "it did not end in time: is there a loop or a wait without an end?\n")
	case o.TooMuch:
		return "it printed too much\n"
	case len(o.Order) == 0 && o.Crash() == "":
		return "the tests ended before they said anything\n"
	case !o.complete() && o.Crash() == "":
		return "the process ended in the middle of it\n"
	}
	return ""
}
