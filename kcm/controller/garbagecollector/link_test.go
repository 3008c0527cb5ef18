package garbagecollector

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// linked shows a new object to a graph in which the others are, and returns the
// graph and what is to be done.
func linked(obj *object, others ...*object) (*graph, string) {
	g := graphOf(others...)
	n := g.node(obj.UID)
	n.object = obj
	var do work
	g.link(n, &do)
	return g, do.String()
}

func TestLink(t *testing.T) {
	t.Parallel()
	owner := thing("owner")
	for _, c := range []struct {
		name, situation string
		obj             *object
		others          []*object
		want            string
	}{
		{
			"where all is well there is nothing to do", "pod names owner, and both are there",
			thing("pod", ownedBy(owner)), []*object{owner}, "nothing",
		},
		{
			"an object without owners gives nothing to do", "owner names nobody",
			owner, nil, "nothing",
		},
		{
			"an owner that no informer shows is looked at", "pod names owner, which no informer shows",
			thing("pod", ownedBy(owner)), nil, "check owner",
		},
		{
			"an owner that no informer shows is looked at again for one more dependent", "first and pod name owner, which no informer shows",
			thing("pod", ownedBy(owner)), []*object{thing("first", ownedBy(owner))}, "check owner",
		},
		{
			"each owner counts", "pod names owner, which is there, and two that no informer shows",
			thing("pod", ownedBy(owner, thing("one"), thing("other"))), []*object{owner}, "check one, other",
		},
		{
			"where the owner has another name the dependent is looked at", "pod calls owner by the name of boss",
			thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.Name = "boss" })), []*object{owner}, "check pod",
		},
		{
			"where the owner is of another kind the dependent is looked at", "pod calls owner a Secret",
			thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.Kind = "Secret" })), []*object{owner}, "check pod",
		},
		{
			"an owner that is named in another version is the owner", "pod names owner in version v2, and an informer shows it in v1",
			thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.APIVersion = "v2" })), []*object{owner}, "nothing",
		},
		{
			"an owner in another namespace is told of as well", "pod is here and owner there",
			thing("pod", ownedBy(owner)), []*object{thing("owner", in("there"))}, "check pod; tell of pod",
		},
		{
			"an owner in no namespace may own what is in one", "pod is here and owner in no namespace",
			thing("pod", ownedBy(owner)), []*object{thing("owner", in(""))}, "nothing",
		},
		{
			"an owner in a namespace cannot own what is in none", "pod is in no namespace and owner is here",
			thing("pod", in(""), ownedBy(owner)), []*object{owner}, "check pod; tell of pod",
		},
		{
			"of an owner that waits for its dependents a new one is looked at", "owner is being deleted in the foreground",
			thing("pod", ownedBy(owner)), []*object{thing("owner", deleted(foreground))}, "check pod",
		},
		{
			"an owner that is to be orphaned has one more to free", "owner is being deleted, and its dependents are to stay",
			thing("pod", ownedBy(owner)), []*object{thing("owner", deleted(orphan))}, "orphan the dependents of owner",
		},
		{
			"an owner that is just going gives nothing to do", "owner is being deleted in the background and has a finalizer of its own",
			thing("pod", ownedBy(owner)), []*object{thing("owner", deleted("example.com/mine"))}, "nothing",
		},
		{
			"a finalizer means nothing before the deletion", "owner has the finalizer of a foreground deletion and nobody has deleted it",
			thing("pod", ownedBy(owner)), []*object{thing("owner", withFinalizers(foreground))}, "nothing",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, seen := linked(c.obj, c.others...)
			assert.Equal(t, c.want, seen, c.situation)
		})
	}

	t.Run("it becomes a dependent of each of its owners", func(t *testing.T) {
		t.Parallel()
		g, _ := linked(thing("pod", ownedBy(owner, thing("absent"))), owner, thing("other", ownedBy(owner)))
		assert.Equal(t, "absent (virtual) <- pod\nother\nowner <- other, pod\npod", g.drawn())
	})
	t.Run("two references to one owner make one dependent", func(t *testing.T) {
		t.Parallel()
		g, _ := linked(thing("pod", ownedBy(owner, owner)), owner)
		assert.Equal(t, "owner <- pod\npod", g.drawn())
	})
}
