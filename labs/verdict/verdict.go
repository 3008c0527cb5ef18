// Package verdict is the table at the end of what is tried with kcm, with the original, or with both: a row for each
// thing that is tried, a column for each manager, and an error if something is not as it is to be.
package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// The marks of results. What has none has not been tried to its end.
const (
	Passed  = "✓"
	Failed  = "✗"
	Skipped = "–"
)

// Result is what became of a row with one manager.
type Result struct {
	Mark string
	Took time.Duration
	// Note is said beside the row: why it was left out, or what of it has failed. Told is shown of a failure at the end.
	Note, Told string
	// Intended is a failure that is to be.
	Intended bool
}

// Table has what became of all rows. Results may be put into it at the same time.
type Table struct {
	// Beside judges the first of the managers beside the other one: what both fail says nothing about the first.
	Beside bool

	managers, rows []string
	begin          time.Time
	mu             sync.Mutex
	results        map[[2]string]Result // by manager and row
	wrong          []string
}

// New returns the table of what is tried from now on.
func New(managers, rows []string) *Table {
	return &Table{managers: managers, rows: rows, begin: time.Now(), results: map[[2]string]Result{}}
}

// Names returns the names of all.
func Names[T any](all []T, name func(T) string) (names []string) {
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

// Choose returns those whose names a regular expression matches, or an error where there are none.
func Choose[T any](pattern string, all []T, name func(T) string) ([]T, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("ONLY: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !wanted.MatchString(name(one)) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("ONLY: nothing matches %q; one is called %s", pattern, name(all[0]))
	}
	return chosen, nil
}

// Put puts a result into the table, and tells of it.
func (t *Table) Put(manager, row string, r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[[2]string{manager, row}] = r
	n := t.count(manager, Passed, Failed, Skipped, "")
	fmt.Fprintf(os.Stderr, "%8s %3d of %d: %s %5.1f s  %s\n",
		manager, n, len(t.rows), cmp.Or(r.Mark, "?"), r.Took.Seconds(), row)
}

// Complain adds something to what is wrong.
func (t *Table) Complain(about string) { t.wrong = append(t.wrong, about) }

func (t *Table) count(manager string, marks ...string) (n int) {
	for at, r := range t.results {
		if at[0] == manager && slices.Contains(marks, r.Mark) {
			n++
		}
	}
	return n
}

// String is the table with its sums.
func (t *Table) String() string {
	width := 0
	for _, row := range t.rows {
		width = max(width, len(row))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-*s", width, "")
	for _, manager := range t.managers {
		fmt.Fprintf(&b, "  %-9s", manager)
	}
	b.WriteString("\n")
	for _, row := range t.rows {
		fmt.Fprintf(&b, "%-*s", width, row)
		var notes []string
		for _, manager := range t.managers {
			r := t.results[[2]string{manager, row}]
			fmt.Fprintf(&b, "  %s %5.1f s", cmp.Or(r.Mark, "?"), r.Took.Seconds())
			if r.Note != "" && !slices.Contains(notes, r.Note) {
				notes = append(notes, r.Note)
			}
		}
		for _, note := range notes {
			b.WriteString("  " + strings.ReplaceAll(note, "\n", "\n      "))
		}
		b.WriteString("\n")
	}
	return b.String() + t.Sums()
}

// Sums is how many rows have passed, failed and been skipped.
func (t *Table) Sums() string {
	var b strings.Builder
	for _, manager := range t.managers {
		passed, skipped := t.count(manager, Passed), t.count(manager, Skipped)
		fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped\n", manager, passed, len(t.rows)-passed-skipped, skipped)
	}
	fmt.Fprintf(&b, "in %.0f s\n", time.Since(t.begin).Seconds())
	return b.String()
}

// Err is an error if something is wrong: a manager that is judged has failed, or not ended, what it is to pass.
func (t *Table) Err() error {
	wrong := t.wrong
	judged := t.managers
	if t.Beside {
		judged = judged[:1]
	}
	for _, manager := range judged {
		for _, row := range t.rows {
			r := t.results[[2]string{manager, row}]
			if r.Mark == Passed || r.Mark == Skipped || r.Intended {
				continue
			}
			if t.Beside && len(t.managers) > 1 && t.results[[2]string{t.managers[1], row}].Mark != Passed {
				continue
			}
			wrong = append(wrong, strings.TrimSpace(fmt.Sprintf("%s fails %s\n%s", manager, row, r.Told)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "\n"))
}
