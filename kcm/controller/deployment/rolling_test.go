package deployment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"pgregory.net/rapid"
)

func TestSizeOfNew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour string
		seen      observed
		want      int32
	}{
		{"a first rollout gets everything at once", see(rolling(10, "3", "2")), 10},
		{"before it is there it may have the surge", rollout(10, "3", "2", set{1, 10, 10}), 3},
		{"with the surge used up it stays", rollout(10, "3", "2", set{1, 10, 10}, set{2, 3, 0}), 3},
		{"it grows into the room that old ones have left", rollout(10, "3", "2", set{1, 8, 8}, set{2, 3, 0}), 5},
		{"it is never larger than wanted", rollout(10, "3", "2", set{1, 1, 1}, set{2, 9, 9}), 10},
		{"one that is too large goes back to what is wanted", rollout(10, "3", "2", set{1, 1, 1}, set{2, 12, 12}), 10},
		{"above the upper bound it does not shrink to make up for it", rollout(10, "3", "2", set{1, 12, 12}, set{2, 3, 0}), 3},
		{"without a surge it waits for an old pod to go", rollout(4, "0", "1", set{1, 4, 4}), 0},
		{"all old versions count", rollout(10, "3", "2", set{0, 4, 4}, set{1, 6, 6}, set{2, 1, 0}), 3},
		{"old pods that are not available take up room, too", rollout(10, "3", "2", set{1, 8, 0}, set{2, 3, 0}), 5},
		{"pods that still end take up no room", telling(rollout(10, "3", "2", set{1, 8, 8}, set{2, 3, 0}), 0, 10), 5},
		{"pods that have still to come take up room", telling(rollout(10, "3", "2", set{1, 10, 10}, set{2, 3, 0}), 1, 0), 3},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, fmt.Sprintf("new may have %d", tt.want), fmt.Sprintf("new may have %d", sizeOfNew(tt.seen)), situation(tt.seen))
		})
	}
}

func TestShrinkOld(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour string
		seen      observed
		want      string
	}{
		{"available old pods go down to the minimum", rollout(10, "3", "2", set{1, 10, 10}, set{2, 3, 0}), "v1 from 10 to 8"},
		{"at the minimum none goes", rollout(10, "3", "2", set{1, 8, 8}, set{2, 5, 0}), "no change"},
		{"each new pod that becomes available lets an old one go", rollout(10, "3", "2", set{1, 8, 8}, set{2, 5, 2}), "v1 from 8 to 6"},
		{"the last old pods go when the new ones are the minimum", rollout(10, "3", "2", set{1, 2, 2}, set{2, 10, 8}), "v1 from 2 to 0"},
		{"without a surge an old pod goes first", rollout(4, "0", "1", set{1, 4, 4}, set{2, 0, 0}), "v1 from 4 to 3"},
		{"with none to be missing an old pod waits for a new one", rollout(3, "1", "0", set{1, 3, 3}, set{2, 1, 0}), "no change"},
		{"a version that never worked does not hold up the next one", rollout(10, "3", "2", set{1, 10, 0}, set{2, 3, 0}), "v1 from 10 to 8"},
		{"old pods that are not available go though none is to spare", rollout(3, "1", "0", set{1, 3, 0}, set{2, 1, 1}), "v1 from 3 to 2"},
		{"a pod that fails in a stuck rollout is not given up", rollout(10, "3", "2", set{1, 8, 7}, set{2, 5, 0}), "no change"},
		{"below the minimum none that is available goes", rollout(10, "3", "2", set{1, 10, 5}, set{2, 3, 1}), "v1 from 10 to 7"},
		{"pods of both kinds go in one change", rollout(10, "3", "2", set{1, 10, 9}, set{2, 3, 0}), "v1 from 10 to 8"},
		{"the oldest version shrinks first", rollout(10, "3", "2", set{0, 2, 2}, set{1, 8, 8}, set{2, 3, 1}), "v0 from 2 to 0; v1 from 8 to 7"},
		{"what the oldest gives the next one need not", rollout(10, "3", "2", set{0, 4, 0}, set{1, 6, 4}, set{2, 3, 3}), "v0 from 4 to 0; v1 from 6 to 5"},
		{"a broken version goes when a third one is rolled out", rollout(10, "3", "2", set{0, 8, 8}, set{1, 5, 0}, set{2, 0, 0}), "v1 from 5 to 0"},
		{"pods that are about to go are not counted on", rollout(10, "3", "2", set{0, 5, 5}, set{1, 3, 5}, set{2, 5, 2}), "v0 from 5 to 3"},
		{"a version without pods stays as it is", rollout(10, "3", "2", set{0, 0, 0}, set{1, 8, 8}, set{2, 5, 2}), "v1 from 8 to 6"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, told(shrinkOld(tt.seen)), situation(tt.seen))
		})
	}
}

// set is a ReplicaSet: its version, its size, and how many available pods its
// status tells of. Version 2 is the new one.
type set struct{ version, size, available int32 }

func rollout(replicas int32, maxSurge, maxUnavailable string, sets ...set) observed {
	d := rolling(replicas, maxSurge, maxUnavailable)
	var replicaSets []*appsv1.ReplicaSet
	for _, s := range sets {
		replicaSets = append(replicaSets, having(replicaSet(d, int(s.version), s.size), s.available))
	}
	return see(d, replicaSets...)
}

