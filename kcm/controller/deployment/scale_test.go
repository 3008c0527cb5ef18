package deployment

import (
	"fmt"
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

func TestProportionalScalingReachesTheGoalAndKeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.Int32Range(1, 200).Draw(t, "before")
		after := rapid.Int32Range(0, 400).Draw(t, "after")
		surge := rapid.SampledFrom([]string{"0", "1", "3", "25%", "100%"}).Draw(t, "surge")
		d := rolling(before, surge, "1")
		var replicaSets []*appsv1.ReplicaSet
		left := maxTotal(d)
		for i := 1; left > 0 && i < 6; i++ {
			n := rapid.Int32Range(1, left).Draw(t, "size")
			left -= n
			replicaSets = append(replicaSets, replicaSet(d, i, n))
		}
		total := sum(replicaSets, size)
		oldMax := maxTotal(d)
		d.Spec.Replicas = &after

		goal := int32(0)
		if after > 0 {
			goal = maxTotal(d)
		}
		grows := goal > total
		became := map[string]int32{}
		for _, change := range scaleInProportion(d, replicaSets) {
			became[change.to.Name] = size(change.to)
		}
		var reached int32
		for _, rs := range replicaSets {
			n, changed := became[rs.Name]
			if !changed {
				n = size(rs)
			}
			reached += n
			if n < 0 {
				t.Fatalf("%s: size %d", rs.Name, n)
			}
			if grows && n < size(rs) && after >= before || !grows && n > size(rs) {
				t.Fatalf("%s goes from %d to %d, against the direction", rs.Name, size(rs), n)
			}
			// When the deployment was full, everybody but the largest, who
			// takes what is left over, is within rounding of its fraction or
			// of what the others left.
			if total == oldMax && rs.Name != largest(d, replicaSets, goal-total) {
				exact := float64(size(rs)) * float64(goal) / float64(oldMax)
				if grows && float64(n) > exact+0.5 || !grows && float64(n) < exact-0.5 {
					t.Fatalf("%s goes from %d to %d, its share is %.2f", rs.Name, size(rs), n, exact)
				}
			}
		}
		// Rounding can leave over more than the largest has. Then it goes down
		// to zero and the rest stays, for the rollout to take.
		n, changed := became[largest(d, replicaSets, goal-total)]
		emptied := changed && n == 0
		if reached != goal && !(emptied && reached > goal) {
			t.Fatalf("%v became %v: %d pods, want %d", total, became, reached, goal)
		}
	})
}

func largest(d *appsv1.Deployment, replicaSets []*appsv1.ReplicaSet, missing int32) string {
	first := replicaSets[0]
	for _, rs := range replicaSets {
		if bySize(missing)(rs, first) < 0 {
			first = rs
		}
	}
	return first.Name
}
