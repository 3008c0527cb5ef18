package deployment

import (
	"fmt"
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
