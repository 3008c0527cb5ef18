// Package behaviours runs the tests of an exercise and says which behaviours hold.
//
// A behaviour is a test without subtests; its name is a sentence. What somebody
// wrote who is learning may hang, panic or end the process. Then the behaviours
// that have not been looked at are run by themselves, so that each gets its answer.
package behaviours

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Behaviour is what one test without subtests has found.
type Behaviour struct {
	// Test is its full name, as in TestBounds/maxUnavailable_is_rounded_down.
	Test string
	// Holds tells whether it has passed.
	Holds bool
	// Untried tells that others before it did not end, so that nobody knows.
	Untried bool
	// Said is what the test has printed, and why it was ended where it was.
	Said string
}

// Sentence is the test's own name as a sentence.
func (b Behaviour) Sentence() string { return Sentence(b.Test) }

// Sentence returns the last part of a test's name as a sentence.
func Sentence(test string) string {
	name := test[strings.LastIndexByte(test, '/')+1:]
	if name != test {
		return strings.ReplaceAll(name, "_", " ")
	}
	words := strings.TrimPrefix(test, "Test")
	for _, capital := range capitals {
		words = capital.ReplaceAllString(words, "$1 $2")
	}
	return strings.ToLower(words)
}

var capitals = []*regexp.Regexp{regexp.MustCompile(`([a-z0-9])([A-Z])`), regexp.MustCompile(`([A-Z])([A-Z][a-z])`)}

// Program is a package's tests, compiled.
type Program struct {
	// Path is that of the binary, Dir the package's directory.
	Path, Dir string
	// Args are what the binary gets besides which tests to run, Env what the tests find
	// in the environment besides ours.
	Args, Env []string
	// Limit is how long a run may take. What has not ended then is ended.
	Limit time.Duration
	// Command wraps how the binary is started, for example to limit its memory.
	Command []string
	// Witness is a word that the tests get through file 4 and write to file 3 when
	// they have run to their end and passed, if they do so at all. Then nothing else is
	// believed to be that.
	Witness string
}

// Build compiles the tests of a package of a module. The error is what the compiler
// says, with paths as in the module.
func Build(ctx context.Context, module, dir, binary string) (*Program, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary, "./"+dir)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes what it has begun
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		var said []string
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "FAIL") {
				said = append(said, line)
			}
		}
		return nil, errors.New(cmp.Or(strings.Join(said, "\n"), err.Error()))
	}
	p := &Program{Path: binary, Dir: filepath.Join(module, dir)}
	if UsesRapid(p.Dir) {
		p.Args = []string{"-rapid.nofailfile", "-rapid.shrinktime=2s"} // who waits for an answer wants it soon
	}
	return p, nil
}

// UsesRapid tells whether the tests of a package take the flags of rapid.
func UsesRapid(dir string) bool {
	paths, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is well formed
	return slices.ContainsFunc(paths, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
	})
}

// maxRuns is how often a program is started anew that does not run to its end, and
// maxLate how often if it hangs.
const (
	maxRuns = 40
	maxLate = 2
)

// Run runs test functions one after the other, and calls tell with the behaviours of
// each in the order in which the package's test files have them.
func (p *Program) Run(ctx context.Context, tests []string, tell func(Behaviour)) error {
	for _, test := range tests {
		if err := p.run(ctx, test, tell); err != nil {
			return err
		}
	}
	return nil
}

