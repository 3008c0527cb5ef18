package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
)

// graph has a node for each object that its informer shows and for each UID
// that one of them names as an owner. It is not safe for concurrent use.
type graph struct {
	nodes map[types.UID]*node
	// gone remembers the last thousand owners that were found not to exist, for
	// dependents that are seen later.
	gone *lru.Cache
}

// node is an object with those that name it as an owner.
type node struct {
	uid types.UID
	// object is the informer's own, and nil for a virtual node: an owner that
	// no informer shows.
	object     *object
	dependents map[types.UID]*node
	// refuted has an entry for each owner reference of the object: true when it is
	// known to lead nowhere.
	refuted []bool
	// refs has the indices of the owner references by UID, once they were asked for.
	refs map[types.UID][]int
}

// work is what a change of the graph gives reason to do.
type work struct {
	// check are objects, and owners that nobody has seen, to be looked at.
	check []key
	// orphan are owners whose dependents are to be freed.
	orphan []key
	// misplaced are references to owners in another namespace.
	misplaced []misplaced
}

// misplaced is a reference whose owner is in another namespace.
type misplaced struct {
	dependent *object
	owner     metav1.OwnerReference
}

func newGraph() *graph {
	return &graph{nodes: map[types.UID]*node{}, gone: lru.New(1000)}
}

// node returns the node of a UID, a new virtual one if there was none.
func (g *graph) node(uid types.UID) *node {
	n := g.nodes[uid]
	if n == nil {
		n = &node{uid: uid}
		g.nodes[uid] = n
	}
	return n
}

// put records an object as an informer shows it: for the first time, changed,
// or unchanged.
func (g *graph) put(obj *object) (do work) {
	n := g.node(obj.UID)
	before := n.object
	n.object = obj
	if before == nil {
		g.appear(n, &do)
	}
	if before == nil || !slices.EqualFunc(before.OwnerReferences, obj.OwnerReferences, sameReference) {
		g.unlink(n, before, &do)
		n.refuted, n.refs = nil, nil
		g.link(n, &do)
	}
	if phase := phaseOf(obj); phase != phaseOf(before) {
		switch phase {
		case orphaning:
			do.orphan = append(do.orphan, keyOf(obj))
		case collecting:
			do.check = append(do.check, keyOf(obj))
			for _, d := range n.dependents {
				do.check = append(do.check, keyOf(d.object))
			}
		}
	}
	return do
}

// sameReference compares what there may be thousands of, with the graph's lock
// held: without reflection.
func sameReference(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion) && ptr.Equal(a.Controller, b.Controller)
}

// appear has those dependents looked at that meant somebody else.
func (g *graph) appear(n *node, do *work) {
	for _, dependent := range n.dependents {
		for _, owner := range dependent.object.OwnerReferences {
			if owner.UID == n.uid && !claim(dependent.object, owner).means(n.object) {
				do.mistaken(dependent, owner, n)
			}
		}
	}
}

// mistaken has a dependent looked at whose owner is not what its reference
// says. Of several owners in other namespaces the user is told of one.
func (do *work) mistaken(dependent *node, owner metav1.OwnerReference, actual *node) {
	do.check = append(do.check, keyOf(dependent.object))
	told := len(do.misplaced) > 0 && do.misplaced[len(do.misplaced)-1].dependent == dependent.object
	if !told && isElsewhere(actual.object, dependent.object) {
		do.misplaced = append(do.misplaced, misplaced{dependent.object, owner})
	}
}

// isElsewhere tells whether an owner is in another namespace than the object that
// names it. Then it is none, and need not care for the object.
func isElsewhere(owner, dependent *object) bool {
	return owner.Namespace != "" && owner.Namespace != dependent.Namespace
}

