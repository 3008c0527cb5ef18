package main

import (
	"cmp"
	"errors"
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
	for _, reference := range s.managers {
		fmt.Print("\n", s.table(reference))
	}
	for _, reference := range s.managers {
		fmt.Print(s.findings(reference))
	}
	return s.verdict()
}

// table counts runs by the kind of their fault.
func (s *search) table(reference bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %6s %9s %9s %9s\n", nameOf(reference), "runs", "happened", "findings", "minutes")
	for _, kind := range faults.Kinds {
		runs, happened, found, took := 0, 0, 0, time.Duration(0)
		for _, r := range s.results {
			if r.Manager.Reference != reference || r.Fault.Name != kind.Name {
				continue
			}
			runs++
			took += r.Took
			if len(r.Struck) > 0 {
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

func nameOf(reference bool) string {
	if reference {
		return "the original"
	}
	return "kcm"
}

// found is what runs of one workload with one kind of fault have in common.
type found struct {
	faults.Finding
	runs []*faults.Result
}

// findings tells what was wrong: for each workload, kind of fault and invariant
// the run with the shortest history, and how many others there are.
func (s *search) findings(reference bool) string {
	groups := map[string]*found{}
	var order []string
	results := slices.SortedStableFunc(slices.Values(s.results), func(a, b *faults.Result) int { return cmp.Compare(a.Fault.At, b.Fault.At) })
	for _, r := range results {
		if r.Manager.Reference != reference {
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
		b.WriteString(describeFinding(groups[key]))
	}
	return b.String()
}

func describeFinding(f *found) string {
	first := f.runs[0]
	story := f.Story
	if story == nil {
		story = first.Story
	}
	var others []string
	for _, r := range f.runs[1:] {
		others = append(others, r.ID())
	}
	return describe(first.Manager, f.Finding, story, others, fmt.Sprintf("prove-faults ARGS=\"-replay %s\"", first.ID()))
}

// describe tells a finding with its history, where else it was seen, and what
// make has to be told to show it again.
func describe(m *play.Manager, f faults.Finding, story, others []string, again string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, %s: %s\n", m.Name, f.About, f.Says)
	fmt.Fprintln(&b, "  "+strings.Join(story, "\n  "))
	if len(others) > 0 {
		fmt.Fprintf(&b, "  also in %s\n", strings.Join(others, ", "))
	}
	environment := ""
	if m.Reference {
		environment = "REFERENCE=1 "
	}
	fmt.Fprintf(&b, "  again: %smake %s\n", environment, again)
	return b.String()
}

// verdict is an error if kcm did something wrong, or if something could not be
// played.
func (s *search) verdict() error {
	wrong := 0
	for _, r := range s.results {
		if len(r.Findings) > 0 && !r.Manager.Reference {
			wrong++
		}
	}
	var err error
	if wrong > 0 {
		err = fmt.Errorf("kcm did something wrong in %d runs", wrong)
	}
	return errors.Join(append([]error{err}, s.failed...)...)
}
