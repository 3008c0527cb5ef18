package garbagecollector

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// survives shows objects to the graph whose references, finalizers and kinds are
// anything: owners that are themselves, that come twice, whose kind is no word. A
// decision comes of each, and when all are gone nothing of them is left.
func survives(t *rapid.T) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "c", "v1", "apps/v1", "a/b/c", "ConfigMap"}), rapid.String())
	uid := rapid.SampledFrom([]types.UID{"a", "b", "c", "d", ""})
	finalizer := rapid.OneOf(rapid.SampledFrom([]string{foreground, orphan}), rapid.String())
	reference := rapid.Custom(func(t *rapid.T) metav1.OwnerReference {
		return metav1.OwnerReference{
			APIVersion: word.Draw(t, "apiVersion"), Kind: word.Draw(t, "kind"), Name: word.Draw(t, "name"), UID: uid.Draw(t, "uid"),
			BlockOwnerDeletion: rapid.Ptr(rapid.Bool(), true).Draw(t, "blocks"),
		}
	})
	g, shown := newGraph(), map[types.UID]*object{}
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		obj := thing(string(rapid.SampledFrom([]types.UID{"a", "b", "c"}).Draw(t, "object")), in(rapid.SampledFrom([]string{"", "here", "there"}).Draw(t, "namespace")))
		obj.OwnerReferences = rapid.SliceOfN(reference, 0, 3).Draw(t, "owners")
		obj.Finalizers = rapid.SliceOfN(finalizer, 0, 2).Draw(t, "finalizers")
		if rapid.Bool().Draw(t, "is being deleted") {
			obj.DeletionTimestamp = &metav1.Time{}
		}
		before := shown[obj.UID]
		switch {
		case before != nil && rapid.Bool().Draw(t, "is gone"):
			g.remove(before)
			delete(shown, obj.UID)
		default:
			g.put(obj)
			shown[obj.UID] = obj
		}
		if seen := g.look(keyOf(obj)); seen.object != nil {
			decide(seen)
		}
		g.claims(keyOf(obj))
	}
	for _, obj := range shown {
		g.remove(obj)
	}
	require.Empty(t, g.nodes, "all objects are gone")
}

func TestWhateverReferencesSayADecisionComesOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, survives)
}

func FuzzWhateverReferencesSayADecisionComesOfIt(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(survives))
}
