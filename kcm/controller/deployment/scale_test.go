package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// scaledFrom returns a deployment and ReplicaSets that were sized when it had
// another size.
func scaledFrom(before, after int32, surge string, sizes ...int32) (*appsv1.Deployment, []*appsv1.ReplicaSet) {
	d := rolling(before, surge, "1")
	var replicaSets []*appsv1.ReplicaSet
	for i, n := range sizes {
		replicaSets = append(replicaSets, replicaSet(d, i+1, n))
	}
	d.Spec.Replicas = &after
	return d, replicaSets
}

// notes tells of the sizes and of what is noted on the ReplicaSets: "v1: size
// 8 of 13".
func notes(replicaSets []*appsv1.ReplicaSet) string {
	var texts []string
	for _, rs := range replicaSets {
		texts = append(texts, fmt.Sprintf("%s: size %d of %s", versionOf(rs), size(rs), cmp.Or(rs.Annotations[maxReplicasAnnotation], "nothing noted")))
	}
	return strings.Join(texts, ", ")
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour     string
		before, after int32
		surge         string
		size          int32
		prepare       func(d *appsv1.Deployment, rs *appsv1.ReplicaSet)
		left          int32
		want          int32
	}{
		{behaviour: "a ReplicaSet stays the same fraction of the whole when it grows", before: 10, after: 20, surge: "0", size: 6, left: 10, want: 6},
		{behaviour: "a ReplicaSet stays the same fraction of the whole when it shrinks", before: 10, after: 5, surge: "0", size: 6, left: -5, want: -3},
		{behaviour: "the whole is the size with the surge", before: 10, after: 15, surge: "10", size: 8, left: 5, want: 2},
		{behaviour: "a fraction above a half is rounded up", before: 10, after: 15, surge: "3", size: 5, left: 5, want: 2},
		{behaviour: "a fraction below a half is rounded down", before: 10, after: 15, surge: "3", size: 8, left: 5, want: 3},
		{behaviour: "a half makes the ReplicaSet larger", before: 10, after: 5, surge: "0", size: 5, left: -5, want: -2},
		{behaviour: "with no replicas wanted the surge is not kept either", before: 10, after: 0, surge: "3", size: 8, left: -13, want: -8},
		{behaviour: "without a note the pods in the status are the whole", before: 10, after: 20, surge: "0", size: 5, left: 10, want: 5,
			prepare: func(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
				delete(rs.Annotations, maxReplicasAnnotation)
				d.Status.Replicas = 10
			}},
		{behaviour: "a note that is no number is as good as none", before: 10, after: 20, surge: "0", size: 5, left: 10, want: 5,
			prepare: func(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
				rs.Annotations[maxReplicasAnnotation] = "many"
				d.Status.Replicas = 10
			}},
		{behaviour: "a note of zero is as good as none", before: 10, after: 20, surge: "0", size: 5, left: 10, want: 5,
			prepare: func(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
				rs.Annotations[maxReplicasAnnotation] = "0"
				d.Status.Replicas = 10
			}},
		{behaviour: "with nothing to go by a ReplicaSet stays", before: 10, after: 20, surge: "0", size: 5, left: 10, want: 0,
			prepare: func(_ *appsv1.Deployment, rs *appsv1.ReplicaSet) { delete(rs.Annotations, maxReplicasAnnotation) }},
		{behaviour: "with nothing to go by a ReplicaSet keeps its pods", before: 10, after: 5, surge: "0", size: 5, left: -5, want: 0,
			prepare: func(_ *appsv1.Deployment, rs *appsv1.ReplicaSet) { delete(rs.Annotations, maxReplicasAnnotation) }},
		{behaviour: "no more is added than is left", before: 10, after: 20, surge: "0", size: 6, left: 1, want: 1},
		{behaviour: "no more is taken than is left", before: 10, after: 5, surge: "0", size: 6, left: -1, want: -1},
		{behaviour: "when nothing is left nothing changes", before: 10, after: 20, surge: "0", size: 6, left: 0, want: 0},
		{behaviour: "none shrinks where pods are to be added", before: 10, after: 5, surge: "0", size: 6, left: 1, want: 0},
		{behaviour: "none grows where pods are to be taken", before: 10, after: 20, surge: "0", size: 6, left: -2, want: 0},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			d, replicaSets := scaledFrom(tt.before, tt.after, tt.surge, tt.size)
			if tt.prepare != nil {
				tt.prepare(d, replicaSets[0])
			}
			_, most := promised(d)
			assert.Equal(t, fmt.Sprintf("v1 %+d", tt.want), fmt.Sprintf("v1 %+d", share(d, replicaSets[0], tt.left)),
				"%s, the status of the Deployment tells of %d pods; scaled from %d to %d replicas with maxSurge %s, so up to %d pods; %+d left",
				notes(replicaSets), d.Status.Replicas, tt.before, tt.after, tt.surge, most, tt.left)
		})
	}
}

