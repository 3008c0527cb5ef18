package garbagecollector

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestGone(t *testing.T) {
	t.Parallel()
	owner := thing("owner")
	for _, c := range []struct {
		name, situation string
		gone            *object
		others          []*object
		want            string
		left            string
	}{
		{
			"an object without owners and dependents leaves nothing", "only owner was there",
			owner, nil, "nothing", "nothing",
		},
		{
			"an owner with dependents becomes virtual and is looked at", "owner goes, and pod names it",
			owner, []*object{thing("pod", ownedBy(owner))}, "check owner", "owner (virtual) <- pod\npod",
		},
		{
			"a dependent is no dependent any more", "pod goes, and owner stays",
			thing("pod", ownedBy(owner)), []*object{owner}, "nothing", "owner",
		},
		{
			"an owner that waits for its dependents is looked at when one goes", "pod goes, and owner is being deleted in the foreground",
			thing("pod", ownedBy(owner)), []*object{thing("owner", deleted(foreground))}, "check owner", "owner",
		},
		{
			"an owner that waits is looked at for a dependent that does not block it, too", "pod goes, first stays, and owner is being deleted in the foreground",
			thing("pod", ownedBy(owner)), []*object{thing("owner", deleted(foreground)), thing("first", blocking(owner))}, "check owner", "first\nowner <- first",
		},
		{
			"a virtual owner goes with its last dependent", "pod goes, the only one that names owner, which no informer shows",
			thing("pod", ownedBy(owner)), nil, "nothing", "nothing",
		},
		{
			"a virtual owner stays for its other dependents", "pod goes, and first names owner as well, which no informer shows",
			thing("pod", ownedBy(owner)), []*object{thing("first", ownedBy(owner))}, "nothing", "first\nowner (virtual) <- first",
		},
		{
			"what is in the middle is taken out on both sides", "middle goes, which owner owns and which owns pod",
			thing("middle", ownedBy(owner)), []*object{owner, thing("pod", ownedBy(thing("middle")))}, "check middle", "middle (virtual) <- pod\nowner\npod",
		},
		{
			"one that owns itself leaves nothing", "owner goes, which names itself",
			thing("owner", ownedBy(owner)), nil, "nothing", "nothing",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := graphOf(append([]*object{c.gone}, c.others...)...)
			assert.Equal(t, c.want, g.remove(c.gone).String(), c.situation)
			assert.Equal(t, c.left, g.drawn(), "the graph afterwards: %s", c.situation)
		})
	}

	t.Run("of an owner that was deleted it is known that it is gone", func(t *testing.T) {
		t.Parallel()
		g := graphOf(owner, thing("pod", ownedBy(owner)))
		g.remove(owner)
		assert.True(t, g.knowsLost("pod"), "owner was deleted, and pod is not known to name what is gone")
	})
	t.Run("of an owner that is only out of sight nothing is known", func(t *testing.T) {
		t.Parallel()
		g := graphOf(owner, thing("pod", ownedBy(owner)))
		assert.Equal(t, "check owner", g.forget(owner).String(), "no informer shows owner any more, because its kind is gone")
		assert.False(t, g.knowsLost("pod"), "nobody has seen owner being deleted, and it is taken for gone")
	})
	t.Run("an object that goes with other owners than it was seen with is no dependent of any", func(t *testing.T) {
		t.Parallel()
		other := thing("other")
		g := graphOf(owner, other, thing("pod", ownedBy(owner)))
		g.remove(thing("pod", ownedBy(other)))
		assert.Equal(t, "other\nowner", g.drawn(), "pod was seen with owner, and is deleted with other, in one write")
	})
	t.Run("of an owner that is called by another name nothing is known when the one of its UID is deleted", func(t *testing.T) {
		t.Parallel()
		g := graphOf(owner, thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.Kind = "Secret" })))
		g.remove(owner)
		assert.False(t, g.knowsLost("pod"), "owner was deleted, and pod names a Secret of its UID")
	})
	t.Run("an owner that was deleted is gone in all versions", func(t *testing.T) {
		t.Parallel()
		g := graphOf(owner, thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.APIVersion = "v1alpha1" })))
		g.remove(owner)
		assert.True(t, g.knowsLost("pod"), "owner was deleted, and pod names it in another version")
	})
	t.Run("what was known of owners is forgotten with their references", func(t *testing.T) {
		t.Parallel()
		g := graphOf(owner, thing("pod", ownedBy(owner)))
		g.remove(owner)
		g.put(thing("pod", ownedBy(thing("next"))))
		assert.False(t, g.knowsLost("pod"), "owner was deleted, and pod belongs to next by now")
	})
	t.Run("of several owners that one is gone that was deleted, also when the references have changed", func(t *testing.T) {
		t.Parallel()
		owner, first, last := thing("owner"), thing("first"), thing("last")
		g := graphOf(owner, first, last)
		g.put(thing("pod", ownedBy(owner, last)))
		g.remove(last)
		assert.Equal(t, []bool{false, true}, g.nodes["pod"].refuted, "last was deleted")
		g.put(thing("pod", ownedBy(first, first, owner)))
		g.remove(owner)
		assert.Equal(t, []bool{false, false, true}, g.nodes["pod"].refuted, "pod names first twice by now, and then owner, which was deleted")
		g.remove(first)
		assert.Equal(t, []bool{true, true, true}, g.nodes["pod"].refuted, "first was deleted, too")
	})
	t.Run("what no informer has shown cannot go", func(t *testing.T) {
		t.Parallel()
		g := graphOf(thing("pod", ownedBy(owner)))
		assert.Equal(t, "nothing", g.remove(owner).String(), "owner goes, which no informer has shown")
		assert.Equal(t, "nothing", g.remove(thing("stranger")).String(), "a stranger goes, whom nobody has named")
		assert.Equal(t, "owner (virtual) <- pod\npod", g.drawn())
	})
}

