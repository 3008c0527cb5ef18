package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// story prints what happens, with the seconds since the start.
type story struct {
	start time.Time
	steps int
}

// step begins a new part.
func (s *story) step(format string, args ...any) {
	s.steps++
	fmt.Printf("\n%s\n", bold(fmt.Sprintf("%d. %s", s.steps, fmt.Sprintf(format, args...))))
}

func (s *story) say(format string, args ...any) {
	if format == "" {
		fmt.Println()
		return
	}
	fmt.Printf("  %5.1f s  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// progress tells what is written to it, a line at a time.
type progress struct{ story *story }

func (p progress) Write(line []byte) (int, error) {
	p.story.say("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

func bold(text string) string {
	if term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}
