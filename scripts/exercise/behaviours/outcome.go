package behaviours

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// Outcome is what a run of some tests has shown. It reads what they print, as go's
// testing does with -test.v=test2json: a line that says which test begins or ends has
// a mark, and what comes then is that test's.
type Outcome struct {
	// Order are the tests in the order in which they began.
	Order []string
	// Results are PASS, FAIL or SKIP by test; one that has not ended has none.
	Results map[string]string
	// Passed tells whether the program has ended by itself and without a failure.
	Passed bool
	// Late and TooMuch say why it was ended: after the time that it had, or because of
	// what it printed.
	Late, TooMuch bool

	parents map[string]bool
	// running are the tests that have begun and are not waiting for others, in the
	// order in which they went on.
	running []string
	output  map[string]*strings.Builder // by test, or "" for what is none's
	current string
	line    []byte
	size    int
	stop    func()
}

const (
	// maxOutput is how much of what one test prints is kept.
	maxOutput = 64 << 10
	// maxPrinted is what a program may print.
	maxPrinted = 8 << 20
)

// Write reads what the program prints, and ends it if that is too much.
func (o *Outcome) Write(text []byte) (int, error) {
	if o.size += len(text); o.size > maxPrinted {
		o.TooMuch = true
		o.stop()
		return len(text), nil
	}
	o.line = append(o.line, text...)
	for {
		line, rest, ok := bytes.Cut(o.line, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		o.see(string(line) + "\n")
		o.line = rest
	}
}

const mark = "\x16"

var said = regexp.MustCompile(`^(?:=== (RUN|PAUSE|CONT|NAME)|--- (PASS|FAIL|SKIP):) +(\S+)`)

func (o *Outcome) see(line string) {
	text, marked, _ := strings.Cut(line, mark)
	o.keep(text)
	for part := range strings.SplitSeq(marked, mark) {
		match := said.FindStringSubmatch(part)
		if match == nil {
			if part != "" {
				o.current = "" // the whole has passed or failed
			}
			continue
		}
		test := match[3]
		if match[1] != "NAME" {
			o.running = slices.DeleteFunc(o.running, func(other string) bool { return test == other })
		}
		switch match[1] {
		case "RUN":
			o.begin(test)
		case "CONT":
			o.running = append(o.running, test)
		case "":
			if o.Results[test] = match[2]; o.parents[test] {
				continue // a panic ends all tests above, and then says what it was
			}
		}
		o.current = test
	}
}

func (o *Outcome) begin(test string) {
	o.Order = append(o.Order, test)
	o.running = append(o.running, test)
	if i := strings.LastIndexByte(test, '/'); i >= 0 {
		o.parents[test[:i]] = true
	}
}

func (o *Outcome) keep(text string) {
	out := o.output[o.current]
	if out == nil {
		out = &strings.Builder{}
		o.output[o.current] = out
	}
	out.WriteString(text[:max(0, min(len(text), maxOutput-out.Len()))])
}

// Said returns what a test has printed, or what is no test's.
func (o *Outcome) Said(test string) string {
	if out := o.output[test]; out != nil {
		return out.String()
	}
	return ""
}

// Behaviours returns the tests without subtests that have begun.
func (o *Outcome) Behaviours() []string {
	return slices.DeleteFunc(slices.Clone(o.Order), func(test string) bool { return o.parents[test] })
}

// open returns the behaviours that have begun and not ended.
func (o *Outcome) open() []string {
	return slices.DeleteFunc(o.Behaviours(), func(test string) bool { return o.Results[test] != "" })
}

// complete tells whether each test that has begun has come to its end.
func (o *Outcome) complete() bool {
	return !o.Late && !o.TooMuch && len(o.Order) > 0 && !slices.ContainsFunc(o.Order, func(test string) bool { return o.Results[test] == "" })
}

var crashed = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)

// Crash returns the line that says why the program has crashed, or "".
func (o *Outcome) Crash() string {
	for _, out := range o.output {
		if line := crashed.FindString(out.String()); line != "" {
			return line
		}
	}
	return ""
}

// brokeOff returns the behaviour during which the program came to its end, or "": the
// one that has printed why, or the best guess, which is the one that has run the
// longest if the program hung, and else the one that went on last.
func (o *Outcome) brokeOff() string {
	all, open := o.Behaviours(), o.open()
	if i := slices.IndexFunc(all, func(test string) bool { return crashed.MatchString(o.Said(test)) }); i >= 0 {
		return all[i]
	}
	running := slices.DeleteFunc(slices.Clone(o.running), func(test string) bool { return !slices.Contains(open, test) })
	switch {
	case len(running) > 0 && o.Late:
		return running[0]
	case len(running) > 0:
		return running[len(running)-1]
	case len(open) > 0:
		return open[0]
	}
	return ""
}

// why says how a program came to its end that did not run to it.
func (o *Outcome) why() string {
	switch {
	case o.Late:
		return "it did not end in time: is there a loop or a wait without an end?\n"
	case o.TooMuch:
		return "it printed too much\n"
	case !o.complete() && o.Crash() == "":
		return "the process ended in the middle of it\n"
	}
	return ""
}
