package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/term"
)

// narrator tells what the lab does: to a person who watches, or else into the
// log of the test.
type narrator struct {
	t        *testing.T
	watched  bool
	terminal bool
	mu       sync.Mutex
	// transient is the length of the line that the next one overwrites.
	transient int
}

func newNarrator(t *testing.T) *narrator {
	return &narrator{t: t, watched: os.Getenv("LAB_NARRATE") != "", terminal: term.IsTerminal(int(os.Stdout.Fd()))}
}

const (
	bold  = "1"
	green = "32"
	red   = "31"
	faint = "2"
)

func (n *narrator) colour(code, text string) string {
	if !n.terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (n *narrator) print(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.watched {
		n.t.Log(line)
		return
	}
	n.erase()
	fmt.Println(line)
}

// erase takes the transient line away. The lock is held.
func (n *narrator) erase() {
	if n.transient > 0 {
		fmt.Print("\r" + strings.Repeat(" ", n.transient) + "\r")
		n.transient = 0
	}
}

// progress shows what is being waited for on a line of its own, which the next
// one overwrites. Where nobody watches a terminal, it shows nothing.
func (n *narrator) progress(format string, args ...any) {
	if !n.watched || !n.terminal {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	line := strings.ReplaceAll("    … "+fmt.Sprintf(format, args...), "\n", " ")
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && len([]rune(line)) >= width {
		line = string([]rune(line)[:width-1])
	}
	fmt.Print(n.colour(faint, line))
	n.transient = len([]rune(line))
}

func (n *narrator) title(format string, args ...any) {
	n.print("\n" + n.colour(bold, fmt.Sprintf(format, args...)))
}

func (n *narrator) step(number int, name string) {
	n.print("\n" + n.colour(bold, fmt.Sprintf("%d. %s", number, name)))
}

func (n *narrator) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		n.print("    " + strings.TrimRight(line, "\n"))
	}
}

func (n *narrator) done(took time.Duration) {
	n.print("  " + n.colour(green, fmt.Sprintf("✓ %.1f s", took.Seconds())))
}

func (n *narrator) failed(took time.Duration) {
	n.print("  " + n.colour(red, fmt.Sprintf("✗ %.1f s", took.Seconds())))
}

func (n *narrator) skipped(why string) { n.print("  - skipped: " + why) }

// Write tells a line of a longer work's progress.
func (n *narrator) Write(line []byte) (int, error) {
	n.say("%s", line)
	return len(line), nil
}

// waitForEnter returns when somebody has pressed Enter, or ctx has ended.
func (n *narrator) waitForEnter(ctx context.Context) {
	if !n.watched || !term.IsTerminal(int(os.Stdin.Fd())) {
		return
	}
	n.progress("press Enter to go on")
	pressed := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(pressed)
	}()
	select {
	case <-pressed:
	case <-ctx.Done():
	}
}
