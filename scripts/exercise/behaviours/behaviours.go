// Package behaviours runs the tests of an exercise and says which behaviours hold.
//
// A behaviour is a test without subtests; its name is a sentence. What somebody
// wrote who is learning may hang, panic or end the process. Then the behaviours
// that have not been looked at are run by themselves, so that each gets its answer.
package behaviours

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// Behaviour is what one test without subtests has found.
type Behaviour struct {
	// Test is its full name, as in TestBounds/maxUnavailable_is_rounded_down.
	Test string
	// Holds tells whether it has passed.
	Holds bool
	// Said is what was printed while the test ran by itself, and why it was ended where it was.
	Said string
}

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

// capitals are where words begin in a name.
var capitals = []*regexp.Regexp{regexp.MustCompile(`([a-z0-9])([A-Z])`), regexp.MustCompile(`([A-Z])([A-Z][a-z])`)}

// Program is a package's tests, compiled.
type Program struct {
	// Path is that of the binary, Dir the package's directory.
	Path, Dir string
	// Env is what the tests find in the environment besides ours.
	Env []string
	// Limit is how long a run may take. What has not ended then is ended.
	Limit time.Duration
	// Soon, if set, is when a run is ended that hangs: nothing in it runs any more, or a function that somebody has
	// written, of Own, has had the processor all the time. Another is run once more, for it may only be slow.
	Soon time.Duration
	Own  []string
	// Command wraps how the binary is started, for example to limit its memory.
	Command []string
}

// Build compiles the tests of a package of a module, and reads other files in place of some. The error is what the
// compiler says, with paths as in the module.
func Build(
	ctx context.Context, module, dir string, instead map[string]string, binary string, flags ...string,
) (*Program, error) {
	overlay, _ := json.Marshal(map[string]any{"Replace": instead}) // it is JSON
	if err := os.WriteFile(binary+".json", overlay, 0o600); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay=" + binary + ".json",
		"-o", binary}, flags, []string{"./" + dir})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes what it has begun
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, errors.New(cmp.Or(strings.TrimSpace(headings.ReplaceAllString(string(out), "")), err.Error()))
	}
	return &Program{Path: binary, Dir: filepath.Join(module, dir)}, nil
}

// headings are lines that name a package.
var headings = regexp.MustCompile(`(?m)^(#|FAIL).*\n`)

// Run runs test functions one after the other, and calls tell with the behaviours of
// each in the order in which the package's test files have them.
func (p *Program) Run(ctx context.Context, tests []string, tell func(Behaviour)) error {
	for _, test := range tests {
		found, err := p.run(ctx, test)
		if err != nil {
			return err
		}
		p.sort(test, found)
		for _, b := range found {
			tell(b)
		}
	}
	return nil
}

// run runs a test function, and again without the behaviours that are known as long as
// it breaks off, and by itself each that has not passed.
func (p *Program) run(ctx context.Context, function string) (found []Behaviour, err error) {
	var known []string         // the tests in found
	for late := 0; late < 2; { // so often what hangs is waited for
		o, err := p.Try(ctx, Exactly(function), Exactly(known...))
		if err != nil {
			return nil, err
		}
		var failed []string
		before := len(known)
		for _, test := range o.Behaviours() {
			// Of tests that run side by side, a data race fails the one that ends first.
			holds := o.Results[test] == "PASS" && !strings.Contains(o.output, "WARNING: DATA RACE")
			if holds && slices.ContainsFunc(known, func(other string) bool { return strings.HasPrefix(other, test+"/") }) {
				continue // it is what is left without its subtests
			}
			known, found = append(known, test), append(found, Behaviour{Test: test, Holds: holds, Said: o.why()})
			if !holds {
				failed = append(failed, test)
			}
		}
		if o.Late {
			late++
		}
		if !o.Late || len(failed) > 1 && !o.hangs { // else it is clear what hangs
			alone, err := p.Each(ctx, failed)
			if err != nil {
				return nil, err
			}
			for _, b := range alone {
				found[slices.Index(known, b.Test)] = b
			}
		}
		held := !slices.ContainsFunc(found, func(b Behaviour) bool { return !b.Holds })
		switch {
		case len(found) == 0:
			return []Behaviour{{Test: function, Said: o.why() + o.Said()}}, nil
		case len(known) == before, o.complete() && !(held && o.Results[function] == "FAIL"):
			return found, nil
		}
	}
	return found, nil
}

// sort brings the behaviours of a test function into the order in which their sentences stand in it, with those behind
// them that do not stand there as they are: it is the same in each run, also where the test ranges over a map.
func (p *Program) sort(function string, found []Behaviour) {
	_, body, _ := strings.Cut(Source(p.Dir), "func "+function+"(")
	at := func(b Behaviour) int {
		before, _, _ := strings.Cut(body, `"`+Sentence(b.Test)+`"`)
		return len(before)
	}
	slices.SortStableFunc(found, func(a, b Behaviour) int { return at(a) - at(b) })
}

// Source is the text of a package's tests.
func Source(dir string) (text string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, path := range paths {
		file, _ := os.ReadFile(path) // what cannot be read does not compile either
		text += string(file)
	}
	return text
}

// Each runs behaviours, each by itself. One holds if the program has run to its end and
// passed: code that ends the process, or prints what a test would print, gains nothing.
func (p *Program) Each(ctx context.Context, tests []string) ([]Behaviour, error) {
	found := make([]Behaviour, len(tests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.NumCPU(), 4)) // each in a process of its own
	for i, test := range tests {
		group.Go(func() error {
			o, err := p.Try(ctx, Exactly(test), "", "RAPID_SHRINKTIME=2s") // who waits for an answer wants it soon
			found[i] = Behaviour{Test: test, Holds: o.Passed && o.Results[test] == "PASS", Said: o.why() + o.Said()}
			return err
		})
	}
	return found, group.Wait()
}

