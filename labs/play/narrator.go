package play

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Narrator is told what happens in a play as it happens. Its methods may be called at the same time.
type Narrator interface {
	// Title begins what belongs to no step.
	Title(text string)
	// Step begins a step. It may wait until somebody wants to go on, and is an error if ctx ends meanwhile.
	Step(ctx context.Context, number int, sentence string) error
	// Skipped tells why the rest of the step is left out, or of a script without steps.
	Skipped(why string)
	// Say tells something of any number of lines.
	Say(text string)
	// Waiting tells what is going on, until something else is told.
	Waiting(what string)
	// Did tells that a line was carried out.
	Did(line string, took time.Duration)
	// Passed ends a step that was not skipped, and once more the script. Failed ends both.
	Passed(took time.Duration)
	Failed(took time.Duration, why string)
}

// teller tells a reader, at a terminal or in a file.
type teller struct {
	out io.Writer
	// width is that of the terminal, or 0 where there is none.
	width int
	// in is where each step waits for the Enter key, or nil.
	in io.Reader

	mu sync.Mutex
	// transient is the length of the line that the next one overwrites.
	transient int
}

// NewTeller returns a narrator for a reader. If enter is true and somebody is at the terminal, each step waits for the
// Enter key.
func NewTeller(out io.Writer, enter bool) Narrator {
	t := &teller{out: out}
	if enter && term.IsTerminal(int(os.Stdin.Fd())) {
		t.in = os.Stdin
	}
	if file, is := out.(*os.File); is {
		t.width, _, _ = term.GetSize(int(file.Fd())) // 0 where it is no terminal
	}
	return t
}

const (
	bold  = "1"
	green = "32"
	red   = "31"
	faint = "2"
)

func (t *teller) colour(code, text string) string {
	if code == "" || t.width == 0 || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// print prints lines that begin with an indent.
func (t *teller) print(code, indent, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintln(t.out, indent+t.colour(code, line))
	}
}

// erase takes the transient line away. The lock is held.
func (t *teller) erase() {
	if t.transient > 0 {
		fmt.Fprint(t.out, "\r"+strings.Repeat(" ", t.transient)+"\r")
		t.transient = 0
	}
}

func (t *teller) Waiting(what string) {
	if t.width == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	line := []rune(strings.ReplaceAll("    … "+what, "\n", " "))
	line = line[:min(len(line), t.width-1)]
	fmt.Fprint(t.out, t.colour(faint, string(line)))
	t.transient = len(line)
}

func (t *teller) Title(text string) {
	t.print("", "", "")
	t.print(bold, "", text)
}

func (t *teller) Step(ctx context.Context, number int, sentence string) error {
	t.Title(fmt.Sprintf("%d. %s", number, sentence))
	if t.in == nil {
		return nil
	}
	t.Waiting("press Enter to go on")
	pressed := make(chan struct{})
	go func() {
		bufio.NewReader(t.in).ReadString('\n')
		close(pressed)
	}()
	select {
	case <-pressed:
		return nil
	case <-ctx.Done():
		return errInterrupted
	}
}

func (t *teller) Say(text string) { t.print("", "    ", text) }

// longestLine is how much of a script's line is repeated.
const longestLine = 140

func (t *teller) Did(line string, took time.Duration) {
	if runes := []rune(line); len(runes) > longestLine {
		line = string(runes[:longestLine]) + " …"
	}
	if took >= 100*time.Millisecond {
		line += fmt.Sprintf("    (%.1f s)", took.Seconds())
	}
	t.print(faint, "    ", line)
}

func (t *teller) Passed(took time.Duration) {
	t.print(green, "  ", fmt.Sprintf("✓ %.1f s", took.Seconds()))
}

func (t *teller) Failed(took time.Duration, why string) {
	t.print(red, "  ", fmt.Sprintf("✗ %.1f s", took.Seconds()))
	t.Say(why)
}

func (t *teller) Skipped(why string) {
	t.print("", "  ", "- left out, "+why)
}
