package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestTidy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		surge int
		node  string
		want  string
	}{
		"a node without a pod gets one":                          {0, "a:", "create a"},
		"a node that has one is left alone":                      {0, "a: new available", "nothing"},
		"an old one is for the rolling update":                   {0, "a: old available", "nothing"},
		"where a pod is going none is created":                   {0, "a: new going", "nothing"},
		"of two the older stays":                                 {0, "a: old starting, new available", "delete a-new"},
		"one that is going does not count as the older":          {0, "a: old going, new available", "nothing"},
		"one that has failed goes, and is replaced when it has":  {0, "a: new failed", "delete a-new"},
		"one that has succeeded goes as well":                    {0, "a: new succeeded", "delete a-new"},
		"in a pause one that has failed stays":                   {0, "a: new failed, in pause", "nothing"},
		"in a pause one that has succeeded goes":                 {0, "a: new succeeded, in pause", "delete a-new"},
		"one that has failed goes from beside another":           {0, "a: old failed, new available", "delete a-old"},
		"a tainted node gets none":                               {0, "a: tainted", "nothing"},
		"a tainted node keeps its pod":                           {0, "a: tainted, old available", "nothing"},
		"a tainted node gets rid of one that has failed":         {0, "a: tainted, old failed", "delete a-old"},
		"a node that may have none loses it":                     {0, "a: barred, new available", "delete a-new"},
		"a node that may have none loses all, whatever they are": {0, "a: barred, old failed, new starting, in pause", "delete a-new a-old"},
		"what is going is not deleted again":                     {0, "a: barred, new going", "nothing"},

		"with surge an old and a starting new one may stay":        {1, "a: old available, new starting", "nothing"},
		"with surge an old one that is not available yet may stay": {1, "a: old ready, new starting", "nothing"},
		"with surge an old one alone stays, ready or not":          {1, "a: old starting", "nothing"},
		"with surge an old one that is not ready goes":             {1, "a: old starting, new starting", "delete a-old"},
		"with surge the old one goes when the new is available":    {1, "a: old available, new available", "delete a-old"},
		"with surge ready is not yet available":                    {1, "a: old available, new ready", "nothing"},
		"with surge two new ones are one too many":                 {1, "a: new available, new starting", "delete a-new"},
		"with surge one that is going counts for nothing":          {1, "a: old going", "create a"},
		"with surge one that has failed counts for nothing":        {1, "a: new failed", "create a; delete a-new"},
		"with surge a pause is kept as well":                       {1, "a: new failed, in pause", "nothing"},
		"with surge a tainted node gets none":                      {1, "a: tainted, old going", "nothing"},
		"with surge the age does not say which of two is new":      {1, "a: new available, old available", "delete a-old"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seenOn(testSet(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy = rollingBy(tt.surge, 1-tt.surge) }), tt.node)
			var p plan
			create, remove := tidy(seen, seen.places[0])
			if create {
				p.create = []string{"a"}
			}
			p.delete = remove
			assert.Equal(t, tt.want, p.String(), "node %s, with maxSurge %d", tt.node, tt.surge)
		})
	}
}

func TestOfTwoOfOneVersionTheOlderStays(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"old", "new"} {
		place := testPlace(fmt.Sprintf("a: %[1]s available, %[1]s available", version))
		for _, surge := range []int{0, 1} {
			seen := seenOn(testSet(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy = rollingBy(surge, 1-surge) }))
			_, remove := tidy(seen, place)
			assert.Equal(t, []*corev1.Pod{place.pods[1]}, remove, "two that are %s, with maxSurge %d", version, surge)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	onDelete := func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }
	t.Run("a rolling update waits until every node has its pod", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "create b", decide(seenOn(testSet(), "a: old available", "b:"), 250).String())
		assert.Equal(t, "delete a-old", decide(seenOn(testSet(), "a: old available", "b: new available"), 250).String())
	})
	t.Run("with OnDelete old pods stay", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "nothing", decide(seenOn(testSet(onDelete), "a: old available", "b: old starting"), 250).String())
	})
	t.Run("with OnDelete a pair is not for surge to keep", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "delete a-new", decide(seenOn(testSet(onDelete), "a: old available, new starting"), 250).String())
	})
	t.Run("before the set may act nothing is planned", func(t *testing.T) {
		t.Parallel()
		seen := seenOn(testSet(), "a:", "b: barred, old available")
		seen.mayAct = false
		assert.Equal(t, "nothing", decide(seen, 250).String())
	})
	t.Run("a pod that was never bound goes with its node", func(t *testing.T) {
		t.Parallel()
		seen := seenOn(testSet(), "a: new available")
		seen.lost = []*corev1.Pod{testPod("b", "new", "starting", 0)}
		assert.Equal(t, "delete b-new", decide(seen, 250).String())
	})
	t.Run("one plan has a burst at most", func(t *testing.T) {
		t.Parallel()
		seen := seenOn(testSet(), "a:", "b:", "c: barred, old available", "d: barred, old available")
		assert.Equal(t, "create a; delete c-old", decide(seen, 1).String())
	})
}

