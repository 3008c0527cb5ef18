package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	t.Run("nodes are counted, and not pods", func(t *testing.T) {
		t.Parallel()
		seen := seenOn(testSet(),
			"a: new available", "b: old available, new starting", "c: new ready", "d:", "e: new going",
			"f: tainted, old available", "g: barred, old going", "h: barred")
		assert.Equal(t, appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberMisscheduled: 2,
			NumberReady: 4, NumberAvailable: 3, NumberUnavailable: 2, UpdatedNumberScheduled: 3, ObservedGeneration: 1,
		}, decideStatus(seen))
	})
	t.Run("a generation on which nothing could be done is not observed", func(t *testing.T) {
		t.Parallel()
		seen := seenOn(testSet(), "a:")
		seen.mayAct = false
		assert.Zero(t, decideStatus(seen).ObservedGeneration)
	})
	t.Run("collisions stay counted", func(t *testing.T) {
		t.Parallel()
		seen := seenOn(testSet())
		seen.set.Status.CollisionCount = new(int32(2))
		assert.Equal(t, int32(2), *decideStatus(seen).CollisionCount)
	})
}

func TestNextLook(t *testing.T) {
	t.Parallel()
	at, ok := nextLook(seenOn(testSet(), "a: new ready", "b: new failed, in pause"))
	assert.True(t, ok)
	assert.Equal(t, testNow.Add(9*time.Second), at, "when the pod that is ready becomes available")
	at, _ = nextLook(seenOn(testSet(), "b: new failed, in pause"))
	assert.Equal(t, testNow.Add(time.Minute), at, "when the pause is over")
	_, ok = nextLook(seenOn(testSet(), "a: new available", "b: new starting"))
	assert.False(t, ok, "nothing to come but notifications")
}