// link records whom a new object, or one that has other owner references than
// before, names as its owners, and adds to do what these references give reason
// to look at. An owner that n names has n among its dependents afterwards,
// whether or not an informer shows that owner.
func (g *graph) link(n *node, do *work) {
	for _, ref := range n.object.OwnerReferences {
		owner := g.node(ref.UID)
		if owner.dependents == nil {
			owner.dependents = map[types.UID]*node{}
		}
		owner.dependents[n.uid] = n
		switch {
		case owner.object == nil:
			do.check = append(do.check, key{n.object.Namespace, owner.uid})
		case !claim(n.object, ref).means(owner.object):
			do.mistaken(n, ref, owner)
		case phaseOf(owner.object) == orphaning:
			do.orphan = append(do.orphan, keyOf(owner.object))
		case phaseOf(owner.object) == collecting:
			do.check = append(do.check, keyOf(n.object))
		}
	}
}

// unlink makes n a dependent of none of the owners that it had before. An owner
// that waits for its dependents to go is to be looked at, and a virtual one
// without dependents is of no more use.
func (g *graph) unlink(n *node, before *object, do *work) {
	if before == nil {
		return
	}
	for _, ref := range before.OwnerReferences {
		owner := g.nodes[ref.UID]
		if owner == nil {
			continue // two references to one owner
		}
		delete(owner.dependents, n.uid)
		if phaseOf(owner.object) == collecting {
			do.check = append(do.check, keyOf(owner.object))
		}
		g.prune(owner)
	}
}

// named returns the keys of an owner that no informer shows: one for each
// namespace in which it is named.
func (n *node) named() (keys []key) {
	namespaces := sets.New[string]()
	for _, d := range n.dependents {
		namespaces.Insert(d.object.Namespace)
	}
	for namespace := range namespaces {
		keys = append(keys, key{namespace, n.uid})
	}
	return keys
}

// isVirtual tells whether others name an object that no informer shows.
func (g *graph) isVirtual(uid types.UID) bool {
	n := g.nodes[uid]
	return n != nil && n.object == nil
}

// prune removes a node that stands for nothing any more.
func (g *graph) prune(n *node) {
	if n.object == nil && len(n.dependents) == 0 {
		delete(g.nodes, n.uid)
	}
}

// refute notes at those who refer to an object, in whatever version, that there is
// none. There never will be one: a UID is not used twice.
func (g *graph) refute(r reference) {
	g.gone.Add(r.uid, r)
	n := g.nodes[r.uid]
	if n == nil {
		return
	}
	for _, d := range n.dependents {
		for _, i := range d.refsTo(r.uid) {
			if !claim(d.object, d.object.OwnerReferences[i]).agrees(r) {
				continue
			}
			if d.refuted == nil {
				d.refuted = make([]bool, len(d.object.OwnerReferences))
			}
			d.refuted[i] = true
		}
	}
}

// knowsGone tells whether what a claim means was refuted. If so, that is noted.
func (g *graph) knowsGone(c reference) bool {
	gone, _ := g.gone.Get(c.uid)
	r, _ := gone.(reference)
	if c.agrees(r) {
		g.refute(r)
	}
	return c.agrees(r)
}

// refsTo returns the indices of an object's references to an owner. There may be
// thousands to others, and thousands of objects with as many.
func (n *node) refsTo(owner types.UID) []int {
	if n.refs == nil {
		n.refs = map[types.UID][]int{}
		for i, ref := range n.object.OwnerReferences {
			n.refs[ref.UID] = append(n.refs[ref.UID], i)
		}
	}
	return n.refs[owner]
}

// isRefuted tells whether the owner reference of that index leads nowhere.
func (n *node) isRefuted(i int) bool { return n.refuted != nil && n.refuted[i] }

// remove records that an informer has told of an object's deletion. The object is
// gone for good: a UID is not used twice.
func (g *graph) remove(obj *object) work {
	g.refute(referenceTo(obj))
	return g.forget(obj)
}

// forget records that no informer shows an object any more. Whether it exists is
// unknown from then on.
func (g *graph) forget(obj *object) (do work) {
	n := g.nodes[obj.UID]
	if n == nil || n.object == nil {
		return do
	}
	before := n.object // it may have had other owners than obj tells last
	n.object = nil
	g.unlink(n, before, &do)
	do.check = append(do.check, n.named()...)
	g.prune(n)
	return do
}
