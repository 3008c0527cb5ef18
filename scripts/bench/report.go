package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
)

// row is a line of the table.
type row struct {
	// key is that of the value, or keys with a + in between.
	key, name string
	// unit is in what the value is shown: seconds as s or ms, bytes as such or MiB, and what has come in
	// seconds as pods/s, of which more is better. A count has none.
	unit string
	// per is of how many the value is for one.
	per float64
	// beside is whose values stand beside kcm's, if not the original's, and besideKey under which key these
	// are, if not under the same.
	beside, besideKey string
}

// value returns what a trial has measured under the keys, in the row's unit.
func (r row) value(values map[string]float64, keys string) (sum float64, ok bool) {
	for key := range strings.SplitSeq(keys, " + ") {
		value, measured := values[key]
		sum, ok = sum+value, ok || measured
	}
	per := cmp.Or(r.per, 1)
	switch r.unit {
	case "pods/s":
		return per / sum, ok
	case "ms":
		sum *= 1000
	case "MiB":
		sum /= 1 << 20
	}
	return sum / per, ok
}

// report is everything that is known after the last round.
type report struct {
	Date      time.Time
	Processor string
	Cores     int
	// Programs are the versions of both, and Flags what both were started with, apart from the cluster's files.
	Programs, Flags []string
	Rows            []reportRow
	Limit           summary // in pods/s
	Rounds          []*result
}

// result is what one trial has measured.
type result struct {
	Round   int
	Subject string
	// Load is the machine's load over the minute before the trial, or -1 where the machine does not say.
	Load float64
	// Values are in seconds, bytes or counts, by key.
	Values map[string]float64
}

// reportRow is a row with its result.
type reportRow struct {
	Key, Name, Unit string
	KCM, Original   summary
	// Ratio is kcm's median by the original's, or 0 if that is 0.
	Ratio float64
	// Alike tells that each median lies within the range of the other's rounds, so nothing can be said about
	// which is better.
	Alike bool
}

// summary is a quantity over the rounds. These are too few for an interval of confidence to have bounds.
type summary struct{ Median, Min, Max float64 }

// newReport says what will be measured. It also runs both programs once, which brings them into the page
// cache: the first one measured is not to pay for the disk.
func newReport(ctx context.Context, b *bench) (*report, error) {
	cpus, _ := os.ReadFile("/proc/cpuinfo") // says less on some machines
	_, model, _ := strings.Cut(string(cpus), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	r := &report{Date: time.Now().UTC(), Processor: model, Cores: runtime.NumCPU(),
		Flags: slices.Concat(b.reference().sharedFlags(), wideLimits)}
	for _, path := range []string{b.kcm, b.original} {
		said, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("%s --version: %w; 'make bench' builds what it measures", path, err)
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.Programs = append(r.Programs, fmt.Sprint(strings.TrimSpace(string(said)), " ", info.GoVersion, info.Settings))
	}
	return r, nil
}

func loadAverage() float64 {
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if load, err := fs.LoadAvg(); err == nil {
			return load.Load1
		}
	}
	return -1
}

// summarise makes the rows of phases from the rounds. A row of which nothing was measured is left out.
func (r *report) summarise(phases []phase) {
	r.Rows = nil
	r.Limit = r.over(limitName, limitRow, limitRow.key)
	for _, p := range phases {
		for _, row := range p.rows {
			kcm := r.over(kcmName, row, row.key)
			original := r.over(cmp.Or(row.beside, originalName), row, cmp.Or(row.besideKey, row.key))
			if kcm == (summary{}) && original == (summary{}) {
				continue
			}
			done := reportRow{Key: row.key, Name: row.name, Unit: row.unit, KCM: kcm, Original: original}
			if original.Median != 0 {
				done.Ratio = kcm.Median / original.Median
			}
			done.Alike = kcm.spans(original.Median) && original.spans(kcm.Median)
			r.Rows = append(r.Rows, done)
		}
	}
}

// over sums up what a subject's rounds have measured for a row.
func (r *report) over(subject string, row row, key string) summary {
	var values []float64
	for _, result := range r.Rounds {
		if value, ok := row.value(result.Values, key); ok && result.Subject == subject {
			values = append(values, value)
		}
	}
	return summarise(values)
}

// summarise returns the zero summary for no values. The median of an even number of values lies half-way
// between the two in the middle.
func summarise(values []float64) summary {
	if len(values) == 0 {
		return summary{}
	}
	slices.Sort(values)
	n := len(values)
	return summary{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

// spans tells whether a value lies between the least and the greatest.
func (s summary) spans(value float64) bool { return s.Min <= value && value <= s.Max }

// String has as many digits as can be believed.
func (s summary) String() string {
	digits := 2
	if s.Median >= 100 {
		digits = 0
	} else if s.Median >= 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f [%.*f–%.*f]", digits, s.Median, digits, s.Min, digits, s.Max)
}

// write puts bench.json and bench.svg into a directory.
func (r *report) write(dir string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.json"), append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.svg"), r.draw(), 0o644)
}

// print shows the table and what one has to know to read it.
func (r *report) print(out io.Writer, dir string) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\n\tunit\tkcm\toriginal\tkcm/original\t")
	for _, row := range r.Rows {
		alike := ""
		if row.Alike {
			alike = "≈"
		}
		fmt.Fprintf(table, "%s\t%s\t%v\t%v\t%.2f\t%s\n", row.Name, row.Unit, row.KCM, row.Original, row.Ratio, alike)
	}
	table.Flush()
	fmt.Fprintf(out, `
Median [least–greatest] of the rounds, on %d cores. Where each median lies within the range of the other's
rounds, the two are alike (≈). The original runs only the loops that kcm has, except in the row that says so.
The namespace and the orphans are deleted at the rate limits that both have by themselves.
`, r.Cores)
	if before := r.Rounds[0].Load; before > 1 {
		fmt.Fprintf(out, "The machine was busy before the first round (load %.1f): measure again when it is quiet.\n", before)
	}
	if r.Limit.Median > 0 {
		fmt.Fprintf(out, "The limit: without a controller manager, a plain client with %d goroutines creates %v pods/s.\n",
			manyClients, r.Limit)
	}
	for _, row := range r.Rows {
		if row.Name == rateName && r.Limit.Median > 0 {
			fmt.Fprintf(out, "kcm reaches %.0f %% of that, the original %.0f %%.\n",
				100*row.KCM.Median/r.Limit.Median, 100*row.Original.Median/r.Limit.Median)
		}
	}
	fmt.Fprintf(out, "\nEverything is in %s: bench.json, bench.svg, logs and profiles.\n", dir)
}
