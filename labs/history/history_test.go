package history

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

func version(name string, version int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetName(name)
	o.SetUID(types.UID(name))
	o.SetResourceVersion(fmt.Sprint(version))
	return o
}

func names(objects []*unstructured.Unstructured) []string {
	all := []string{}
	for _, o := range objects {
		all = append(all, o.GetName()+"@"+o.GetResourceVersion())
	}
	return all
}

func TestChangesAreInTheOrderInWhichTheyHappenedWhicheverWatchBroughtThemFirst(t *testing.T) {
	t.Parallel()
	r := &Recording{news: make(chan struct{})}
	r.add(watch.Added, "pods", version("a", 10))
	r.add(watch.Modified, "pods", version("a", 12))
	r.add(watch.Added, "replicasets", version("x", 9))
	r.add(watch.Deleted, "pods", version("a", 14))
	r.add(watch.Added, "pods", version("b", 13))
	changes, err := r.Changes()
	require.NoError(t, err)
	var seen []string
	for i, state := range States(changes) {
		seen = append(seen, fmt.Sprint(changes[i].Version, names(state.Objects("pods")), names(state.Objects("replicasets"))))
	}
	require.Equal(t,
		[]string{"9 [] [x@9]", "10 [a@10] [x@9]", "12 [a@12] [x@9]", "13 [a@12 b@13] [x@9]", "14 [b@13] [x@9]"}, seen)
	require.Equal(t, []string{"b@13"}, names(Now(changes).Objects("pods")))
	for range States(changes) {
		break // whoever has seen enough may stop
	}
}

func TestWhatWasMissedIsAnError(t *testing.T) {
	t.Parallel()
	r := &Recording{news: make(chan struct{})}
	o := version("a", 1)
	o.SetResourceVersion("soon")
	r.add(watch.Added, "pods", o)
	r.tell(fmt.Errorf("a second one"))
	_, err := r.Changes()
	require.ErrorContains(t, err, "resourceVersion of pods a")
}

func TestAfterAGapTheRecordedStateIsThatOfTheList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		objects := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.IntRange(1, 9))
		r := &Recording{news: make(chan struct{})}
		for name, v := range objects.Draw(t, "recorded") {
			r.add(watch.Added, "pods", version(name, v))
		}
		list := &unstructured.UnstructuredList{Object: map[string]any{}}
		list.SetResourceVersion("20")
		for name, v := range objects.Draw(t, "listed") {
			list.Items = append(list.Items, *version(name, v+9))
		}
		before, err := r.Changes()
		require.NoError(t, err)
		require.Equal(t, len(before) == 0 && len(list.Items) == 0, isList(Now(before)["pods"], list.Items))
		r.addDifference("pods", list)
		after, err := r.Changes()
		require.NoError(t, err)
		require.True(t, isList(Now(after)["pods"], list.Items))
		r.addDifference("pods", list)
		again, err := r.Changes()
		require.NoError(t, err)
		require.Len(t, again, len(after), "what is the same is no change")
	})
}
