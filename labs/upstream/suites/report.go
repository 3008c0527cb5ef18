package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// marks are what stands for an outcome in a table. A test whose suite has died before has none.
var marks = map[string]string{"pass": "✓", "fail": "✗", "skip": "–", "": "?"}

// report is what became of all tests. Tests are named as in deployment/TestScaledRolloutDeployment, subtests too.
type report struct {
	intended map[string]string
	chosen   []selection
	managers []string
	outcomes map[string]map[string]event // by manager and test
}

func (r *report) take(test, manager string, e event) {
	if r.outcomes == nil {
		r.outcomes = map[string]map[string]event{}
	}
	if r.outcomes[manager] == nil {
		r.outcomes[manager] = map[string]event{}
	}
	r.outcomes[manager][test] = e
}

// table has a line for each test, and a sum for each suite.
func (r *report) table() string {
	var b strings.Builder
	for _, s := range r.chosen {
		fmt.Fprintf(&b, "\n%-70s", s.name)
		for _, manager := range r.managers {
			fmt.Fprintf(&b, "%16s", manager)
		}
		b.WriteString("\n")
		for _, test := range s.tests {
			fmt.Fprintf(&b, "  %-68s", test)
			for _, manager := range r.managers {
				e := r.outcomes[manager][s.name+"/"+test]
				fmt.Fprintf(&b, "%6s %7.1f s", marks[e.Action], e.Elapsed)
			}
			b.WriteString("\n" + r.remark(s.name+"/"+test))
		}
	}
	b.WriteString("\n")
	for _, manager := range r.managers {
		fmt.Fprintf(&b, "%s\n", r.sum(manager))
	}
	return b.String()
}

// remark says of a test that is to fail why, and which subtests have failed.
func (r *report) remark(test string) (remark string) {
	if why := r.intended[test]; why != "" {
		remark = "      intended: " + why + "\n"
	}
	for _, manager := range r.managers {
		for _, sub := range slices.Sorted(maps.Keys(r.outcomes[manager])) {
			if strings.HasPrefix(sub, test+"/") && r.outcomes[manager][sub].Action == "fail" {
				remark += fmt.Sprintf("      %s fails %s\n", manager, strings.TrimPrefix(sub, test+"/"))
				if why := r.intended[sub]; why != "" && manager == "kcm" {
					remark += "        intended: " + why + "\n"
				}
			}
		}
	}
	return remark
}

func (r *report) sum(manager string) string {
	all, passed := 0, 0
	var suites []string
	for _, s := range r.chosen {
		of := 0
		for _, test := range s.tests {
			if r.outcomes[manager][s.name+"/"+test].Action == "pass" {
				of++
			}
		}
		all, passed = all+len(s.tests), passed+of
		suites = append(suites, fmt.Sprintf("%s %d of %d", s.name, of, len(s.tests)))
	}
	return fmt.Sprintf("%s: %d of %d passed (%s)", manager, passed, all, strings.Join(suites, ", "))
}

// asIntended tells whether kcm may fail a test: the test is listed, or all of its subtests that have failed are.
func (r *report) asIntended(test string) bool {
	if r.intended[test] != "" {
		return true
	}
	failed := 0
	for sub, e := range r.outcomes["kcm"] {
		if e.Action != "fail" || !strings.HasPrefix(sub, test+"/") {
			continue
		}
		if failed++; !r.asIntended(sub) {
			return false
		}
	}
	return failed > 0
}

// verdict is an error if the first of the managers has failed a test that it is to pass. With two that is kcm, and what the
// original fails, too, says nothing about kcm.
func (r *report) verdict() error {
	judged := r.managers[0]
	var wrong []string
	for _, s := range r.chosen {
		for _, name := range s.tests {
			test := s.name + "/" + name
			became := r.outcomes[judged][test].Action
			intended := judged == "kcm" && r.asIntended(test)
			passes := len(r.managers) == 1 || r.outcomes["original"][test].Action == "pass"
			switch {
			case became != "pass" && became != "skip" && !intended && passes:
				wrong = append(wrong, fmt.Sprintf("%s fails %s: see build/upstream/%s-%s.log", judged, test, s.name, judged))
			}
		}
	}
	for _, test := range slices.Sorted(maps.Keys(r.intended)) {
		if judged == "kcm" && r.outcomes["kcm"][test].Action == "pass" {
			wrong = append(wrong, test+" passes: take it out of labs/upstream/suites/differences.yaml")
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}
