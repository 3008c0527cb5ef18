package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"
)

// outcome is how a run ended.
type outcome struct {
	// states is how many settled states were compared.
	states int
	// explained counts the states with intended differences, by their names.
	explained map[string]int
	// steps counts those that were done, by their verbs.
	steps map[string]int
	// writes are how many both have made.
	writes [2]int
	// differences are those that are not, of the last state. The run ended there.
	differences []difference
	// trace has a line for each step, if it was asked for.
	trace []string
	// log are the writes of both sides before the last state, in order.
	log [2][]string
}

// play does the steps on both sides and compares whenever they have settled, until something differs, on purpose or not. It
// needs a bubble of synctest for its own.
func play(t *testing.T, theirs loops, steps []step, traced bool) (result outcome) {
	result.explained, result.steps = map[string]int{}, map[string]int{}
	synctest.Test(t, func(*testing.T) {
		// Never at a full second, as which pods are stored as created: the original divides by the milliseconds since the
		// youngest was created, and a bubble begins at midnight.
		time.Sleep(time.Second / 2)
		worlds := []*world{newWorld(kcm), newWorld(theirs)}
		defer func() {
			for _, w := range worlds {
				w.manager.stop()
			}
		}()
		for _, s := range steps {
			result.steps[s.verb]++
			ends := s.play(worlds, &result)
			if traced {
				result.trace = append(result.trace, fmt.Sprintf("%s\t%s\t%s", s, worlds[0].brief(), worlds[1].brief()))
			}
			if ends {
				return
			}
		}
	})
	return result
}

// play does a step and tells whether the run is to end.
func (s step) play(worlds []*world, result *outcome) (ends bool) {
	time.Sleep(s.waits())
	if s.verb != settles {
		for _, w := range worlds {
			s.do(w)
		}
		return false
	}
	settle(worlds...)
	result.states++
	result.log = [2][]string{worlds[0].log, worlds[1].log}
	ours, original := worlds[0].look(), worlds[1].look()
	found := compare(ours, original)
	if worlds[0].hit.how != "" || worlds[1].hit.how != "" {
		// What was lost may have been told by another event, or tried again another time. What counts is how things are in
		// the end.
		found = slices.DeleteFunc(found, func(d difference) bool { return !d.lasts() })
		maps.Copy(worlds[0].ever, worlds[1].ever)
		maps.Copy(worlds[1].ever, worlds[0].ever)
	}
	// They try again at other times.
	uneven := worlds[0].hit != worlds[1].hit || worlds[0].failures() != worlds[1].failures()
	reasons := map[string]bool{}
	for _, d := range found {
		known := explain(d, worlds)
		switch {
		case known != nil:
			reasons[known.name] = true
		case d.slight:
			uneven = true // a deadline that is measured from there passes at another time
		default:
			result.differences = append(result.differences, d)
		}
	}
	for _, refusal := range worlds[0].invalid {
		result.differences = append(result.differences, difference{of: "what the API server refuses", kcm: refusal})
	}
	for name := range reasons {
		result.explained[name]++
	}
	for i, w := range worlds {
		result.writes[i] += len(w.log)
		w.log, w.hit, w.met = nil, fault{}, map[string]bool{}
		w.settled = append([]moment{w.now()}, w.settled[:min(2, len(w.settled))]...)
	}
	return uneven || ours.restless || len(reasons) > 0 || differ(*result)
}

// lasts tells whether it is there to be seen, and not only was on the way.
func (d difference) lasts() bool {
	return !strings.HasPrefix(d.of, "event: ") && !strings.HasPrefix(d.of, "writes: ")
}

// differ tells whether a run shows a difference that is not intended.
func differ(result outcome) bool { return len(result.differences) > 0 }

// reduce drops steps as long as what is left still shows something, and returns the shortest run. First it drops many at a
// time, then single ones.
func reduce[S any](steps []S, shows func(steps []S) bool) []S {
	for size := len(steps) / 2; size > 0; {
		dropped := false
		for at := 0; at+size <= len(steps); {
			if fewer := slices.Delete(slices.Clone(steps), at, at+size); shows(fewer) {
				steps, dropped = fewer, true
			} else {
				at += size
			}
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return steps
}

// report tells of a run that shows a difference.
func report(t *testing.T, theirs loops, seed uint64, steps []step) string {
	result := play(t, theirs, steps, true)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "step\tkcm\tthe original")
	fmt.Fprintln(table, strings.Join(result.trace, "\n"))
	table.Flush()
	fmt.Fprintln(&text, "image=size(ready/living pods of each ReplicaSet)")
	for _, d := range result.differences {
		fmt.Fprintln(&text, d)
	}
	fmt.Fprintf(&text, "writes of kcm:\n  %s\nwrites of the original:\n  %s\n", strings.Join(result.log[0], "\n  "), strings.Join(result.log[1], "\n  "))
	var words []string
	for _, s := range steps {
		words = append(words, s.String())
	}
	fmt.Fprintf(&text, "seed %d; again: make prove-memory ARGS=\"-steps '%s'\"\n", seed, strings.Join(words, "; "))
	return text.String()
}
