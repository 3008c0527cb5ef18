package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/labs/odd"
)

// playNeighbours measures what attacks on one namespace's neighbours cost these,
// with kcm and with the original. It is an error if with kcm that is too much.
func playNeighbours(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("neighbours", flag.ContinueOnError)
	only := flags.String("only", "", "a regular expression for the names of attacks, such as 'Secrets|quota'")
	with := flags.String("with", "", "kcm or original, to measure one of them alone")
	markdown := flags.Bool("markdown", false, "print the rows of a table for the book")
	err := parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	program, err := finished()
	if err != nil {
		return err
	}
	begin := time.Now()
	var rows [][]*odd.Damage
	var wrong []string
	for _, attack := range odd.Attacks {
		if !wanted.MatchString(attack.Name) {
			continue
		}
		var row []*odd.Damage
		for _, reference := range []bool{false, true} {
			if *with != "" && reference != (*with == "original") {
				continue
			}
			d, err := odd.Suffer(ctx, attack, program, reference)
			if err != nil {
				return fmt.Errorf("%s: %w", attack.Name, err)
			}
			row = append(row, d)
			told := d.Wrong()
			fmt.Fprintln(os.Stderr, progress(d, told))
			if !reference && len(told) > 0 {
				wrong = append(wrong, attack.Name+": "+strings.Join(told, "; "))
			}
		}
		rows = append(rows, row)
	}
	fmt.Printf("\n%s, %d cores, %.0f minutes, %s\n\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), time.Since(begin).Minutes(), load())
	for i, row := range rows {
		if *markdown {
			fmt.Print(markdownRow(row, i == 0))
		} else {
			fmt.Print(textRows(row))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("kcm lets one namespace cost others too much:\n%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// load says what else the machine was doing.
func load() string {
	said, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "the load is not known"
	}
	return "load " + strings.Join(strings.Fields(string(said))[:3], " ")
}

// progress tells of an attack that is over, and of all canaries that were late.
func progress(d *odd.Damage, wrong []string) string {
	mark := "✓"
	if len(wrong) > 0 {
		mark = "✗"
	}
	said := fmt.Sprintf("%s %s: %s\n    %s", mark, d.Manager, d.Attack.Name, cells(d))
	if d.Refused > 0 {
		said += fmt.Sprintf("\n    %d of %d requests were refused, the last: %.200s", d.Refused, d.Sent, d.Why)
	}
	for _, w := range wrong {
		said += "\n    ✗ " + w
	}
	return said
}

// cells says what an attack has cost.
func cells(d *odd.Damage) string {
	if d.Ended {
		return "it has ended"
	}
	worst := d.Worst()
	return fmt.Sprintf("%s (%s), %d MiB for %.1f MiB, CPU %.1f s",
		worst, worst.Does, d.Grown>>20, float64(d.Stored)/(1<<20), d.CPU)
}

func textRows(row []*odd.Damage) string {
	said := row[0].Attack.Name + "\n"
	for _, d := range row {
		said += fmt.Sprintf("    %-24s %s\n", d.Manager, cells(d))
	}
	return said
}

// markdownRow is a row of a table of both, with its head if it is the first.
func markdownRow(row []*odd.Damage, first bool) (said string) {
	if first {
		said = "| the attack | stored |"
		for _, d := range row {
			said += fmt.Sprintf(" %s: the canary that waits longest | memory | CPU |", d.Manager)
		}
		said += "\n|---|---|" + strings.Repeat("---|---|---|", len(row)) + "\n"
	}
	said += fmt.Sprintf("| %s | %.1f MiB |", row[0].Attack.Name, float64(row[0].Stored)/(1<<20))
	for _, d := range row {
		if d.Ended {
			said += " it ends | | |"
			continue
		}
		worst := d.Worst()
		said += fmt.Sprintf(" %s: %s | %d MiB | %.0f s |", worst.Does, worst, d.Grown>>20, d.CPU)
	}
	return said + "\n"
}
