package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/play"
)

// report shows how many runs there were of each kind, and what was found with
// each manager.
func (s *search) report() error {
	for _, m := range s.managers {
		fmt.Print("\n", s.table(m))
	}
	for _, m := range s.managers {
		fmt.Print(s.findings(m))
	}
	return s.verdict()
}

// table counts runs by the kind of their fault.
func (s *search) table(m *play.Manager) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %6s %9s %9s %9s\n", m.Name, "runs", "happened", "findings", "minutes")
	for _, kind := range faults.Kinds {
		runs, happened, found, took := 0, 0, 0, time.Duration(0)
		for _, r := range s.results {
			if r.Manager != m || r.Fault.Name != kind.Name {
				continue
			}
			runs++
			took += r.Took
			if r.Struck {
				happened++
			}
			if len(r.Findings) > 0 {
				found++
			}
		}
		if runs > 0 {
			fmt.Fprintf(&b, "%-24s %6d %9d %9d %9.1f\n", kind.Name, runs, happened, found, took.Minutes())
		}
	}
	return b.String()
}

// found is what runs of one workload with one kind of fault have in common.
type found struct {
	faults.Finding
	runs []*faults.Result
}

// findings tells what was wrong: for each workload, kind of fault and invariant
// the run with the shortest history, and how many others there are.
func (s *search) findings(m *play.Manager) string {
	groups := map[string]*found{}
	var order []string
	results := slices.SortedStableFunc(slices.Values(s.results), func(a, b *faults.Result) int { return cmp.Compare(a.Fault.At, b.Fault.At) })
	for _, r := range results {
		if r.Manager != m {
			continue
		}
		for _, f := range r.Findings {
			key := strings.Join([]string{r.Workload.Name, r.Fault.Name, r.Fault.Of, f.About}, " ")
			if groups[key] == nil {
				groups[key] = &found{Finding: f}
				order = append(order, key)
			}
			groups[key].runs = append(groups[key].runs, r)
		}
	}
	var b strings.Builder
	for _, key := range order {
		b.WriteString(describe(m, groups[key]))
	}
	return b.String()
}

func describe(m *play.Manager, f *found) string {
	var b strings.Builder
	first := f.runs[0]
	fmt.Fprintf(&b, "\n%s, %s: %s\n", m.Name, f.About, f.Says)
	story := f.Story
	if story == nil {
		story = first.Story
	}
	fmt.Fprintln(&b, "  "+strings.Join(story, "\n  "))
	var others []string
	for _, r := range f.runs[1:] {
		others = append(others, r.ID())
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, "  also in %s\n", strings.Join(others, ", "))
	}
	environment := ""
	if m.Reference {
		environment = "REFERENCE=1 "
	}
	fmt.Fprintf(&b, "  again: %smake faults ARGS=\"-replay %s\"\n", environment, first.ID())
	return b.String()
}

// verdict is an error if kcm did something wrong.
func (s *search) verdict() error {
	wrong := 0
	for _, r := range s.results {
		if len(r.Findings) > 0 && !r.Manager.Reference {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("kcm did something wrong in %d runs", wrong)
	}
	return nil
}