// run runs one test function, again without those that are known if it broke off.
func (p *Program) run(ctx context.Context, test string, tell func(Behaviour)) error {
	found, parents := map[string]Behaviour{}, map[string]bool{}
	var order []string
	late := 0
	for range maxRuns {
		known := len(found)
		o, err := p.Try(ctx, Any(test), "-test.skip", Exactly(slices.Collect(maps.Keys(found))...))
		if err != nil {
			return err
		}
		for _, began := range o.Order {
			if !slices.Contains(order, began) {
				order = append(order, began)
			}
			if parents[began] = parents[began] || o.parents[began]; !parents[began] && o.Results[began] != "" {
				found[began] = Behaviour{Test: began, Holds: o.Results[began] == "PASS", Said: o.Said(began)}
			}
		}
		if o.complete() && (o.Results[test] != "FAIL" || anyFails(found)) {
			break
		}
		if culprit := o.brokeOff(); culprit != "" && !parents[culprit] && o.Results[culprit] == "" {
			found[culprit] = Behaviour{Test: culprit, Said: o.why() + o.Said(culprit) + o.Said("")}
		}
		if len(found) == known {
			found[test] = Behaviour{Test: test, Said: cmp.Or(o.Said(test)+o.Said(""), "the tests ended before they said anything")}
			order, parents[test] = append(order, test), false
			break
		}
		if o.Late {
			late++
		}
		if late == maxLate {
			for _, open := range o.open() {
				if _, known := found[open]; !known {
					found[open] = Behaviour{Test: open, Untried: true}
				}
			}
			break
		}
	}
	if err := p.sort(test, order); err != nil {
		return err
	}
	for _, began := range order {
		if b, ok := found[began]; ok && !parents[began] {
			tell(b)
			delete(found, began)
		}
	}
	return nil
}

// sort brings the behaviours of a test function into the order in which their
// sentences stand in it, with those behind them that do not stand there as they are:
// it is the same in each run, also where the test ranges over a map.
func (p *Program) sort(function string, tests []string) error {
	paths, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, body, found := bytes.Cut(text, []byte("func "+function+"("))
		if !found {
			continue
		}
		at := func(test string) int {
			if i := bytes.Index(body, []byte(`"`+Sentence(test)+`"`)); i >= 0 {
				return i
			}
			return len(body)
		}
		slices.SortStableFunc(tests, func(a, b string) int { return at(a) - at(b) })
	}
	return nil
}

func anyFails(found map[string]Behaviour) bool {
	for _, b := range found {
		if !b.Holds {
			return true
		}
	}
	return false
}

// One runs one behaviour by itself. It holds if the program has run to its end and
// passed: code that ends the process, or prints what a test would print, gains nothing.
func (p *Program) One(ctx context.Context, test string) (Behaviour, error) {
	o, err := p.Try(ctx, Exactly(test))
	if err != nil {
		return Behaviour{}, err
	}
	b := Behaviour{Test: test, Holds: o.Passed && o.Results[test] == "PASS"}
	if !b.Holds {
		b.Said = o.why() + o.Said(test) + o.Said("")
	}
	return b, nil
}

