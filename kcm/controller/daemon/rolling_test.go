package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes []string
		limit int
		want  string
	}{
		"when all is well as many go as may be missing":      {[]string{"a: old available", "b: old available", "c: old available"}, 2, "a-old b-old"},
		"a new pod is left alone":                            {[]string{"a: new available", "b: old available"}, 1, "b-old"},
		"a new pod that is starting takes the room":          {[]string{"a: new starting", "b: old available"}, 1, "nothing"},
		"a new pod that is ready but not available takes it": {[]string{"a: new ready", "b: old available"}, 1, "nothing"},
		"a pod that is going takes the room":                 {[]string{"a: old going", "b: old available"}, 1, "nothing"},
		"a pod that has failed and is in pause takes it":     {[]string{"a: new failed, in pause", "b: old available"}, 1, "nothing"},
		"an old pod that is not available goes at once":      {[]string{"a: old starting", "b: old starting", "c: old starting"}, 1, "a-old b-old c-old"},
		"old pods that are not available take the room":      {[]string{"a: old available", "b: old starting"}, 1, "b-old"},
		"there may be room beside them":                      {[]string{"a: old available", "b: old starting", "c: old available"}, 2, "a-old b-old"},
		"an old pod that is ready but not available goes":    {[]string{"a: old ready", "b: old available"}, 1, "a-old"},
		"a node that is not to have a pod takes no room":     {[]string{"a: tainted, old going", "b: old available"}, 1, "b-old"},
		"not even when its pod is broken":                    {[]string{"a: tainted, old starting", "b: old available"}, 1, "a-old b-old"},
		"an old pod there is replaced as others are":         {[]string{"a: tainted, old available", "b: old available"}, 1, "a-old"},
		"a node without a pod takes the room":                {[]string{"a:", "b: old available"}, 1, "nothing"},
		"more missing than may be is no reason to add some":  {[]string{"a:", "b:", "c: old available"}, 1, "nothing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := replace(seenOn(testSet(), tt.nodes...), tt.limit)
			assert.Equal(t, tt.want, names(pods), "nodes %q, of which %d may be without an available pod", tt.nodes, tt.limit)
		})
	}
}

// without counts the nodes that are to have a pod and have no available one, if
// the given pods go.
func without(seen observed, gone []*corev1.Pod) int {
	leaves := map[*corev1.Pod]bool{}
	for _, pod := range gone {
		leaves[pod] = true
	}
	count := 0
	for _, place := range seen.places {
		available := false
		for _, pod := range place.pods {
			available = available || (!leaves[pod] && pod.DeletionTimestamp == nil && !hasEnded(pod) && seen.isAvailable(pod))
		}
		if place.run && !available {
			count++
		}
	}
	return count
}

// tidied draws nodes with which tidy has nothing to do.
func tidied(t *rapid.T, surge int) observed {
	set := testSet(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy = rollingBy(surge, 0) })
	var lines []string
	for _, line := range drawNodes(t) {
		seen := seenOn(set, line)
		if create, remove := tidy(seen, seen.places[0]); !create && len(remove) == 0 {
			lines = append(lines, line)
		}
	}
	return seenOn(set, lines...)
}

func TestReplaceHolds(t *testing.T) {
	t.Parallel()
	t.Run("whatever there is, no more nodes than may be are made do without an available pod", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			seen, limit := tidied(t, 0), rapid.IntRange(1, 4).Draw(t, "limit")
			gone := replace(seen, limit)
			before, after := without(seen, nil), without(seen, gone)
			if after > before {
				assert.LessOrEqual(t, after, limit, "nodes without an available pod, %d before", before)
			}
			for _, pod := range gone {
				assert.False(t, seen.isCurrent(pod), "%s is of the current revision", pod.Name)
			}
		})
	})
	t.Run("where there is room and something old, something goes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			seen, limit := tidied(t, 0), rapid.IntRange(1, 4).Draw(t, "limit")
			old := 0
			for _, place := range seen.places {
				if _, pod := seen.versions(place); pod != nil {
					old++
				}
			}
			if old > 0 && without(seen, nil) < limit {
				assert.NotEmpty(t, replace(seen, limit), "%d nodes have an old pod", old)
			}
		})
	})
}