// Try runs the tests that a pattern matches, but for those that another does. Its error is that it could not; how they
// came to their end is part of the outcome. One that ends the process has not passed, whatever it ends it with.
func (p *Program) Try(ctx context.Context, tests, but string, env ...string) (*Outcome, error) {
	if p.Soon > 0 {
		if o, err := p.try(ctx, p.Soon, tests, but, env); err != nil || !o.Late || o.hangs {
			return o, err
		}
	}
	return p.try(ctx, p.Limit, tests, but, env)
}

// try runs tests for so long at most. Those that run side by side all begin, so that it
// is known of each whether it hangs.
func (p *Program) try(ctx context.Context, limit time.Duration, tests, but string, env []string) (*Outcome, error) {
	all := slices.Concat(p.Command, []string{p.Path, "-test.v=test2json", "-test.paniconexit0", "-test.count=1",
		"-test.parallel=64", "-test.run", tests, "-test.skip", but})
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := &printed{stop: cancel}
	cmd := exec.CommandContext(timed, all[0], all[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = slices.Concat(os.Environ(), []string{"RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=0s"}, p.Env, env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if errors.Is(timed.Err(), context.DeadlineExceeded) {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) // says where each goroutine is
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return &Outcome{}, fmt.Errorf("run the tests in %s: %w", filepath.Base(p.Dir), err)
	}
	err := cmd.Wait()
	o := read(out.text.String())
	o.TooMuch = out.text.Len() > maxPrinted
	o.Late = errors.Is(timed.Err(), context.DeadlineExceeded)
	method, _, _ := strings.Cut(o.where, " does not return")
	lasts := limit == p.Limit || cmd.ProcessState.UserTime() > limit*4/5
	o.hangs = o.hangs || lasts && slices.Contains(p.Own, method)
	o.Passed = err == nil && !o.Late && !o.TooMuch
	return o, ctx.Err()
}

// Exactly matches tests by their whole names.
func Exactly(tests ...string) string {
	var all []string
	for _, test := range tests {
		all = append(all, "^"+strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^")+"$")
	}
	slices.Sort(all) // a test before its subtests: go heeds the first that matches
	return strings.Join(all, "|")
}

var (
	// frame are the lines that go and rapid put around what a test says.
	frame = regexp.MustCompile(`^(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|FAIL|SKIP):|(PASS|FAIL)$|` +
		`\[rapid\]|To reproduce, specify -run|Failed test output:$)`)
	// trace are the lines of a panic that say nothing about who wrote the code.
	trace = regexp.MustCompile(`^(goroutine \d+ .*\[|panic\(|\.\.\.additional frames|={18}|race detected during)`)
	// logged begins a line of klog's, and continued one of a value in it of several lines.
	// What other tests log that run at the same time is among what a test prints.
	logged    = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ \S+:\d+\]`)
	continued = regexp.MustCompile(`^(\t| >)`)
	place     = regexp.MustCompile(`^\s*\w+\.go:\d+: ?`)
	expected  = regexp.MustCompile(`expected: (.*)$`)
	actual    = regexp.MustCompile(`actual  ?: (.*)$`)
	testify   = regexp.MustCompile(`^(Error Trace|Error|Test|Messages):\s*(.*)$`)
)

// unwritten is what a body panics with that nobody has written.
var unwritten = regexp.MustCompile(`panic[^:\n]*: ` + weave.Unwritten + `(\S+)`)

// Needs returns the exercise that has to be written before a test can pass, by what the test has printed, or "".
func Needs(said string) string {
	if match := unwritten.FindStringSubmatch(said); match != nil {
		return match[1]
	}
	return ""
}

// Tell reads what a test has printed, and returns what there is of it, one below the other: the situation, what was
// expected and what was seen, if testify was given them, and what else was printed.
func Tell(said string) []string {
	var situation, wanted, seen, text string
	field, log := "", false
	if before, dump, ok := strings.Cut(said, "panic: deadlock: "); ok {
		where, _ := hang(dump)
		said = before + cmp.Or(where, dump)
	}
	said, _, _ = strings.Cut(said, "\n\nGoroutine ") // who has begun those of a data race, and other races
	for line := range strings.Lines(ownCalls(said)) {
		if log = logged.MatchString(line) || log && continued.MatchString(line); log {
			continue // in the midst of what testify says, too
		}
		line = place.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		bare := strings.TrimSpace(line)
		if match := testify.FindStringSubmatch(bare); match != nil {
			field, bare = match[1], match[2]
		}
		switch {
		case frame.MatchString(bare), trace.MatchString(bare):
			field = ""
		case field == "Error Trace" || field == "Test" || field == "Error" && seen != "":
		case field == "Error" && expected.MatchString(bare):
			wanted = "expected  " + unquoted(expected.FindStringSubmatch(bare)[1])
		case field == "Error" && actual.MatchString(bare):
			seen = "seen      " + unquoted(actual.FindStringSubmatch(bare)[1])
		case field == "Error" && strings.HasPrefix(bare, "Not equal"):
		case field == "Messages":
			situation = strings.TrimSpace(situation + "\n" + bare)
		case bare == "" && field != "":
		case field == "Error":
			text += bare + "\n"
		default:
			text += strings.TrimPrefix(line, "    ") + "\n"
		}
	}
	parts := []string{situation, wanted, seen, strings.Trim(text, "\n")}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// unquoted returns a text without the quotes in which testify puts it.
func unquoted(text string) string {
	if plain, err := strconv.Unquote(text); err == nil {
		return plain
	}
	return text
}
