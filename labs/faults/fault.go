package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// Kind is what can go wrong.
type Kind struct {
	Name string
	// Does says what it does at number i.
	Does string
	// Watch tells that i counts the events of a resource's watch, not writes.
	Watch bool
	// Resource tells that it concerns one resource, which the fault names.
	Resource bool
	// kills are the components of the control plane that are killed.
	kills []string
	// code is the one with which a write is refused, or 0.
	code int
	// lasts tells that each repetition of the write is refused, too, for some time.
	lasts bool
}

// Alone tells that it disturbs all that use the control plane: such a run needs a new one for itself, as who has had to
// wait often waits longer before it tries again.
func (k Kind) Alone() bool { return len(k.kills) > 0 }

// Kinds are all kinds of faults.
var Kinds = []Kind{
	{Name: "stop", Does: "the manager is killed when write i is done, and started anew"},
	{Name: "lose", Does: "write i is done, and its answer is lost"},
	{Name: "refuse-409", Does: "write i is refused with a conflict", code: 409},
	{Name: "refuse-429", Does: "write i is refused: too many requests, again after a second", code: 429},
	{Name: "refuse-500", Does: "write i is refused with an internal error", code: 500},
	{Name: "refuse-504", Does: "write i is refused with a timeout", code: 504},
	{Name: "policy-403", code: 403, lasts: true,
		Does: "write i, and all like it for 3 s, are forbidden, as by the policy of a webhook"},
	{Name: "policy-409", code: 409, lasts: true, Does: "write i, and all like it for 3 s, are refused with a conflict"},
	{Name: "policy-422", code: 422, lasts: true,
		Does: "write i, and all like it for 3 s, are refused as invalid, as by a ValidatingAdmissionPolicy"},
	{Name: "policy-500", code: 500, lasts: true,
		Does: "write i, and all like it for 3 s, are refused with an internal error, as if a webhook did not answer"},
	{Name: "late", Does: "event i of a watch, and what follows it there, is 1.5 s late, or as late as the workload says",
		Watch: true, Resource: true},
	{Name: "miss", Watch: true, Resource: true,
		Does: "event i of a watch is never seen: the watch ends, and half a second later what is there is listed anew"},
	{Name: "older", Resource: true, Does: "the manager is killed when write i is done; the next one's first list of a " +
		"resource that may be older is from before it, and its watch is 1.5 s late"},
	{Name: "freeze", Does: "the leader is frozen when write i is done, and wakes up at the first write of the next one"},
	{Name: "apiserver", Does: "the API server is killed when write i is done, and started anew",
		kills: []string{cluster.APIServer}},
	{Name: "etcd", Does: "etcd and the API server are killed when write i is done, and started anew",
		kills: []string{cluster.Etcd, cluster.APIServer}},
}

// Fault is the one thing that goes wrong in a run. The zero value is none.
type Fault struct {
	Kind
	// Of is the resource whose watch or list it concerns, if it concerns one.
	Of string
	// At is the number, from 1, of the write or the event.
	At int
}

// String is the fault's part of a run's name, such as late-pods/2.
func (f Fault) String() string {
	switch {
	case f.Name == "":
		return "none"
	case f.Of == "":
		return fmt.Sprintf("%s/%d", f.Name, f.At)
	}
	return fmt.Sprintf("%s-%s/%d", f.Name, f.Of, f.At)
}

// parseFault is the opposite of String.
func parseFault(text string) (Fault, error) {
	if text == "none" {
		return Fault{}, nil
	}
	name, number, _ := strings.Cut(text, "/")
	at, err := strconv.Atoi(number)
	i := slices.IndexFunc(Kinds, func(k Kind) bool {
		return k.Name == name || k.Resource && strings.HasPrefix(name, k.Name+"-")
	})
	if err != nil || at < 1 || i < 0 {
		return Fault{}, fmt.Errorf("%q is no fault: it is KIND/NUMBER (stop/3) or KIND-RESOURCE/NUMBER (late-pods/2)", text)
	}
	return Fault{Kinds[i], strings.TrimPrefix(strings.TrimPrefix(name, Kinds[i].Name), "-"), at}, nil
}

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

// most bounds the numbers of the writes and events at which a fault happens.
const most = 40

// Plan returns the runs that there are of workloads. Without are the runs without a fault, by the name of their
// workload: they say how many writes and events there are. What is new comes early: of each workload and each kind of
// fault the first number, then of each the next one, and so on, and each time the kinds in turn, with another workload
// each. What lasts happens once at each kind of write, to which it does the same.
func Plan(workloads []*Workload, without map[string]*Result) (plan []Spec) {
	for at := 1; at <= most; at++ {
		for shift := range workloads {
			for i, kind := range Kinds {
				w := workloads[(i+shift)%len(workloads)]
				for _, of := range resourcesFor(kind, w, without[w.Name].Events) {
					switch r := without[w.Name]; {
					case kind.lasts:
						if at <= len(r.First) {
							plan = append(plan, Spec{w, Fault{kind, of, r.First[at-1]}})
						}
					case kind.Watch && at <= r.Events[of], !kind.Watch && at <= r.Writes:
						plan = append(plan, Spec{w, Fault{kind, of, at}})
					}
				}
			}
		}
	}
	return plan
}

// resourcesFor returns the resources that a kind of fault can concern in a workload, or one that is empty.
func resourcesFor(kind Kind, w *Workload, events map[string]int) []string {
	switch {
	case kind.Name == "freeze" && w.Goes:
		return nil // the Lease would go, too
	case !kind.Resource:
		return []string{""}
	}
	resources := slices.Concat(w.Watched, w.Needed)
	for _, resource := range resources {
		if metadata := metadataPrefix + resource; events[metadata] > 0 {
			resources = append(resources, metadata)
		}
	}
	return resources
}