func TestScaleInProportion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour     string
		before, after int32
		surge         string
		sizes         []int32
		want          string
	}{
		{"both versions grow in proportion", 10, 15, "3", []int32{8, 5}, "v1 from 8 to 11; v2 from 5 to 7"},
		{"both versions shrink in proportion", 20, 10, "0", []int32{12, 8}, "v1 from 12 to 6; v2 from 8 to 4"},
		{"of two equal ones the younger is the first to grow", 10, 11, "0", []int32{5, 5}, "v1 stays at 5, noted anew; v2 from 5 to 6"},
		{"of two equal ones the older is the first to shrink", 10, 5, "0", []int32{5, 5}, "v1 from 5 to 2; v2 from 5 to 3"},
		{"what rounding leaves over goes to the largest", 10, 11, "0", []int32{3, 4, 3}, "v1 stays at 3, noted anew; v2 from 4 to 5; v3 stays at 3, noted anew"},
		{"what rounding leaves to be taken is taken from the largest", 100, 50, "0", []int32{1, 98, 1}, "v1 stays at 1, noted anew; v2 from 98 to 48; v3 stays at 1, noted anew"},
		{"what rounding claims too much the smallest goes without", 10, 13, "0", []int32{2, 2, 6}, "v1 stays at 2, noted anew; v2 from 2 to 3; v3 from 6 to 8"},
		{"sizes that stay are noted anew", 10, 9, "0", []int32{8, 1}, "v1 stays at 8, noted anew; v2 stays at 1, noted anew"},
		{"to no replicas all pods go, the surge included", 10, 0, "3", []int32{8, 5}, "v1 from 8 to 0; v2 from 5 to 0"},
		{"scaled down, there may be room to grow", 10, 9, "100%", []int32{6, 10}, "v1 stays at 6, noted anew; v2 from 10 to 12"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			d, replicaSets := scaledFrom(tt.before, tt.after, tt.surge, tt.sizes...)
			_, most := promised(d)
			assert.Equal(t, tt.want, told(scaleInProportion(d, replicaSets)), "%s; scaled from %d to %d replicas with maxSurge %s, so up to %d pods",
				notes(replicaSets), tt.before, tt.after, tt.surge, most)
		})
	}
	t.Run("none has fewer than no pods", func(t *testing.T) {
		t.Parallel()
		d, replicaSets := scaledFrom(2, 1, "0", 3, 3)
		for _, rs := range replicaSets {
			rs.Annotations[maxReplicasAnnotation] = "1" // somebody has resized both
		}
		assert.Equal(t, "v1 from 3 to 0; v2 stays at 3, noted anew", told(scaleInProportion(d, replicaSets)), "%s; scaled to 1 replica", notes(replicaSets))
	})
	t.Run("what a manager that was killed has left is done by the next one", func(t *testing.T) {
		t.Parallel()
		d, replicaSets := scaledFrom(10, 15, "3", 8, 5)
		for _, c := range scaleInProportion(d, replicaSets) {
			if versionOf(c.from) == "v1" {
				replicaSets = apply(replicaSets, []change{c})
			}
		}
		assert.Equal(t, "v2 from 5 to 7", told(scaleInProportion(d, replicaSets)), "%s; scaled from 10 to 15 replicas, and killed after the first write", notes(replicaSets))
	})
	t.Run("where all is right nothing changes", func(t *testing.T) {
		t.Parallel()
		d, replicaSets := scaledFrom(10, 10, "0", 6, 4)
		assert.Equal(t, "no change", told(scaleInProportion(d, replicaSets)), "%s; 10 replicas", notes(replicaSets))
	})
}

func TestAScaledDeploymentIsNoticed(t *testing.T) {
	t.Parallel()
	noticed := func(before, after int32, note string) bool {
		d, replicaSets := scaledFrom(before, after, "1", 3, 2)
		if note != "" {
			for _, rs := range replicaSets {
				rs.Annotations[desiredReplicasAnnotation] = note
			}
		}
		return wasScaled(see(d, replicaSets...))
	}
	assert.True(t, noticed(5, 6, ""))
	assert.False(t, noticed(5, 5, ""))
	for _, note := range []string{"-1", "many", "2147483648", "0x5"} {
		assert.False(t, noticed(5, 6, note), "a note that makes no sense is as if it was not there: %q", note)
	}
}

