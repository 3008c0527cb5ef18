package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// scenarioName returns the part of a test's name that tells the folder and the
// scenario.
func scenarioName(test string) (string, bool) {
	return strings.CutPrefix(test, "TestScenarios/")
}

// isScenario tells scenarios from the folders that they are in.
func (r *results) isScenario(name string) bool {
	return !slices.ContainsFunc(r.order, func(other string) bool { return strings.HasPrefix(other, name+"/") })
}

// sentence is what a scenario proves, with its folder before it.
func sentence(scenario string) string {
	i := strings.LastIndex(scenario, "/")
	return scenario[:i+1] + strings.ReplaceAll(scenario[i+1:], "-", " ")
}

func mark(r *result) string {
	switch {
	case r == nil:
		return " "
	case r.verdict == "pass":
		return "✓"
	case r.verdict == "skip":
		return "–"
	default:
		return "✗"
	}
}

func (r *results) count(verdict string) (n int) {
	for name, s := range r.scenarios {
		if s.verdict == verdict && r.isScenario(name) {
			n++
		}
	}
	return n
}

// table shows the scenarios with both results. Those that were skipped say why.
func table(kcm, original *results) string {
	names := slices.DeleteFunc(slices.Sorted(slices.Values(append(kcm.order, original.order...))), func(name string) bool {
		return !kcm.isScenario(name) || !original.isScenario(name)
	})
	names = slices.Compact(names)
	width := 0
	for _, name := range names {
		width = max(width, len(sentence(name)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-*s  %-9s %-9s\n", width, "scenario", "kcm", "original")
	for _, name := range names {
		a, o := kcm.scenarios[name], original.scenarios[name]
		fmt.Fprintf(&b, "%-*s  %s  %s%s\n", width, sentence(name), cell(a), cell(o), whySkipped(a, o))
	}
	for _, r := range []*results{kcm, original} {
		fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped in %.0f s\n", r.name, r.count("pass"), r.count("fail"), r.count("skip"), r.duration.Seconds())
	}
	return b.String()
}

func cell(r *result) string {
	if r == nil {
		return strings.Repeat(" ", 9)
	}
	return fmt.Sprintf("%s %5.1f s", mark(r), r.seconds)
}

// logLine is how go test prints what a test has said.
var logLine = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: (.+)$`)

// whySkipped returns what a scenario says when it does not run.
func whySkipped(results ...*result) string {
	for _, r := range results {
		if r == nil || r.verdict != "skip" {
			continue
		}
		if said := logLine.FindAllStringSubmatch(r.output.String(), -1); len(said) > 0 {
			return "  " + said[len(said)-1][1]
		}
	}
	return ""
}

// verdict is an error if a scenario has failed, and shows what it has said.
func verdict(all ...*results) error {
	failed := 0
	for _, r := range all {
		for _, name := range r.order {
			if s := r.scenarios[name]; s.verdict != "pass" && s.verdict != "skip" && r.isScenario(name) {
				failed++
				fmt.Printf("\n%s failed: %s\n%s", r.name, sentence(name), s.output.String())
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of the results are failures", failed)
	}
	return nil
}
