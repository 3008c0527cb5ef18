package deployment

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
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

func TestScalingInTheMiddleOfARolloutKeepsProportions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		before, after int32
		surge         string
		sizes         []int32
		want          map[string]int32
	}{
		{10, 15, "3", []int32{8, 5}, map[string]int32{"v1": 11, "v2": 7}},
		{10, 20, "0", []int32{5, 5}, map[string]int32{"v1": 10, "v2": 10}},
		{10, 5, "0", []int32{5, 5}, map[string]int32{"v1": 2, "v2": 3}},                 // -2.5 rounds to 3, the older gives first
		{10, 11, "0", []int32{5, 5}, map[string]int32{"v2": 6}},                         // the younger gets first, the other is noted
		{10, 0, "3", []int32{8, 5}, map[string]int32{"v1": 0, "v2": 0}},                 // all of it
		{10, 12, "0", []int32{4, 4, 2}, map[string]int32{"v1": 5, "v2": 5}},             // 4.8, 4.8, 2.4
		{10, 9, "100%", []int32{6, 10}, map[string]int32{"v1": 6, "v2": 12}},            // 16 of 20, and 18 may be
		{100, 50, "0", []int32{98, 1, 1}, map[string]int32{"v1": 48, "v2": 1, "v3": 1}}, // 49, 0.5, 0.5,
	} {
		t.Run(fmt.Sprintf("%d to %d, %v", tt.before, tt.after, tt.sizes), func(t *testing.T) {
			t.Parallel()
			d, replicaSets := scaledFrom(tt.before, tt.after, tt.surge, tt.sizes...)
			seen := see(d, replicaSets...)
			assert.True(t, wasScaled(seen))
			got := map[string]int32{}
			for _, change := range scale(seen) {
				assert.Equal(t, fmt.Sprint(tt.after), change.to.Annotations[desiredReplicasAnnotation])
				if size(change.to) != size(change.from) {
					got[versionOf(change.to)] = size(change.to)
				}
			}
			for version, want := range tt.want {
				if have, changed := got[version]; changed {
					assert.Equal(t, want, have, version)
				} else {
					assert.Equal(t, fmt.Sprint(want), fmt.Sprint(sizeOf(replicaSets, version)), version)
				}
			}
		})
	}
}

func sizeOf(replicaSets []*appsv1.ReplicaSet, version string) int32 {
	for _, rs := range replicaSets {
		if versionOf(rs) == version {
			return size(rs)
		}
	}
	return -1
}

func TestScalingGoesToTheOnlyActiveOrTheLatestReplicaSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sizes []int32
		want  map[string]int32
	}{
		"the only one with pods":          {[]int32{3, 0, 0}, map[string]int32{"v1": 5}},
		"the new one":                     {[]int32{0, 0, 0}, map[string]int32{"v2": 5}},
		"the youngest old one":            {[]int32{0}, map[string]int32{"v1": 5}},
		"nothing to scale":                {nil, map[string]int32{}},
		"it has the size, which is noted": {[]int32{0, 5}, map[string]int32{"v2": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, replicaSets := scaledFrom(3, 5, "1", tt.sizes...)
			assert.Equal(t, tt.want, sizes(plan{change: scale(see(d, replicaSets...))}))
		})
	}
}

func TestASaturatedNewReplicaSetNeedsNoOthers(t *testing.T) {
	t.Parallel()
	d := rolling(5, "1", "1")
	adopted := replicaSet(d, 1, 2)
	adopted.Annotations[desiredReplicasAnnotation] = "2"
	assert.Equal(t, map[string]int32{"v1": 0}, sizes(decide(see(d, adopted, replicaSet(d, 2, 5)))))
}

func TestRecreateDoesNotScaleInProportion(t *testing.T) {
	t.Parallel()
	d := recreating(3)
	replicaSets := []*appsv1.ReplicaSet{replicaSet(d, 1, 2), replicaSet(d, 2, 1)}
	d.Spec.Replicas = new(int32(9))
	changes := scale(see(d, replicaSets...))
	assert.Equal(t, map[string]int32{"v1": 2, "v2": 1}, sizes(plan{change: changes}), "as they are")
	assert.False(t, wasScaled(see(d, changes[0].to, changes[1].to)), "but with a note of the size, or nothing would ever go on")
}