func TestScalingGoesToTheOnlyActiveOrTheLatestReplicaSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sizes []int32
		want  string
	}{
		"the only one with pods":          {[]int32{3, 0, 0}, "v1 from 3 to 5"},
		"the new one":                     {[]int32{0, 0, 0}, "v2 from 0 to 5"},
		"the youngest old one":            {[]int32{0}, "v1 from 0 to 5"},
		"nothing to scale":                {nil, "no change"},
		"it has the size, which is noted": {[]int32{0, 5}, "v2 stays at 5, noted anew"},
		"both in the middle of a rollout": {[]int32{2, 2}, "v1 from 2 to 3; v2 from 2 to 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, replicaSets := scaledFrom(3, 5, "1", tt.sizes...)
			assert.Equal(t, tt.want, told(scale(see(d, replicaSets...))))
		})
	}
}

// Paused in the middle of a rollout, with 10 replicas and a surge of 1.
func TestThePodsOfAPausedRolloutStayUnlessItsBoundsAreLeft(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after int32
		surge         string
		sizes         []int32
		want          string
	}{
		"a wider surge is not filled":                {10, 10, "5", []int32{10, 1}, "no change"},
		"nor is one that was not used up":            {10, 10, "3", []int32{7, 3}, "no change"},
		"a narrower surge is kept":                   {10, 10, "0", []int32{10, 1}, "v1 from 10 to 9; v2 stays at 1, noted anew"},
		"pods that somebody has taken are put back":  {10, 10, "1", []int32{5, 1}, "v1 from 5 to 10"},
		"pods that somebody has added go":            {10, 10, "1", []int32{20, 1}, "v1 from 20 to 10"},
		"when the size changes a wider surge counts": {10, 11, "5", []int32{10, 1}, "v1 from 10 to 15; v2 stays at 1, noted anew"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, replicaSets := scaledFrom(tt.before, tt.after, "1", tt.sizes...)
			surge := intstr.Parse(tt.surge)
			d.Spec.Strategy.RollingUpdate.MaxSurge = &surge
			d.Spec.Paused = true
			assert.Equal(t, tt.want, decide(see(d, replicaSets...)).tells(), "%s; scaled from %d to %d replicas with maxSurge %s", notes(replicaSets), tt.before, tt.after, tt.surge)
		})
	}
}

func TestASaturatedNewReplicaSetNeedsNoOthers(t *testing.T) {
	t.Parallel()
	d := rolling(5, "1", "1")
	adopted := replicaSet(d, 1, 2)
	adopted.Annotations[desiredReplicasAnnotation] = "2"
	assert.Equal(t, "v1 from 2 to 0", decide(see(d, adopted, replicaSet(d, 2, 5))).tells())
}

func TestRecreateDoesNotScaleInProportion(t *testing.T) {
	t.Parallel()
	d := recreating(3)
	replicaSets := []*appsv1.ReplicaSet{replicaSet(d, 1, 2), replicaSet(d, 2, 1)}
	d.Spec.Replicas = new(int32(9))
	changes := scale(see(d, replicaSets...))
	assert.Equal(t, "v1 stays at 2, noted anew; v2 stays at 1, noted anew", told(changes))
	assert.False(t, wasScaled(see(d, changes[0].to, changes[1].to)), "with a note of the size, or nothing would ever go on")
}

