// Package behaviours runs the tests of an exercise and says which behaviours hold.
//
// A behaviour is a test without subtests; its name is a sentence. What somebody
// wrote who is learning may hang, panic or end the process. Then the behaviours
// that have not been looked at are run by themselves, so that each gets its answer.
package behaviours

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Behaviour is what one test without subtests has found.
type Behaviour struct {
	// Test is its full name, as in TestBounds/maxUnavailable_is_rounded_down.
	Test string
	// Holds tells whether it has passed.
	Holds bool
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
	words := capitals.ReplaceAllString(strings.TrimPrefix(test, "Test"), " $0")
	return strings.ToLower(strings.TrimSpace(words))
}

var capitals = regexp.MustCompile(`[A-Z][a-z0-9]+|[A-Z]+`)

// Program is a package's tests, compiled.
type Program struct {
	// Path is that of the binary, Dir the package's directory.
	Path, Dir string
	// Env is what the tests find in the environment, besides ours.
	Env []string
	// Limit is how long a run may take. What has not ended then is ended.
	Limit time.Duration
	// Command wraps how the binary is started, for example to limit its memory.
	Command []string
	// Witness is a word that the tests get through file 4 and write to file 3 when
	// they have run to their end, if they do so at all. Then nothing else is believed
	// to be the end.
	Witness string
}

// Build compiles the tests of a package of a module. The error is what the compiler
// says, with paths as in the module.
func Build(ctx context.Context, module, dir, binary string, args ...string) error {
	args = append([]string{"test", "-c", "-vet=off", "-o", binary}, append(args, "./"+dir)...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes what it has begun
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "FAIL") {
			said = append(said, line)
		}
	}
	return errors.New(cmp.Or(strings.Join(said, "\n"), err.Error()))
}

// maxRuns is how often a program is started anew that does not run to its end, and
// maxLate how often if it hangs.
const (
	maxRuns = 40
	maxLate = 2
)

// Run runs test functions one after the other, and calls tell with the behaviours of
// each in the order in which the test has them.
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
	found := map[string]Behaviour{}
	parents, known := map[string]bool{}, map[string]bool{}
	var order []string
	late := 0
	for range maxRuns {
		r := newRun(func(b Behaviour) { found[b.Test] = b })
		r.known, r.parents = known, parents
		if err := p.start(ctx, "^"+test+"$", r); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, started := range r.started {
			if !slices.Contains(order, started) {
				order = append(order, started)
			}
		}
		if r.late {
			late++
		}
		if r.complete {
			break
		}
		if !r.breakOff() {
			found[test] = Behaviour{Test: test, Said: cmp.Or(r.loose.String(), "the tests ended before they said anything")}
			order = append(order, test)
			delete(parents, test)
			break
		}
		if late == maxLate {
			for _, open := range r.open() {
				found[open] = Behaviour{Test: open, Said: "not tried: others before it did not end in time\n"}
			}
			break
		}
	}
	for _, test := range order {
		if b, ok := found[test]; ok && !parents[test] {
			tell(b)
			delete(found, test)
		}
	}
	return nil
}

// One runs one behaviour by itself. It holds if the program has run to its end and
// has said once that it does, and not that it does not: code that ends the process, or
// prints what a test would print, gains nothing.
func (p *Program) One(ctx context.Context, test string) (Behaviour, error) {
	var all []Behaviour
	r := newRun(func(b Behaviour) { all = append(all, b) })
	if err := p.start(ctx, pattern(map[string]bool{test: true}), r); err != nil {
		return Behaviour{}, err
	}
	if r.breakOff(); r.loose.Len() > 0 && len(all) == 0 {
		all = append(all, Behaviour{Test: test, Said: r.loose.String()})
	}
	b := Behaviour{Test: test, Holds: r.complete && len(all) > 0}
	for _, one := range all {
		b.Holds = b.Holds && one.Test == test && one.Holds
		b.Said += one.Said
	}
	return b, ctx.Err()
}

// run is what is known of a run of a program.
type run struct {
	known   map[string]bool
	tell    func(Behaviour)
	started []string
	parents map[string]bool
	output  map[string]*strings.Builder
	// loose is what belongs to no test.
	loose strings.Builder
	// late and tooMuch say why the program was ended, complete that it was not.
	late, tooMuch, complete bool
}

func newRun(tell func(Behaviour)) *run {
	return &run{known: map[string]bool{}, tell: tell, output: map[string]*strings.Builder{}, parents: map[string]bool{}}
}

// event is one of test2json's.
type event struct{ Action, Test, Output string }

