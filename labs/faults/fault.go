package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	// Alone tells that it disturbs all that use the control plane: such a run
	// needs one for itself.
	Alone bool
	// code is the one with which a write is refused, or 0.
	code int
	// lasts tells that each repetition of the write is refused, too, for some time.
	lasts bool
}

// Kinds are all kinds of faults.
var Kinds = []Kind{
	{Name: "stop", Does: "the manager is killed when write i is done, and started anew"},
	{Name: "lose", Does: "write i is done, and its answer is lost"},
	{Name: "refuse-409", Does: "write i is refused with a conflict", code: 409},
	{Name: "refuse-429", Does: "write i is refused: too many requests, again after a second", code: 429},
	{Name: "refuse-500", Does: "write i is refused with an internal error", code: 500},
	{Name: "refuse-504", Does: "write i is refused with a timeout", code: 504},
	{Name: "policy-403", Does: "write i, and all like it for 3 s, are forbidden, as by the policy of a webhook", code: 403, lasts: true},
	{Name: "policy-409", Does: "write i, and all like it for 3 s, are refused with a conflict", code: 409, lasts: true},
	{Name: "policy-422", Does: "write i, and all like it for 3 s, are refused as invalid, as by a ValidatingAdmissionPolicy", code: 422, lasts: true},
	{Name: "policy-500", Does: "write i, and all like it for 3 s, are refused with an internal error, as without a webhook that has to be asked", code: 500, lasts: true},
	{Name: "late", Does: "event i of a watch, and what follows it there, comes 1.5 s late", Watch: true, Resource: true},
	{Name: "miss", Does: "event i of a watch is never seen: the watch ends, and half a second later what is there is listed anew", Watch: true, Resource: true},
	{Name: "older", Does: "the manager is killed when write i is done; the next one's first list of a resource that may be older is from before it, and its watch is 1.5 s late", Resource: true},
	{Name: "freeze", Does: "the leader is frozen when write i is done, and wakes up at the first write of the next one"},
	{Name: "apiserver", Does: "the API server is killed when write i is done, and started anew", Alone: true},
	{Name: "etcd", Does: "etcd and the API server are killed when write i is done, and started anew", Alone: true},
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
	if f.Name == "" {
		return "none"
	}
	return fmt.Sprintf("%s/%d", f.kindAndResource(), f.At)
}

func (f Fault) kindAndResource() string {
	if f.Of == "" {
		return f.Name
	}
	return f.Name + "-" + f.Of
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
		return Fault{}, fmt.Errorf("%q is no fault: it is KIND/NUMBER, as stop/3, or KIND-RESOURCE/NUMBER, as late-pods/2", text)
	}
	return Fault{Kinds[i], strings.TrimPrefix(strings.TrimPrefix(name, Kinds[i].Name), "-"), at}, nil
}