// Try runs the tests that a pattern matches. Its error is that it could not; how they
// came to their end is part of the outcome.
func (p *Program) Try(ctx context.Context, tests string, args ...string) (*Outcome, error) {
	all := slices.Concat(p.Command, []string{p.Path, "-test.v=test2json", "-test.run", tests, "-test.count=1"}, p.Args, args)
	timed, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	o := &Outcome{Results: map[string]string{}, parents: map[string]bool{}, output: map[string]*strings.Builder{}, stop: cancel}
	cmd := exec.CommandContext(timed, all[0], all[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = o, o
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	testified, err := p.callWitness(cmd)
	if err != nil {
		return nil, err
	}
	err = cmd.Start()
	for _, file := range cmd.ExtraFiles {
		file.Close() // they are the program's now
	}
	if err != nil {
		return nil, fmt.Errorf("run the tests in %s: %w", filepath.Base(p.Dir), err)
	}
	err = cmd.Wait()
	o.Late = errors.Is(timed.Err(), context.DeadlineExceeded)
	o.Passed = err == nil && !o.Late && !o.TooMuch && testified()
	return o, ctx.Err()
}

// callWitness gives the program the word that it is to say at its end, and returns
// what tells whether it has.
func (p *Program) callWitness(cmd *exec.Cmd) (testified func() bool, err error) {
	if p.Witness == "" {
		return func() bool { return true }, nil
	}
	heard, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reads, secret, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{says, reads}
	io.WriteString(secret, p.Witness) // a pipe holds that much
	secret.Close()
	return func() bool {
		defer heard.Close()
		heard.SetReadDeadline(time.Now().Add(time.Second))
		said, _ := io.ReadAll(io.LimitReader(heard, 1024))
		return string(said) == p.Witness
	}, nil
}

// Any matches some test functions.
func Any(tests ...string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// Exactly matches tests by their whole names.
func Exactly(tests ...string) string {
	var all []string
	for _, test := range tests {
		var parts []string
		for part := range strings.SplitSeq(test, "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		all = append(all, strings.Join(parts, "/"))
	}
	slices.Sort(all)
	return strings.Join(all, "|")
}

// Told is what a test that failed wants to say.
type Told struct {
	// Situation, Expected and Seen are what testify was given, if it was.
	Situation, Expected, Seen string
	// Text is what else was printed.
	Text string
}

var (
	frame = regexp.MustCompile(`^(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|FAIL|SKIP):|\[rapid\]|To reproduce, specify -run|Failed test output:$)`)
	// trace are the lines of a panic that say nothing about who wrote the code.
	trace = regexp.MustCompile(`^(goroutine \d+ \[|panic\(|created by |testing\.|runtime\.|/\S*/src/(testing|runtime)/)`)
	// logged begins a line of klog's, and continued one of a value in it of several lines.
	// What other tests log that run at the same time is among what a test prints.
	logged    = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ \S+:\d+\]`)
	continued = regexp.MustCompile(`^(\t| >)`)
	place     = regexp.MustCompile(`^\s*\w+\.go:\d+: ?`)
	expected  = regexp.MustCompile(`expected: (.*)$`)
	actual    = regexp.MustCompile(`actual  ?: (.*)$`)
)

// unwritten is what a body panics with that nobody has written.
var unwritten = regexp.MustCompile(`panic[^:\n]*: ` + weave.Unwritten + `(\S+)`)

// Needs returns the exercise that has to be written before a test can pass, by what
// the test has printed, or "".
func Needs(said string) string {
	if match := unwritten.FindStringSubmatch(said); match != nil {
		return match[1]
	}
	return ""
}

// Tell reads what a test has printed.
func Tell(said string) Told {
	var told Told
	var text bytes.Buffer
	field, log := "", false
	for line := range strings.Lines(said) {
		if log = logged.MatchString(line) || log && continued.MatchString(line); log {
			continue // in the midst of what testify says, too
		}
		line = place.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		bare := strings.TrimSpace(line)
		if name, rest, ok := testify(bare); ok {
			field, bare = name, rest
		}
		switch {
		case frame.MatchString(bare), trace.MatchString(bare):
			field = ""
		case field == "Error Trace" || field == "Test" || field == "Error" && told.Seen != "":
		case field == "Error" && expected.MatchString(bare):
			told.Expected = unquoted(expected.FindStringSubmatch(bare)[1])
		case field == "Error" && actual.MatchString(bare):
			told.Seen = unquoted(actual.FindStringSubmatch(bare)[1])
		case field == "Error" && strings.HasPrefix(bare, "Not equal"):
		case field == "Messages":
			told.Situation = strings.TrimSpace(told.Situation + "\n" + bare)
		case bare == "" && field != "":
		case field == "Error":
			text.WriteString(bare + "\n")
		default:
			text.WriteString(strings.TrimPrefix(line, "    ") + "\n")
		}
	}
	told.Text = strings.Trim(text.String(), "\n")
	return told
}

// testify cuts a line of testify's into the name of its field and what follows.
func testify(line string) (name, rest string, ok bool) {
	for _, name := range []string{"Error Trace", "Error", "Test", "Messages"} {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return name, strings.TrimSpace(rest), true
		}
	}
	return "", "", false
}

// unquoted returns a text without the quotes in which testify puts it.
func unquoted(text string) string {
	var plain string
	if json.Unmarshal([]byte(text), &plain) == nil {
		return plain
	}
	return text
}