// start runs the program for the tests that match, without the behaviours that are
// known.
func (p *Program) start(ctx context.Context, tests string, r *run) error {
	args := append(slices.Clone(p.Command), p.Path, "-test.v=test2json", "-test.run", tests, "-test.count=1")
	if skip := pattern(r.known); skip != "" {
		args = append(args, "-test.skip", skip)
	}
	limited, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	testified, err := p.callWitness(cmd)
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = limitedWriter{&r.loose}
	convert := exec.CommandContext(ctx, "go", "tool", "test2json")
	convert.Stdin = out
	events, err := convert.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run the tests in %s: %w", filepath.Base(p.Dir), err)
	}
	if err := convert.Start(); err != nil {
		return fmt.Errorf("run go tool test2json: %w", err)
	}
	for _, file := range cmd.ExtraFiles {
		file.Close() // they are the program's now
	}
	if r.read(events); r.tooMuch {
		cancel()
	}
	convert.Wait()
	cmd.Wait() // how it ended is told by what it has said
	r.late = errors.Is(limited.Err(), context.DeadlineExceeded)
	r.complete = r.complete && limited.Err() == nil && testified()
	return nil
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

// maxEvents is how many bytes of test2json are read of a run: about 100,000 lines of what
// the tests print.
const maxEvents = 16 << 20

func (r *run) read(events io.Reader) {
	limited := &io.LimitedReader{R: events, N: maxEvents}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			r.see(e)
		}
	}
	r.tooMuch = limited.N <= 0
}

func (r *run) see(e event) {
	if e.Test == "" {
		switch e.Action {
		case "output":
			limitedWriter{&r.loose}.Write([]byte(e.Output))
		case "pass", "fail", "skip":
			r.complete = !crashed.MatchString(r.loose.String()) && len(r.open()) == 0
		}
		return
	}
	switch e.Action {
	case "run":
		r.started = append(r.started, e.Test)
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			r.parents[e.Test[:i]] = true
		}
		r.output[e.Test] = &strings.Builder{}
	case "output":
		if out := r.output[e.Test]; out != nil {
			limitedWriter{out}.Write([]byte(e.Output))
		}
	case "pass", "fail", "skip":
		if r.parents[e.Test] {
			return
		}
		r.known[e.Test] = true
		r.tell(Behaviour{Test: e.Test, Holds: e.Action == "pass", Said: r.said(e.Test)})
	}
}

func (r *run) said(test string) string {
	if out := r.output[test]; out != nil {
		return out.String()
	}
	return ""
}

var crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: )`)

// breakOff gives an answer to the behaviours that a run has left open, or to one of
// them, so that the next run gets further. It is false where there is none.
func (r *run) breakOff() bool {
	open := r.open()
	if len(open) == 0 {
		return false
	}
	// The test that panicked has printed it. Where something else did, the last that began is the best guess.
	culprit := open[len(open)-1]
	for _, test := range open {
		if crashed.MatchString(r.said(test)) {
			culprit = test
		}
	}
	why := "the process ended in the middle of it\n"
	switch {
	case r.late:
		why = "it did not end in time\n"
	case r.tooMuch:
		why = "it printed too much\n"
	}
	r.known[culprit] = true
	r.tell(Behaviour{Test: culprit, Said: why + r.said(culprit) + r.loose.String()})
	return true
}

// open returns the behaviours that have begun and of which nothing is known.
func (r *run) open() []string {
	var open []string
	for _, test := range r.started {
		if !r.parents[test] && !r.known[test] {
			open = append(open, test)
		}
	}
	return open
}

// pattern matches tests by their whole names.
func pattern(tests map[string]bool) string {
	var all []string
	for test := range tests {
		var parts []string
		for part := range strings.SplitSeq(test, "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		all = append(all, strings.Join(parts, "/"))
	}
	slices.Sort(all)
	return strings.Join(all, "|")
}

// limitedWriter drops what is too much to be read.
type limitedWriter struct{ out *strings.Builder }

const maxOutput = 64 << 10

func (w limitedWriter) Write(text []byte) (int, error) {
	if rest := maxOutput - w.out.Len(); rest > 0 {
		w.out.Write(text[:min(rest, len(text))])
	}
	return len(text), nil
}

// Told is what a test that failed wants to say.
type Told struct {
	// Situation, Expected and Seen are what testify was given, if it was.
	Situation, Expected, Seen string
	// Text is what else was printed.
	Text string
}

var (
	frame    = regexp.MustCompile(`^(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|FAIL|SKIP):|\[rapid\])`)
	place    = regexp.MustCompile(`^\s*\w+\.go:\d+: ?`)
	expected = regexp.MustCompile(`expected: (.*)$`)
	actual   = regexp.MustCompile(`actual  ?: (.*)$`)
)

// Tell reads what a test has printed.
func Tell(said string) Told {
	var told Told
	var text bytes.Buffer
	field := ""
	for line := range strings.Lines(said) {
		line = place.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		bare := strings.TrimSpace(line)
		if name, rest, ok := testify(bare); ok {
			field, bare = name, rest
		}
		switch {
		case frame.MatchString(bare):
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