func TestAnnotationsThatMakeNoSenseAreAsIfTheyWereNotThere(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "-1", "many", "2147483648", "0x5"} {
		d, replicaSets := scaledFrom(10, 20, "0", 5, 5)
		for _, rs := range replicaSets {
			rs.Annotations[desiredReplicasAnnotation] = value
			rs.Annotations[maxReplicasAnnotation] = value
		}
		seen := see(d, replicaSets...)
		assert.False(t, wasScaled(seen), value)
		assert.EqualValues(t, 0, growth(d, replicaSets[0]), "nothing to go by: %q", value)
		d.Status.Replicas = 10
		assert.EqualValues(t, 5, growth(d, replicaSets[0]), value)
	}
}

func TestASizeThatStaysIsNotedAnew(t *testing.T) {
	t.Parallel()
	d, replicaSets := scaledFrom(10, 11, "0", 10, 1)
	changes := scale(see(d, replicaSets...))
	assert.Len(t, changes, 2)
	for _, change := range changes {
		assert.Equal(t, size(change.from), size(change.to))
		assert.Equal(t, "11", change.to.Annotations[desiredReplicasAnnotation])
	}
}

// Whoever was resized by somebody else before, and in whatever order the
// ReplicaSets come: scaling in proportion reaches the goal, at once, and none of
// them goes against the direction.
func TestProportionalScalingReachesTheGoal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int32Range(1, 30), 2, 5).Draw(t, "sizes")
		d, replicaSets := scaledFrom(10, rapid.Int32Range(0, 80).Draw(t, "replicas"), drawBound(t, "maxSurge"), sizes...)
		for _, rs := range replicaSets {
			annotateSize(rolling(rapid.Int32Range(1, 80).Draw(t, "when it was sized"), "1", "0"), rs)
		}
		goal := maxTotal(d)
		if *d.Spec.Replicas == 0 {
			goal = 0
		}
		missing := goal - sum(replicaSets, size)
		scaled := apply(replicaSets, scaleInProportion(d, replicaSets))
		t.Logf("%v, %d missing for %d, became %v", sizes, missing, goal, sizesOf(scaled))

		for i, rs := range scaled {
			grown := size(rs) - size(replicaSets[i])
			if size(rs) < 0 || grown > 0 && missing <= 0 || grown < 0 && missing >= 0 {
				t.Fatal("a ReplicaSet goes against the direction")
			}
		}
		// Rounding can leave more to remove than the largest has. Then that
		// one goes down to zero and the rest stays, for the rollout to take.
		reached, emptied := sum(scaled, size), slices.Contains(sizesOf(scaled), 0)
		if reached != goal && (reached < goal || !emptied) {
			t.Fatal("the goal is not reached")
		}
		if reached == goal && (len(scaleInProportion(d, scaled)) > 0 || wasScaled(see(d, scaled...))) {
			t.Fatal("a second round would change something")
		}
		backwards := slices.Clone(replicaSets)
		slices.Reverse(backwards)
		slices.Reverse(scaled)
		if !slices.Equal(sizesOf(apply(backwards, scaleInProportion(d, backwards))), sizesOf(scaled)) {
			t.Fatal("the order of the list matters")
		}
	})
}

// A deployment that is at its full size is scaled fairly: each version but the
// largest, which takes what rounding leaves over, is off its exact share by
// half a pod at most, or has what the others left.
func TestProportionalScalingIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int32Range(1, 60), 2, 5).Draw(t, "sizes")
		before := sumOf(sizes)
		d, replicaSets := scaledFrom(before, rapid.Int32Range(1, 400).Draw(t, "replicas"), "0", sizes...)
		after := *d.Spec.Replicas
		scaled := apply(replicaSets, scaleInProportion(d, replicaSets))
		t.Logf("%v of %d became %v of %d", sizes, before, sizesOf(scaled), after)
		largest := slices.Max(sizes)
		for i, n := range sizes {
			exact := float64(n) * float64(after) / float64(before)
			off := float64(size(scaled[i])) - exact
			if n != largest && (after > before && off > 0.5 || after < before && off < -0.5) {
				t.Fatal("a version gets more than its share of the change")
			}
			if off > 0.5*float64(len(sizes)) || off < -0.5*float64(len(sizes)) {
				t.Fatal("a version is off by more than all rounding together")
			}
		}
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

func sumOf(sizes []int32) (total int32) {
	for _, n := range sizes {
		total += n
	}
	return total
}