func TestAnOwnerInAnotherNamespaceIsToldOfOnceForEachObject(t *testing.T) {
	t.Parallel()
	owner, other := thing("owner", in("there")), thing("other", in("there"))
	first, second := thing("first", ownedBy(owner, owner, other)), thing("second", ownedBy(owner, owner))
	told := func(do work) (names []string) {
		for _, m := range do.misplaced {
			names = append(names, m.dependent.Name)
		}
		return names
	}
	assert.Equal(t, []string{"first"}, told(graphOf(owner, other).put(first)), "first appears, and names three owners there")
	assert.ElementsMatch(t, []string{"first", "second"}, told(graphOf(first, second).put(owner)), "owner appears, and each of them names it twice")
}

func TestEachPartOfAReferenceCounts(t *testing.T) {
	t.Parallel()
	for part, change := range map[string]func(*metav1.OwnerReference){
		"uid": func(r *metav1.OwnerReference) { r.UID = "other" }, "name": func(r *metav1.OwnerReference) { r.Name = "other" },
		"kind": func(r *metav1.OwnerReference) { r.Kind = "Secret" }, "version": func(r *metav1.OwnerReference) { r.APIVersion = "v2" },
		"blockOwnerDeletion": func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = ptr.To(true) },
		"controller":         func(r *metav1.OwnerReference) { r.Controller = ptr.To(false) },
	} {
		before := refTo(thing("owner"))
		after := before
		assert.True(t, sameReference(before, after))
		change(&after)
		assert.False(t, sameReference(before, after), "the %s has changed", part)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	owner := thing("owner")
	for _, c := range []struct {
		name, situation string
		obj             *object
		others          []*object
		want            string
	}{
		{
			"a virtual owner that appears gives nothing to do", "pod names owner, which an informer shows now",
			owner, []*object{thing("pod", ownedBy(owner))}, "nothing",
		},
		{
			"when the owner appears those are looked at that meant another one", "pod calls owner by the name of boss, first by its own, and owner appears",
			owner, []*object{thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.Name = "boss" })), thing("first", ownedBy(owner))}, "check pod",
		},
		{
			"when the owner appears in another namespace it is told of", "pod is here, and owner appears there",
			thing("owner", in("there")), []*object{thing("pod", ownedBy(owner))}, "check pod; tell of pod",
		},
		{
			"an object that is shown unchanged gives nothing to do", "pod names owner, which no informer shows, as before",
			thing("pod", ownedBy(owner)), []*object{thing("pod", ownedBy(owner))}, "nothing",
		},
		{
			"a foreground deletion has the owner and all dependents looked at", "owner is deleted in the foreground, and pod and first name it",
			thing("owner", deleted(foreground)), []*object{owner, thing("pod", ownedBy(owner)), thing("first", blocking(owner))}, "check first, owner, pod",
		},
		{
			"a foreground deletion that has begun gives nothing to do again", "owner is shown once more while it is being deleted in the foreground",
			thing("owner", deleted(foreground)), []*object{thing("owner", deleted(foreground)), thing("pod", ownedBy(owner))}, "nothing",
		},
		{
			"an orphaning deletion has the dependents freed", "owner is deleted, and its dependents are to stay",
			thing("owner", deleted(orphan)), []*object{owner, thing("pod", ownedBy(owner))}, "orphan the dependents of owner",
		},
		{
			"a deletion in the background gives nothing to do before it is done", "owner is deleted and has a finalizer of its own",
			thing("owner", deleted("example.com/mine")), []*object{owner, thing("pod", ownedBy(owner))}, "nothing",
		},
		{
			"a reference that is taken out lets a waiting owner be looked at", "pod names owner no more, which is being deleted in the foreground",
			thing("pod"), []*object{thing("owner", deleted(foreground)), thing("pod", blocking(owner))}, "check owner",
		},
		{
			"a reference that blocks no more lets a waiting owner be looked at", "pod does not block owner any more, which is being deleted in the foreground",
			thing("pod", ownedBy(owner)), []*object{thing("owner", deleted(foreground)), thing("pod", blocking(owner))}, "check owner, pod",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, graphOf(c.others...).put(c.obj).String(), c.situation)
		})
	}
}
