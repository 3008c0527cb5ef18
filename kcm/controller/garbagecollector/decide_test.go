package garbagecollector

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func is(name string, state ownerState) owner { return owner{refTo(thing(name)), state} }

// waitingFor is an owner that is asked to wait for the object.
func waitingFor(name string) owner {
	o := is(name, waiting)
	o.BlockOwnerDeletion = ptr.To(true)
	return o
}

func TestJudge(t *testing.T) {
	t.Parallel()
	pod := thing("pod")
	plain := []dependent{{key: here("its-own")}}
	inCircle := []dependent{{key: here("its-own")}, {key: here("other"), phase: collecting}}
	for _, c := range []struct {
		name, situation string
		seen            observed
		want            string
	}{
		{"an object without owners is kept", "pod has no owners", observed{object: pod}, "keep"},
		{
			"an object whose owner is there is kept", "the owner of pod is there",
			observed{object: pod, owners: []owner{is("a", solid)}}, "keep",
		},
		{
			"an object whose owner is gone is deleted in the background", "the owner of pod is gone",
			observed{object: pod, owners: []owner{is("a", dangling)}}, "delete (Background)",
		},
		{
			"an object all of whose owners are gone is deleted", "both owners of pod are gone",
			observed{object: pod, owners: []owner{is("a", dangling), is("b", dangling)}}, "delete (Background)",
		},
		{
			"one owner that is there keeps an object and the others are dropped", "a and c are gone, b is there",
			observed{object: pod, owners: []owner{is("a", dangling), is("b", solid), is("c", dangling)}}, "drop a, c",
		},
		{
			"an owner that waits is dropped where another one keeps the object", "a waits for its dependents to go, b is there",
			observed{object: pod, owners: []owner{is("a", waiting), is("b", solid)}}, "drop a",
		},
		{
			"of an owner nothing is known and it keeps the object", "a is gone, and nobody has looked for b",
			observed{object: pod, owners: []owner{is("a", dangling), is("b", unseen)}}, "drop a",
		},
		{
			"an owner that waits does not wait for an object that an unknown one may keep", "a waits for its dependents to go, and nobody has looked for b",
			observed{object: pod, owners: []owner{is("a", waiting), is("b", unseen)}}, "drop a",
		},
		{
			"an object whose owner waits is deleted in the background where nothing depends on it", "the owner waits for its dependents to go, and pod has none of its own",
			observed{object: pod, owners: []owner{is("a", waiting)}}, "delete (Background)",
		},
		{
			"an object whose owner waits is deleted in the foreground where something depends on it", "the owner waits for its dependents to go, and pod has one of its own",
			observed{object: pod, owners: []owner{is("a", waiting)}, dependents: plain}, "delete (Foreground)",
		},
		{
			"an owner that waits counts also beside one that is gone", "a is gone, b waits, and pod has a dependent of its own",
			observed{object: pod, owners: []owner{is("a", dangling), is("b", waiting)}, dependents: plain}, "delete (Foreground)",
		},
		{
			"an object whose owner is gone does not wait for its own dependents", "the owner of pod is gone, and pod has a dependent of its own",
			observed{object: pod, owners: []owner{is("a", dangling)}, dependents: plain}, "delete (Background)",
		},
		{
			"in what may be a circle nobody is to wait any more", "the owner waits for pod, and a dependent of pod waits for its own",
			observed{object: pod, owners: []owner{waitingFor("a")}, dependents: inCircle}, "let nobody wait for it; delete (Foreground)",
		},
		{
			"where nobody waits for the object there is no circle", "the owner waits, but not for pod, and a dependent of pod waits for its own",
			observed{object: pod, owners: []owner{is("a", waiting)}, dependents: inCircle}, "delete (Foreground)",
		},
		{
			"where no dependent waits there is no circle", "the owner waits for pod, and pod has a dependent that is alive",
			observed{object: pod, owners: []owner{waitingFor("a")}, dependents: plain}, "delete (Foreground)",
		},
		{
			"a finalizer for orphans says how it is deleted", "the owner of pod is gone, and pod has the finalizer orphan",
			observed{object: thing("pod", withFinalizers(orphan)), owners: []owner{is("a", dangling)}}, "delete (Orphan)",
		},
		{
			"an owner that waits comes before a finalizer for orphans", "the owner waits for its dependents to go, and pod has one of its own and the finalizer orphan",
			observed{object: thing("pod", withFinalizers(orphan)), owners: []owner{is("a", waiting)}, dependents: plain}, "delete (Foreground)",
		},
		{
			"a finalizer for the foreground says how it is deleted", "the owner of pod is gone, and pod has the finalizer foregroundDeletion",
			observed{object: thing("pod", withFinalizers(foreground)), owners: []owner{is("a", dangling)}}, "delete (Foreground)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, judge(c.seen).String(), c.situation)
		})
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, situation string
		dependents      []dependent
		want            string
	}{
		{"an owner without dependents is released", "nothing depends on owner", nil, "release"},
		{
			"a dependent that does not block is not waited for", "pod does not block owner",
			[]dependent{{key: here("pod")}}, "release",
		},
		{
			"a dependent that blocks is waited for and looked at", "pod blocks owner",
			[]dependent{{key: here("pod"), blocks: true}}, "check pod",
		},
		{
			"only those that block are looked at", "pod blocks owner, other does not",
			[]dependent{{key: here("pod"), blocks: true}, {key: here("other")}}, "check pod",
		},
		{
			"one that blocks is enough however many do not", "three do not block owner, and one between them does",
			[]dependent{{key: here("a")}, {key: here("b"), blocks: true}, {key: here("c")}, {key: here("d")}}, "check b",
		},
		{
			"a dependent that is going still blocks", "pod blocks owner and is being deleted in the background",
			[]dependent{{key: here("pod"), blocks: true, phase: leaving}}, "check pod",
		},
		{
			"a dependent that waits for its own is waited for and left alone", "pod blocks owner and is being deleted in the foreground",
			[]dependent{{key: here("pod"), blocks: true, phase: collecting}}, "keep",
		},
		{
			"one that waits for its own does not keep others from being looked at", "pod waits for its own, other is alive, and both block owner",
			[]dependent{{key: here("pod"), blocks: true, phase: collecting}, {key: here("other"), blocks: true}}, "check other",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := observed{object: thing("owner", deleted(foreground)), dependents: c.dependents}
			assert.Equal(t, c.want, finish(seen).String(), c.situation)
		})
	}
}

func TestAnObjectThatIsBeingDeletedIsNotJudged(t *testing.T) {
	t.Parallel()
	gone := []owner{is("a", dangling)}
	for _, obj := range []*object{thing("pod", deleted()), thing("pod", deleted("example.com/mine")), thing("pod", deleted(orphan))} {
		assert.Equal(t, "keep", decide(observed{object: obj, owners: gone}).String(), "finalizers: %v", obj.Finalizers)
	}
	assert.Equal(t, "release", decide(observed{object: thing("pod", deleted(foreground)), owners: gone}).String())
	assert.Equal(t, string(metav1.DeletePropagationBackground), string(decide(observed{object: thing("pod"), owners: gone}).deletion))
}