// telling sets how many pods the status of a ReplicaSet tells of.
func telling(seen observed, index int, pods int32) observed {
	seen.all()[index].Status.Replicas = pods
	return seen
}

// onPaper is a rollout of which there are only the numbers.
type onPaper struct {
	observed
	story []string
}

func (r *onPaper) tell(format string, args ...any) {
	r.story = append(r.story, fmt.Sprintf(format, args...))
}

func (r *onPaper) fail(t *rapid.T, what string) {
	t.Log(what + ":\n" + strings.Join(r.story, "\n"))
	t.Fatal(what)
}

// step is one round: first up, and if there is no room, down. It tells whether
// anything has changed.
func (r *onPaper) step(t *rapid.T) bool {
	least, most := promised(r.deployment)
	changes := resize(r.deployment, r.newRS, sizeOfNew(r.observed))
	if len(changes) == 0 {
		changes = shrinkOld(r.observed)
	}
	there, kept, sizes := r.sum(sure), r.sum(r.countedOn), r.sum(size)
	r.tell("the loop: %s", told(changes))
	for _, c := range changes {
		c.from.Spec.Replicas = c.to.Spec.Replicas
	}
	switch {
	case r.sum(size) > max(sizes, most):
		r.fail(t, fmt.Sprintf("%d pods are asked for, and there may be %d", r.sum(size), most))
	case r.sum(sure) < min(there, least):
		r.fail(t, fmt.Sprintf("%d pods remain available, and there have to be %d", r.sum(sure), least))
	case r.sum(r.countedOn) < min(kept, least):
		r.fail(t, fmt.Sprintf("if no more new pods start, only %d pods can be available, and there have to be %d", r.sum(r.countedOn), least))
	}
	return len(changes) > 0
}

func (r *onPaper) sum(number func(*appsv1.ReplicaSet) int32) (total int32) {
	for _, rs := range r.all() {
		total += number(rs)
	}
	return total
}

// countedOn is how many available pods a ReplicaSet can be counted on to have:
// an old one has had them all, a new one may never start another.
func (r *onPaper) countedOn(rs *appsv1.ReplicaSet) int32 {
	if rs == r.newRS {
		return sure(rs)
	}
	return *rs.Spec.Replicas
}

// sure is how many available pods a ReplicaSet has that it is not about to
// delete.
func sure(rs *appsv1.ReplicaSet) int32 { return min(*rs.Spec.Replicas, rs.Status.AvailableReplicas) }

func (r *onPaper) some(t *rapid.T) *appsv1.ReplicaSet {
	return rapid.SampledFrom(r.all()).Draw(t, "ReplicaSet")
}

func (r *onPaper) becomes(rs *appsv1.ReplicaSet, available int32, what string) {
	if available != rs.Status.AvailableReplicas {
		having(rs, available)
		r.tell("%s %s: %d of %d available", versionOf(rs), what, available, size(rs))
	}
}

// The numbers of a rollout, from any sizes on, while pods start, fail and are
// replaced, and while a status may tell of pods that are about to go.
func TestARolloutOnPaper(t *testing.T) {
	t.Parallel()
	t.Run("every rollout keeps its bounds and ends", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			bounds := []string{drawBound(t, "maxSurge"), drawBound(t, "maxUnavailable")}
			sets := []set{{2, 0, 0}}
			for version := range rapid.Int32Range(1, 3).Draw(t, "old versions") {
				n := rapid.Int32Range(0, 6).Draw(t, "size")
				sets = append(sets, set{[]int32{0, 1, 3}[version], n, rapid.Int32Range(0, n).Draw(t, "available")})
			}
			r := &onPaper{observed: rollout(rapid.Int32Range(1, 10).Draw(t, "replicas"), bounds[0], bounds[1], sets...)}
			r.tell("%s", situation(r.observed))
			t.Repeat(map[string]func(*rapid.T){
				"the loop": func(t *rapid.T) { r.step(t) },
				"a pod starts": func(t *rapid.T) {
					rs := r.some(t)
					r.becomes(rs, max(rs.Status.AvailableReplicas, min(size(rs), rs.Status.AvailableReplicas+1)), "has a pod that starts")
				},
				"a pod fails": func(t *rapid.T) {
					rs := r.some(t)
					r.becomes(rs, max(0, rs.Status.AvailableReplicas-1), "has a pod that fails")
				},
				"the pods that were too many are gone": func(t *rapid.T) {
					rs := r.some(t)
					r.becomes(rs, sure(rs), "has lost those that were too many")
				},
			})
			old := rapid.Bool().Draw(t, "the old versions work")
			for round := 0; ; round++ {
				for _, rs := range r.all() {
					if rs == r.newRS || old {
						r.becomes(rs, size(rs), "has only pods that work")
					} else {
						r.becomes(rs, 0, "has no pod that works")
					}
				}
				if !r.step(t) {
					break
				}
				if round == 100 {
					r.fail(t, "the rollout does not come to an end")
				}
			}
			if size(r.newRS) != *r.deployment.Spec.Replicas || r.sum(size) != size(r.newRS) {
				r.fail(t, "the rollout stops before its end")
			}
		})
	})
}
