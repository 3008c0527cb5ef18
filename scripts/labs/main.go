// Command labs runs labs of the book so that one can watch them, and sums them
// up in a table.
//
//	labs 06        the lab of chapter 06
//	labs 04 06 07  these, and a table
//	labs           all, and a table
//
// It exits with 1 if one has failed. With -json it prints what go test -json
// prints instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	asJSON := flag.Bool("json", false, "print what go test -json prints")
	flag.Parse()
	// Ctrl-C is for the lab, which ends what it has started; then no other begins.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Args(), *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "labs:", err)
		os.Exit(1)
	}
}

// outcome is how a lab has ended.
type outcome struct {
	lab    string
	took   time.Duration
	failed bool
}

func run(ctx context.Context, numbers []string, asJSON bool) error {
	labs, err := find(numbers)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for _, lab := range labs {
		program, err := build(ctx, lab)
		if err != nil {
			return err
		}
		begin := time.Now()
		err = play(lab, program, asJSON)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		outcomes = append(outcomes, outcome{lab, time.Since(begin), err != nil})
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	if len(labs) > 1 && !asJSON {
		if err := printTable(outcomes); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.failed }) {
		return errors.New("not all steps have passed; the logs are in build/labs")
	}
	return nil
}

// find returns the directories of the labs with these numbers, or of all.
func find(numbers []string) ([]string, error) {
	all, err := filepath.Glob("labs/[0-9][0-9]-*/lab_test.go")
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("there is no lab here: run this in the root of the repository")
	}
	var labs []string
	for _, path := range all {
		labs = append(labs, filepath.Dir(path))
	}
	if len(numbers) == 0 {
		return labs, nil
	}
	var wanted []string
	for _, number := range numbers {
		i := slices.IndexFunc(labs, func(lab string) bool { return strings.HasPrefix(filepath.Base(lab), number+"-") })
		if i < 0 {
			return nil, fmt.Errorf("there is no lab %s: there are %s", number, strings.Join(labs, ", "))
		}
		wanted = append(wanted, labs[i])
	}
	return wanted, nil
}

func build(ctx context.Context, lab string) (string, error) {
	program, err := filepath.Abs(filepath.Join("build", "labs", filepath.Base(lab)+".test"))
	if err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+lab).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", lab, err, out)
	}
	return program, nil
}

// play runs a lab in its directory, with the terminal for its own.
func play(lab, program string, asJSON bool) error {
	cmd := exec.Command(program, "-test.timeout=0")
	if asJSON {
		cmd = exec.Command("go", "tool", "test2json", "-t", "-p", lab, program, "-test.v=test2json")
	} else {
		cmd.Env = append(os.Environ(), "LAB_NARRATE=1")
	}
	cmd.Dir = lab
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func printTable(outcomes []outcome) error {
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	var total time.Duration
	for _, o := range outcomes {
		mark := "✓"
		if o.failed {
			mark = "✗"
		}
		total += o.took
		fmt.Fprintf(table, "%s\t%s\t%.1f s\n", filepath.Base(o.lab), mark, o.took.Seconds())
	}
	fmt.Fprintf(table, "all\t\t%.1f s\n", total.Seconds())
	return table.Flush()
}