func TestTheTemplateAndNotItsNumberSaysWhichPodIsCurrent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hash, number string
		age          time.Duration // how much older than the set the pod is
		current      bool
	}{
		"a pod with the current hash":                              {"new", "3", 0, true},
		"it was made for another DaemonSet, of the same template":  {"new", "1", time.Hour, true},
		"it was made when the number was another, before an undo":  {"new", "1", 0, true},
		"a pod with another hash":                                  {"old", "2", 0, false},
		"it was made for another DaemonSet of the same generation": {"old", "3", time.Hour, false},
		"that was in the same second":                              {"old", "3", 0, false},
		"a pod that has only the number, from before revisions":    {"", "3", 0, true},
		"it has another number":                                    {"", "2", 0, false},
		"it was made for another DaemonSet":                        {"", "3", time.Hour, false},
		"a pod that somebody made by hand":                         {"", "", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := testPod("a", tt.hash, "available", 0)
			if tt.hash == "" {
				delete(pod.Labels, hashLabel)
			}
			pod.Labels[generationLabel] = tt.number
			seen := seenOn(testSet(func(set *appsv1.DaemonSet) {
				set.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "3"}
				set.CreationTimestamp = metav1.NewTime(pod.CreationTimestamp.Add(tt.age))
			}))
			assert.Equal(t, tt.current, seen.isCurrent(pod))
		})
	}
}

func TestWhateverThereIsADecisionComesOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seen := seenOn(testSet(func(set *appsv1.DaemonSet) {
			set.Spec.UpdateStrategy = rollingBy(rapid.IntRange(0, 3).Draw(t, "surge"), rapid.IntRange(0, 3).Draw(t, "unavailable"))
			if rapid.Bool().Draw(t, "nothing is said") {
				set.Spec.UpdateStrategy.RollingUpdate = nil
			}
		}), drawNodes(t)...)
		p := decide(seen, 250)
		deleted := map[*corev1.Pod]int{}
		for _, pod := range p.delete {
			deleted[pod]++
			assert.Nil(t, pod.DeletionTimestamp, "%s is going already", pod.Name)
			assert.Equal(t, 1, deleted[pod], "%s is deleted more than once", pod.Name)
		}
		created := map[string]int{}
		for _, name := range p.create {
			created[name]++
			assert.Equal(t, 1, created[name], "%s gets more than one pod", name)
		}
		for _, place := range seen.places {
			if created[place.node] == 0 {
				continue
			}
			current, _ := seen.versions(place)
			assert.Nil(t, current, "%s has a current pod and gets a second one", place.node)
			assert.True(t, place.run, "%s is to have none and gets one", place.node)
		}
	})
}

// drawNodes returns up to six nodes with up to three pods each.
func drawNodes(t *rapid.T) []string {
	pod := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"old", "new"}).Draw(t, "version") + " " +
			rapid.SampledFrom([]string{"available", "ready", "starting", "failed", "succeeded", "going"}).Draw(t, "state")
	})
	var nodes []string
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		node := string(rune('a'+i)) + ": " + rapid.SampledFrom([]string{"", "", "", tainted, barred, pausing}).Draw(t, "node")
		for _, pod := range rapid.SliceOfN(pod, 0, 3).Draw(t, "pods") {
			node += ", " + pod
		}
		nodes = append(nodes, node)
	}
	return nodes
}