func TestSurge(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes []string
		limit int
		want  string
	}{
		"as many nodes as the limit says get a second pod":                   {[]string{"a: old available", "b: old available", "c: old available"}, 2, "create a b"},
		"a node that waits for its new pod takes the room":                   {[]string{"a: old available, new starting", "b: old available"}, 1, "nothing"},
		"a node without available old pod gets its new one at once":          {[]string{"a: old starting", "b: old ready", "c: old available"}, 1, "create a b c"},
		"a node that has its new pod gets no other, whatever its old one is": {[]string{"a: old ready, new starting", "b: old available"}, 1, "nothing"},
		"when the new pod is available the old one goes":                     {[]string{"a: old available, new available", "b: old available"}, 1, "create b; delete a-old"},
		"what is current is left alone":                                      {[]string{"a: new starting", "b: new available"}, 1, "nothing"},
		"a broken pod where none is to be goes":                              {[]string{"a: tainted, old starting", "b: new available"}, 1, "delete a-old"},
		"one where none is to be stays while another node waits":             {[]string{"a: tainted, old available", "b: new starting"}, 1, "nothing"},
		"one where none is to be goes when all others have theirs":           {[]string{"a: tainted, old available", "b: new available"}, 1, "delete a-old"},
		"more that wait than may be are no reason to have another wait":      {[]string{"a: old available, new starting", "b: old available, new starting", "c: old available"}, 1, "nothing"},
		"of several where none is to be as many go as others have theirs":    {[]string{"a: tainted, old available", "b: tainted, old available", "c: new available", "d: new starting"}, 1, "delete a-old"},
		"all go where the only node that is to have one has it":              {[]string{"a: tainted, old available", "b: tainted, old available", "c: new available"}, 1, "delete a-old b-old"},
		"none goes where too few are available as it is":                     {[]string{"a: tainted, old available", "b: new starting", "c: new starting"}, 1, "nothing"},
		"a node where none is to be gets no second":                          {[]string{"a: tainted, old available", "b: old available"}, 2, "create b; delete a-old"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, surge(seenOn(testSet(), tt.nodes...), tt.limit).String(), "nodes %q, with maxSurge %d", tt.nodes, tt.limit)
		})
	}
}

func TestSurgeHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		seen := tidied(t, limit)
		p := surge(seen, limit)
		assert.LessOrEqual(t, without(seen, p.delete), without(seen, nil), "nodes without an available pod after %s", p)

		gets := map[string]bool{}
		for _, name := range p.create {
			gets[name] = true
		}
		before, after := 0, 0
		for _, place := range seen.places {
			current, old := seen.versions(place)
			waits := old != nil && seen.isAvailable(old) && current != nil && !seen.isAvailable(current)
			if waits {
				before++
			}
			if waits || (gets[place.node] && old != nil && seen.isAvailable(old)) {
				after++
			}
		}
		if after > before {
			assert.LessOrEqual(t, after, limit, "nodes with an available old pod and a new one, after %s", p)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	percent := func(text string) *intstr.IntOrString { return new(intstr.FromString(text)) }
	number := func(n int) *intstr.IntOrString { return new(intstr.FromInt(n)) }
	five := []string{"a:", "b:", "c:", "d:", "e:", "f: tainted, old available", "g: barred"}
	none := five[5:]
	for name, tt := range map[string]struct {
		nodes                      []string
		surge, unavailable         *intstr.IntOrString
		wantSurge, wantUnavailable int
	}{
		"a number is taken as it is":                         {five, number(0), number(2), 0, 2},
		"a share is of the nodes that are to have":           {five, percent("0%"), percent("40%"), 0, 2},
		"a share is rounded up":                              {five, percent("10%"), number(0), 1, 0},
		"none at all is one":                                 {five, number(0), number(0), 0, 1},
		"nothing said is one":                                {five, nil, nil, 0, 1},
		"a number is taken where no node is to have a pod":   {none, number(0), number(2), 0, 2},
		"a share of no nodes is none":                        {none, number(0), percent("10%"), 0, 0},
		"a share of no nodes is none with surge":             {none, percent("25%"), number(0), 0, 0},
		"none at all is none where no node is to have a pod": {none, number(0), number(0), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seenOn(testSet(), tt.nodes...)
			seen.set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: tt.surge, MaxUnavailable: tt.unavailable}
			surge, unavailable := limits(seen)
			assert.Equal(t, []int{tt.wantSurge, tt.wantUnavailable}, []int{surge, unavailable}, "maxSurge and maxUnavailable of nodes %q", tt.nodes)
		})
	}
}