// Whoever was resized by somebody else before, and in whatever order the
// ReplicaSets come.
func TestProportionsHold(t *testing.T) {
	t.Parallel()
	t.Run("scaling reaches its goal at once and nobody goes against the direction", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			sizes := rapid.SliceOfN(rapid.Int32Range(1, 30), 2, 5).Draw(t, "sizes")
			d, replicaSets := scaledFrom(10, rapid.Int32Range(0, 80).Draw(t, "replicas"), drawBound(t, "maxSurge"), sizes...)
			for _, rs := range replicaSets {
				annotateSize(rolling(rapid.Int32Range(1, 80).Draw(t, "when it was sized"), "1", "0"), rs)
			}
			_, goal := promised(d)
			if *d.Spec.Replicas == 0 {
				goal = 0
			}
			missing := goal - sum(replicaSets, size)
			changes := scaleInProportion(d, replicaSets)
			scaled := apply(replicaSets, changes)
			fail := func(what string) {
				t.Logf("%s: %s; %d pods together, %d are wanted: %s", what, notes(replicaSets), sum(replicaSets, size), goal, told(changes))
				t.Fatal(what)
			}
			for i, rs := range scaled {
				grown := size(rs) - size(replicaSets[i])
				if size(rs) < 0 || grown > 0 && missing <= 0 || grown < 0 && missing >= 0 {
					fail("a ReplicaSet goes against the direction")
				}
			}
			// Rounding can leave more to remove than the largest has. Then that
			// one goes down to zero and the rest stays, for the rollout to take.
			reached, emptied := sum(scaled, size), slices.Contains(sizesOf(scaled), 0)
			if reached != goal && (reached < goal || !emptied) {
				fail(fmt.Sprintf("%d pods are wanted, and there are to be %d", goal, reached))
			}
			if reached == goal && (len(scaleInProportion(d, scaled)) > 0 || wasScaled(see(d, scaled...))) {
				fail("a second round would scale once more")
			}
			backwards := slices.Clone(replicaSets)
			slices.Reverse(backwards)
			slices.Reverse(scaled)
			if !slices.Equal(sizesOf(apply(backwards, scaleInProportion(d, backwards))), sizesOf(scaled)) {
				fail("the order of the list makes a difference")
			}
		})
	})
	// Each version but the largest, which takes what rounding leaves over, is off
	// its exact share by half a pod at most, or has what the others left.
	t.Run("every version gets its share", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			sizes := rapid.SliceOfN(rapid.Int32Range(1, 60), 2, 5).Draw(t, "sizes")
			var before int32
			for _, n := range sizes {
				before += n
			}
			d, replicaSets := scaledFrom(before, rapid.Int32Range(1, 400).Draw(t, "replicas"), "0", sizes...)
			after := *d.Spec.Replicas
			changes := scaleInProportion(d, replicaSets)
			scaled := apply(replicaSets, changes)
			largest := slices.Max(sizes)
			for i, n := range sizes {
				exact := float64(n) * float64(after) / float64(before)
				off := float64(size(scaled[i])) - exact
				few := 0.5 * float64(len(sizes))
				if n != largest && (after > before && off > 0.5 || after < before && off < -0.5) || off > few || off < -few {
					t.Logf("%s, scaled from %d to %d: %s; the exact share of v%d is %.1f", notes(replicaSets), before, after, told(changes), i+1, exact)
					t.Fatal("a version gets more or less than its share")
				}
			}
		})
	})
}

// A write may be refused, or the process end, after any of several. What comes
// next starts from what is there (https://github.com/kubernetes/kubernetes/issues/44734).
func TestScalingThatIsInterruptedEndsAsItWouldHaveEnded(t *testing.T) {
	t.Parallel()
	t.Run("however far it has come the next round does the rest", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			sizes := rapid.SliceOfN(rapid.Int32Range(1, 30), 2, 5).Draw(t, "sizes")
			var total int32
			for _, n := range sizes {
				total += n
			}
			// In a rollout there may be more than are wanted, up to the surge.
			surge := drawBound(t, "maxSurge")
			before := total - rapid.Int32Range(0, total-1).Draw(t, "more than wanted")
			if _, most := promised(rolling(before, surge, "1")); total > most {
				before = total
			}
			d, replicaSets := scaledFrom(before, rapid.Int32Range(0, 80).Draw(t, "after"), surge, sizes...)
			all := scale(see(d, replicaSets...))
			whole := apply(replicaSets, all)
			for done := range all {
				part := apply(replicaSets, all[:done])
				rest := apply(part, scale(see(d, part...)))
				// One version that is left alone with pods, or has all that are
				// wanted, needs no surge. And where rounding has left too many,
				// the next round may do better.
				needsNoSurge := sum(rest, size) == *d.Spec.Replicas
				doesBetter := sum(whole, size) > maxTotal(d) && sum(rest, size) < sum(whole, size)
				if !slices.Equal(sizesOf(rest), sizesOf(whole)) && !needsNoSurge && !doesBetter {
					t.Logf("%s, scaled from %d to %d: %s. After %d of these: %v instead of %v", notes(replicaSets), before, *d.Spec.Replicas, told(all), done, sizesOf(rest), sizesOf(whole))
					t.Fatal("an interrupted scaling ends differently")
				}
			}
		})
	})
}

// apply returns the ReplicaSets with the changes made.
func apply(replicaSets []*appsv1.ReplicaSet, changes []change) []*appsv1.ReplicaSet {
	replicaSets = slices.Clone(replicaSets)
	for _, change := range changes {
		replicaSets[slices.Index(replicaSets, change.from)] = change.to
	}
	return replicaSets
}

func sizesOf(replicaSets []*appsv1.ReplicaSet) (sizes []int32) {
	for _, rs := range replicaSets {
		sizes = append(sizes, size(rs))
	}
	return sizes
}
