package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Spec is a run that is to be played.
type Spec struct {
	Workload *Workload
	Fault    Fault
}

// String names a run, such as rollout/stop/3.
func (s Spec) String() string { return s.Workload.Name + "/" + s.Fault.String() }

// ParseSpec is the opposite of [Spec.String], with one of some workloads.
func ParseSpec(text string, workloads []*Workload) (Spec, error) {
	name, rest, _ := strings.Cut(text, "/")
	i := slices.IndexFunc(workloads, func(w *Workload) bool { return w.Name == name })
	if i < 0 {
		return Spec{}, fmt.Errorf("%q begins with no workload: it is WORKLOAD/KIND/NUMBER, as rollout/stop/3", text)
	}
	fault, err := parseFault(rest)
	if err != nil {
		return Spec{}, err
	}
	return Spec{workloads[i], fault}, nil
}

// Plan returns the runs of workloads whose names a regular expression matches, in an order in
// which what is new comes early: of each workload and each kind of fault the
// first number, then of each the next one, and so on, and each time the kinds
// in turn, with another workload each. Without are the runs without a fault by
// the name of their workload: they say how many writes and events there are.
// Most bounds the numbers.
func Plan(workloads []*Workload, without map[string]*Result, only *regexp.Regexp, most int) []Spec {
	var columns [][]Spec
	for shift := range workloads {
		for i, kind := range Kinds {
			w := workloads[(i+shift)%len(workloads)]
			if without[w.Name] == nil {
				continue
			}
			for _, of := range resourcesFor(kind, without[w.Name]) {
				columns = append(columns, column(without[w.Name], kind, of, only, most))
			}
		}
	}
	var plan []Spec
	for row := range most {
		for _, c := range columns {
			if row < len(c) {
				plan = append(plan, c[row])
			}
		}
	}
	return plan
}

// resourcesFor returns the resources that a kind of fault can concern in a
// workload, or one that is empty.
func resourcesFor(kind Kind, without *Result) []string {
	w := without.Workload
	switch {
	case kind.Name == "freeze" && w.Goes:
		return nil // the Lease would go, too
	case !kind.Resource:
		return []string{""}
	}
	resources := slices.Concat(w.Watched, w.Needed)
	for _, resource := range resources {
		if metadata := metadataPrefix + resource; without.Events[metadata] > 0 {
			resources = append(resources, metadata)
		}
	}
	return resources
}

// column are the runs of one workload with one kind of fault.
func column(without *Result, kind Kind, of string, only *regexp.Regexp, most int) (specs []Spec) {
	numbers := without.Writes
	if kind.Watch {
		numbers = without.Events[of]
	}
	for _, at := range order(min(numbers, most)) {
		spec := Spec{without.Workload, Fault{kind, of, at}}
		if only.MatchString(spec.String()) {
			specs = append(specs, spec)
		}
	}
	return specs
}

// order returns the numbers from 1 to n: the first three, for most goes wrong at
// the beginning, then the middle of what is left, and the middles of its halves.
func order(n int) []int {
	var numbers []int
	for i := 1; i <= min(n, 3); i++ {
		numbers = append(numbers, i)
	}
	type span struct{ low, high int }
	for spans := []span{{4, n}}; len(spans) > 0; {
		s := spans[0]
		spans = spans[1:]
		if s.low > s.high {
			continue
		}
		middle := (s.low + s.high) / 2
		numbers = append(numbers, middle)
		spans = append(spans, span{s.low, middle - 1}, span{middle + 1, s.high})
	}
	return numbers
}
