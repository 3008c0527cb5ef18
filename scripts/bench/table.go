package main

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
)

// print shows the table and what it is about.
func (r *report) print(out io.Writer, dir string) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tunit\tkcm\toriginal\tkcm/original\t")
	for _, row := range r.Rows {
		alike := ""
		if row.Alike {
			alike = alikeSign
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.2f\t%s\n", row.Name, row.Unit, row.KCM.show(), row.Original.show(), row.Ratio, alike)
	}
	table.Flush()
	fmt.Fprintf(out, "\n%s\n\nEverything is in %s, %s and %s.\n", r.caption(),
		filepath.Join(dir, "bench.json"), filepath.Join(dir, "bench.svg"), filepath.Join(dir, "profiles"))
}

const alikeSign = "≈"

// busy is the load of a machine on which more runs than bench itself.
const busy = 1

// caption says what one has to know to read the table.
func (r *report) caption() string {
	text := fmt.Sprintf("Median [least–greatest] of the rounds, on %d cores. Where each median lies within the range of the other's rounds, the two are alike (%s).\n",
		r.Machine.Cores, alikeSign)
	text += "The original runs only the loops that kcm has, except in the row that says so.\n"
	text += "The namespace and the orphans are deleted at the rate limits that both have by themselves."
	if before := r.Rounds[0].Load; before > busy {
		text += fmt.Sprintf("\nThe machine was busy before the first round (load %.1f): measure again when it is quiet.", before)
	}
	if r.Limit.Median > 0 {
		text += fmt.Sprintf("\nThe limit: without a controller manager, a plain client with %d goroutines creates %s pods/s.", limitClients, r.Limit.show())
		for _, row := range r.Rows {
			if row.Key == keyRate {
				text += fmt.Sprintf(" kcm reaches %.0f %% of that, the original %.0f %%.",
					100*row.KCM.Median/r.Limit.Median, 100*row.Original.Median/r.Limit.Median)
			}
		}
	}
	return text
}

// show has as many digits as can be believed.
func (s summary) show() string {
	digits := 2
	if s.Median >= 100 {
		digits = 0
	} else if s.Median >= 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f [%.*f–%.*f]", digits, s.Median, digits, s.Min, digits, s.Max)
}
