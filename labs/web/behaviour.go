package main

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// behaviour is what the flags ask for.
type behaviour struct {
	readyAfter time.Duration
	neverReady bool
	// ends says that it ends by itself, after runFor with exitCode.
	ends     bool
	runFor   time.Duration
	exitCode int
	// stopAfter is how long it goes on after SIGTERM.
	stopAfter time.Duration
	// ask is the address that it asks, if it is to ask one.
	ask string
}

// parse reads the flags of a pod with a hostname.
func parse(hostname string, args []string) (behaviour, error) {
	b, goesOn := behaviour{}, false
	flags := flag.NewFlagSet("web", flag.ContinueOnError)
	flags.Func("ready-after", "how long /ready answers 503 after the start; `never` to do so for ever", func(value string) (err error) {
		b.neverReady = value == "never"
		if !b.neverReady {
			b.readyAfter, err = time.ParseDuration(value)
		}
		return err
	})
	flags.DurationVar(&b.runFor, "run-for", 0, "how long to run before it ends by itself; for ever if it is not given")
	flags.IntVar(&b.exitCode, "exit-code", 0, "the code to end with then; without --run-for it ends at once")
	flags.Func("fails-as", "a regular expression of hostnames with which the code to end with is 1", func(value string) error {
		wrong, err := regexp.Compile(value)
		if err == nil && wrong.MatchString(hostname) {
			b.exitCode = 1
		}
		return err
	})
	flags.Func("ends-as", "a regular expression of hostnames: with others it runs for ever, whatever else is asked for", func(value string) error {
		ending, err := regexp.Compile(value)
		goesOn = err == nil && !ending.MatchString(hostname)
		return err
	})
	flags.DurationVar(&b.stopAfter, "stop-after", 0, "how long to take to end after SIGTERM")
	flags.StringVar(&b.ask, "ask", "", "an address to ask again and again; /asked says how many requests were answered, and how many failed")
	if err := flags.Parse(args); err != nil {
		return b, err
	}
	if flags.NArg() > 0 {
		return b, fmt.Errorf("it takes flags only, not %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) {
		b.ends = b.ends || slices.Contains([]string{"run-for", "exit-code", "fails-as"}, f.Name)
	})
	b.ends = b.ends && !goesOn
	return b, nil
}
