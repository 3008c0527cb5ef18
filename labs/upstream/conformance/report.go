package main

import (
	"fmt"
	"strings"
)

// marks are what stands for an outcome in a table.
var marks = map[string]string{"passed": "✓", "failed": "✗", "panicked": "✗", "timedout": "✗", "skipped": "–", "": "?"}

// report is what became of all specs, by manager and name.
type report struct {
	chosen   []spec
	managers []string
	outcomes map[string]map[string]outcome
}

// table has a line for each spec. Those that were left out say why.
func (r report) table() string {
	var b strings.Builder
	b.WriteString("\n")
	for _, manager := range r.managers {
		fmt.Fprintf(&b, "%-12s", manager)
	}
	b.WriteString("\n")
	for _, s := range r.chosen {
		if s.why != "" {
			fmt.Fprintf(&b, "%-*s%s\n%*s  left out: %s\n", 12*len(r.managers), "–", s.name, 12*len(r.managers), "", s.why)
			continue
		}
		for _, manager := range r.managers {
			o := r.outcomes[manager][s.name]
			fmt.Fprintf(&b, "%s %5.0f s   ", marks[o.state], o.took.Seconds())
		}
		b.WriteString(s.name + "\n")
	}
	b.WriteString("\n")
	for _, manager := range r.managers {
		b.WriteString(r.sum(manager))
	}
	return b.String()
}

func (r report) sum(manager string) string {
	run, passed, left := 0, 0, 0
	for _, s := range r.chosen {
		switch {
		case s.why != "":
			left++
			continue
		case r.outcomes[manager][s.name].state == "passed":
			passed++
		}
		run++
	}
	return fmt.Sprintf("%s: %d of %d passed, %d left out\n", manager, passed, run, left)
}

// verdict is an error if the first of the managers has failed a spec. With two that is kcm, and what the original fails, too,
// says nothing about kcm.
func (r report) verdict() error {
	var wrong []string
	for _, s := range r.chosen {
		if s.why != "" {
			continue
		}
		judged := r.managers[0]
		passes := len(r.managers) == 1 || r.outcomes["original"][s.name].state == "passed"
		if o := r.outcomes[judged][s.name]; o.state != "passed" && o.state != "skipped" && passes {
			wrong = append(wrong, fmt.Sprintf("with %s fails %s\n  %s", judged, s.name, strings.ReplaceAll(o.message, "\n", "\n  ")))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s\nlogs are in build/upstream/conformance-*", strings.Join(wrong, "\n"))
	}
	return nil
}
