package play

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// narrate tells what a script of two steps tells, the second of which is left out.
func narrate(t *testing.T, n Narrator) {
	n.Title("Lab 00")
	n.Say("a cluster is up")
	require.NoError(t, n.Step(t.Context(), 1, "Pods come"))
	n.Waiting("await pods")
	n.Did("await pods", 1500*time.Millisecond)
	n.Did("check pods", 99*time.Millisecond)
	n.Say("two\nlines\n\n")
	n.Passed(2 * time.Second)
	require.NoError(t, n.Step(t.Context(), 2, "Pods go"))
	n.Skipped("only kind: why not")
	n.Title("All steps")
	n.Passed(3 * time.Second)
}

func TestAReaderIsToldLineByLine(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	narrate(t, NewTeller(&b, false))
	require.Equal(t, `
Lab 00
    a cluster is up

1. Pods come
    await pods    (1.5 s)
    check pods
    two
    lines
  ✓ 2.0 s

2. Pods go
  - left out, only kind: why not

All steps
  ✓ 3.0 s
`, b.String())
}

func TestAReaderIsToldWhatHasFailed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	NewTeller(&b, false).Failed(time.Second, "x.txtar:3: no\nthis is there:")
	require.Equal(t, "  ✗ 1.0 s\n    x.txtar:3: no\n    this is there:\n", b.String())
}

func TestALongLineOfAScriptIsCut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	NewTeller(&b, false).Did(strings.Repeat("ä", 200), time.Second)
	require.Equal(t, "    "+strings.Repeat("ä", longestLine)+" …    (1.0 s)\n", b.String())
}

func TestAtATerminalWhatIsGoingOnIsOverwritten(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var b strings.Builder
	teller := &teller{out: &b, width: 30}
	teller.Waiting("await what is awaited for longer than a line")
	require.Equal(t, "    … await what is awaited f", b.String())
	b.Reset()
	teller.Say("short")
	require.Equal(t, "\r"+strings.Repeat(" ", 29)+"\r    short\n", b.String())
}

func TestAtATerminalThereAreColours(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	var b strings.Builder
	teller := &teller{out: &b, width: 80}
	teller.Title("Lab")
	teller.Did("check true", 0)
	teller.Passed(0)
	require.Equal(t, "\n\x1b[1mLab\x1b[0m\n    \x1b[2mcheck true\x1b[0m\n  \x1b[32m✓ 0.0 s\x1b[0m\n", b.String())
}

func TestAStepThatWaitsForEnterEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := make(chan struct{}) // nobody writes
	teller := &teller{out: &strings.Builder{}, in: blocked(in)}
	require.ErrorIs(t, teller.Step(ctx, 1, "one"), errInterrupted)
	close(in)
}

// blocked is read until the channel is closed.
type blocked chan struct{}

func (b blocked) Read([]byte) (int, error) { <-b; return 0, fmt.Errorf("closed") }

func TestNarratorsMayBeToldSeveralThingsAtTheSameTime(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, n := range []Narrator{NewTeller(io.Discard, false), &teller{out: &b, width: 80}} {
		var tellers sync.WaitGroup
		for range 4 {
			tellers.Go(func() { narrate(t, n) })
		}
		tellers.Wait()
	}
}
