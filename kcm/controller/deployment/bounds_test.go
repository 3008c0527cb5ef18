package deployment

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"pgregory.net/rapid"
)

// room tells how many pods a deployment may have, by what bounds says.
func room(d *appsv1.Deployment) string {
	maxSurge, maxUnavailable := bounds(d)
	return fmt.Sprintf("up to %d pods, at least %d available", *d.Spec.Replicas+maxSurge, *d.Spec.Replicas-maxUnavailable)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour          string
		replicas           int32
		surge, unavailable string
		want               string
	}{
		{"maxSurge is rounded up", 10, "25%", "0", "up to 13 pods, at least 10 available"},
		{"maxUnavailable is rounded down", 10, "1", "25%", "up to 11 pods, at least 8 available"},
		{"numbers are taken as they are", 10, "3", "2", "up to 13 pods, at least 8 available"},
		{"percentages are of the wanted number", 20, "50%", "10%", "up to 30 pods, at least 18 available"},
		{"by default a single pod is replaced without a gap", 1, "25%", "25%", "up to 2 pods, at least 1 available"},
		{"a surge alone is enough to move", 3, "1", "0", "up to 4 pods, at least 3 available"},
		{"when both come to nothing one pod may be missing", 4, "0", "10%", "up to 4 pods, at least 3 available"},
		{"no more may be missing than are wanted", 2, "1", "5", "up to 3 pods, at least 0 available"},
		{"more may be too many than are wanted", 2, "5", "0", "up to 7 pods, at least 2 available"},
		{"of no pods none can be missing", 0, "0", "10%", "up to 0 pods, at least 0 available"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			d := rolling(tt.replicas, tt.surge, tt.unavailable)
			d.Status.Replicas = 7 // in the middle of something
			assert.Equal(t, tt.want, room(d), "%d replicas, maxSurge %s, maxUnavailable %s", tt.replicas, tt.surge, tt.unavailable)
		})
	}
	t.Run("Recreate has no pods too many and none missing", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "up to 3 pods, at least 3 available", room(recreating(3)), "3 replicas, Recreate")
	})
}

func TestABoundHolds(t *testing.T) {
	t.Parallel()
	t.Run("any two bounds are what the API documentation promises", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			replicas, surge, unavailable := rapid.Int32Range(0, 40).Draw(t, "replicas"), drawBound(t, "maxSurge"), drawBound(t, "maxUnavailable")
			d := rolling(replicas, surge, unavailable)
			least, most := promised(d)
			assert.Equal(t, fmt.Sprintf("up to %d pods, at least %d available", most, least), room(d),
				"%d replicas, maxSurge %s, maxUnavailable %s", replicas, surge, unavailable)
		})
	})
}

func TestNoNumberIsTooLarge(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt32
	for _, tt := range []struct {
		behaviour string
		replicas  int32
		surge     string
		old, news int32
		want      string
	}{
		{"a surge of any number is used as far as it is wanted", 4, "2147483647", 4, 1, "v2 from 1 to 4"},
		{"and where there is no pod yet", 4, "2147483647", 0, 0, "v2 from 0 to 4"},
		{"so is a percentage beyond all numbers", 4, "9223372036854775807%", 4, 1, "v2 from 1 to 4"},
		{"one below them that is one above of the wanted", 2000000000, "200%", 5, 1, "v2 from 1 to 2000000000"},
		{"all numbers are wanted", most, "25%", 5, 1, "v2 from 1 to 2147483642"},
		{"old ones that were made too many leave no room", 4, "1", most, 3, "v1 from 2147483647 to 4"}, // and in the next step to 1
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			d := rolling(tt.replicas, tt.surge, "0")
			p := decide(see(d, replicaSet(d, 1, tt.old), replicaSet(d, 2, tt.news)))
			assert.Equal(t, tt.want, p.tells(), "%d replicas, maxSurge %s; v1 has %d, v2 has %d", tt.replicas, tt.surge, tt.old, tt.news)
		})
	}
	t.Run("whatever the numbers are, no step empties what is needed, and the last is the end", func(t *testing.T) {
		t.Parallel()
		number := rapid.SampledFrom([]int32{0, 1, 2, 5, most / 2, most - 1, most})
		surge := rapid.SampledFrom([]string{"0", "1", "2147483647", "25%", "100%", "2147483647%", "9223372036854775807%"})
		rapid.Check(t, func(t *rapid.T) {
			before := rolling(number.Draw(t, "replicas before"), surge.Draw(t, "surge before"), "0")
			d := rolling(number.Draw(t, "replicas"), surge.Draw(t, "surge"), rapid.SampledFrom([]string{"0", "1", "25%", "2147483647"}).Draw(t, "unavailable"))
			old := number.Draw(t, "v1")
			replicaSets := []*appsv1.ReplicaSet{replicaSet(before, 1, old), replicaSet(before, 2, number.Filter(func(n int32) bool { return n <= most-old }).Draw(t, "v2"))}
			for range 10 { // an update in steps of one may take longer
				p := decide(see(d, replicaSets...))
				if len(p.change) == 0 {
					assert.Equal(t, []int32{0, *d.Spec.Replicas}, sizesOf(replicaSets), "v1 and v2")
					return
				}
				least := min(sum(replicaSets, size), minAvailable(d))
				replicaSets = apply(replicaSets, p.change)
				for _, rs := range replicaSets {
					having(rs, size(rs)).Status.Replicas = size(rs)
				}
				if sum(replicaSets, size) < least || slices.Min(sizesOf(replicaSets)) < 0 {
					t.Fatalf("%d pods are to be there at least: %s", least, told(p.change))
				}
			}
		})
	})
}

func TestTheRevisionsEndWhereTheNumbersEnd(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	old := with(replicaSet(d, 1, 0), func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "9223372036854775807" })
	assert.Equal(t, int64(math.MaxInt64), nextRevision([]*appsv1.ReplicaSet{old}))
}
