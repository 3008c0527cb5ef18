package garbagecollector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// thing returns an object in the namespace "here" whose UID is its name.
func thing(name string, changes ...func(*object)) *object {
	obj := &object{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name, UID: types.UID(name), ResourceVersion: "1"},
	}
	for _, change := range changes {
		change(obj)
	}
	return obj
}

func in(namespace string) func(*object) { return func(o *object) { o.Namespace = namespace } }

func withFinalizers(finalizers ...string) func(*object) {
	return func(o *object) { o.Finalizers = finalizers }
}

// deleted marks an object as being deleted, with the finalizers it waits for.
func deleted(finalizers ...string) func(*object) {
	return func(o *object) {
		o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		o.Finalizers = append(o.Finalizers, finalizers...)
	}
}

const (
	foreground = metav1.FinalizerDeleteDependents
	orphan     = metav1.FinalizerOrphanDependents
)

func refTo(owner *object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
}

func ownedBy(owners ...*object) func(*object) {
	return func(o *object) {
		for _, owner := range owners {
			o.OwnerReferences = append(o.OwnerReferences, refTo(owner))
		}
	}
}

// blocking is ownedBy with blockOwnerDeletion.
func blocking(owner *object) func(*object) {
	return func(o *object) {
		ref := refTo(owner)
		ref.BlockOwnerDeletion = ptr.To(true)
		o.OwnerReferences = append(o.OwnerReferences, ref)
	}
}

// calling refers to an owner by something that it is not.
func calling(owner *object, change func(*metav1.OwnerReference)) func(*object) {
	return func(o *object) {
		ref := refTo(owner)
		change(&ref)
		o.OwnerReferences = append(o.OwnerReferences, ref)
	}
}

// graphOf returns the graph of what informers show, without a call of what
// builds it otherwise.
func graphOf(objects ...*object) *graph {
	g := newGraph()
	for _, obj := range objects {
		g.node(obj.UID).object = obj
	}
	for _, obj := range objects {
		for _, ref := range obj.OwnerReferences {
			g.depends(g.node(obj.UID), g.node(ref.UID))
		}
	}
	return g
}

func (g *graph) depends(dependent, owner *node) {
	if owner.dependents == nil {
		owner.dependents = map[types.UID]*node{}
	}
	owner.dependents[dependent.uid] = dependent
}

// String writes the work in words: "check a, b; orphan c".
func (w work) String() string {
	var parts []string
	add := func(what string, keys []key) {
		if len(keys) > 0 {
			parts = append(parts, what+" "+list(uidsOf(keys)))
		}
	}
	add("check", w.check)
	add("orphan the dependents of", w.orphan)
	var told []key
	for _, m := range w.misplaced {
		told = append(told, keyOf(m.dependent))
	}
	add("tell of", told)
	return cmp.Or(strings.Join(parts, "; "), "nothing")
}

func uidsOf(keys []key) (uids []types.UID) {
	for _, k := range keys {
		uids = append(uids, k.uid)
	}
	return uids
}

// here is the key of a thing.
func here(uid types.UID) key { return key{"here", uid} }

func list(uids []types.UID) string {
	uids = slices.Clone(uids)
	slices.Sort(uids)
	var words []string
	for _, uid := range slices.Compact(uids) {
		words = append(words, string(uid))
	}
	return strings.Join(words, ", ")
}

// drawn writes a graph in words, a line for each node: "web <- web-1, web-2".
func (g *graph) drawn() string {
	var lines []string
	for uid, n := range g.nodes {
		line := string(uid)
		if n.object == nil {
			line += " (virtual)"
		}
		var dependents []types.UID
		for d := range n.dependents {
			dependents = append(dependents, d)
		}
		if len(dependents) > 0 {
			line += " <- " + list(dependents)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return cmp.Or(strings.Join(lines, "\n"), "nothing")
}

// String writes a plan in words.
func (p plan) String() string {
	var parts []string
	if len(p.drop) > 0 {
		var uids []types.UID
		for _, ref := range p.drop {
			uids = append(uids, ref.UID)
		}
		parts = append(parts, "drop "+list(uids))
	}
	if p.unblock {
		parts = append(parts, "let nobody wait for it")
	}
	if p.deletion != "" {
		parts = append(parts, fmt.Sprintf("delete (%s)", p.deletion))
	}
	if p.release {
		parts = append(parts, "release")
	}
	if len(p.check) > 0 {
		parts = append(parts, "check "+list(uidsOf(p.check)))
	}
	return cmp.Or(strings.Join(parts, "; "), "keep")
}

// knowsLost tells whether an owner that an object names is known to be gone.
func (g *graph) knowsLost(dependent types.UID) bool {
	return slices.Contains(g.nodes[dependent].refuted, true)
}
