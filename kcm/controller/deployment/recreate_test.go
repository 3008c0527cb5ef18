package deployment

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func recreated(sets ...set) observed {
	d := recreating(3)
	d.Spec.RevisionHistoryLimit = new(int32(1))
	var replicaSets []*appsv1.ReplicaSet
	for _, s := range sets {
		replicaSets = append(replicaSets, having(replicaSet(d, int(s.version), s.size), s.available))
	}
	return see(d, replicaSets...)
}

// besides adds an old pod in that phase.
func besides(seen observed, phase corev1.PodPhase, deleted bool) observed {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	if deleted {
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	seen.oldPods = append(seen.oldPods, pod)
	return seen
}

// resizedSince has the first ReplicaSet tell of the generation before.
func resizedSince(seen observed) observed {
	seen.oldRSs[0].Generation = seen.oldRSs[0].Status.ObservedGeneration + 1
	return seen
}

// counting has the first ReplicaSet tell of that many pods that are being
// deleted.
func counting(seen observed, terminating int32) observed {
	seen.oldRSs[0].Status.TerminatingReplicas = &terminating
	return seen
}

// notCounting has the first ReplicaSet not tell of them, as older API servers do.
func notCounting(seen observed, replicas int32) observed {
	seen.oldRSs[0].Status.TerminatingReplicas = nil
	seen.oldRSs[0].Status.Replicas = replicas
	return seen
}

func TestRecreate(t *testing.T) {
	t.Parallel()
	const created, waits = "create v2 with size 3", "no change"
	for _, tt := range []struct {
		behaviour string
		seen      observed
		want      string
	}{
		{"old pods go before there is a new ReplicaSet", recreated(set{1, 3, 3}), "v1 from 3 to 0"},
		{"all old versions go at once", recreated(set{0, 1, 1}, set{1, 3, 3}), "v0 from 1 to 0; v1 from 3 to 0"},
		{"old pods that do not work go as well", recreated(set{1, 3, 0}), "v1 from 3 to 0"},
		{"while old pods are to go the new version does not grow", recreated(set{1, 2, 2}, set{2, 0, 0}), "v1 from 2 to 0"},
		{"a first rollout waits for nothing", recreated(), created},
		{"when no old pod is left the new ReplicaSet comes with all its pods", recreated(set{1, 0, 0}), created},
		{"what an old ReplicaSet still counts is waited for", telling(recreated(set{1, 0, 0}), 0, 1), waits},
		{"what an old ReplicaSet tells of its former size does not count", resizedSince(recreated(set{1, 0, 0})), waits},
		{"what an old ReplicaSet counts as terminating is waited for", counting(recreated(set{1, 0, 0}), 1), waits},
		{"one that does not count what terminates is waited for by its replicas", notCounting(recreated(set{1, 0, 0}), 1), waits},
		{"one that does not count what terminates and has no replicas is not waited for", notCounting(recreated(set{1, 0, 0}), 0), created},
		{"a pod that is being deleted is waited for", besides(recreated(set{1, 0, 0}), corev1.PodRunning, true), waits},
		{"a pod that has not started yet is waited for", besides(recreated(set{1, 0, 0}), corev1.PodPending, false), waits},
		{"a pod on a node that does not answer is waited for", besides(recreated(set{1, 0, 0}), corev1.PodUnknown, false), waits},
		{"a pod that has succeeded is not waited for", besides(recreated(set{1, 0, 0}), corev1.PodSucceeded, true), created},
		{"a pod that has failed is not waited for", besides(recreated(set{1, 0, 0}), corev1.PodFailed, false), created},
		{"one that has ended does not hide one that runs", besides(besides(recreated(set{1, 0, 0}), corev1.PodFailed, false), corev1.PodRunning, true), waits},
		{"a new ReplicaSet without pods waits for old pods, too", besides(recreated(set{1, 0, 0}, set{2, 0, 0}), corev1.PodRunning, true), waits},
		{"then it grows at once to what is wanted", recreated(set{1, 0, 0}, set{2, 0, 0}), "v2 from 0 to 3"},
		{"one that is there already shrinks to what is wanted", recreated(set{1, 0, 0}, set{2, 5, 5}), "v2 from 5 to 3"},
		{"at the end there is nothing to do", recreated(set{1, 0, 0}, set{2, 3, 3}), "no change"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, recreate(tt.seen).tells(), situation(tt.seen))
		})
	}
	t.Run("at the end versions above the history limit are forgotten", func(t *testing.T) {
		t.Parallel()
		seen := recreated(set{0, 0, 0}, set{1, 0, 0}, set{2, 3, 3})
		seen.deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
		assert.Equal(t, "delete v0", recreate(seen).tells(), "%s; one old version is to be kept", situation(seen))
	})
	t.Run("while it waits the status is told", func(t *testing.T) {
		t.Parallel()
		seen := besides(recreated(set{1, 0, 0}), corev1.PodRunning, true)
		assert.NotNil(t, recreate(seen).status, "the plan has no status, though no pod is available any more: %s", situation(seen))
	})
}

func TestRecreateBesideOtherVersions(t *testing.T) {
	t.Parallel()
	t.Run("whatever is left of other versions keeps the new one from starting", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			d := recreating(rapid.Int32Range(0, 4).Draw(t, "replicas"))
			seen := drawSeen(t, d)
			if rapid.Bool().Draw(t, "an old pod still ends") {
				seen = besides(seen, corev1.PodRunning, true)
			}
			p := recreate(seen)
			left := sum(seen.oldRSs, func(rs *appsv1.ReplicaSet) int32 { return size(rs) + rs.Status.Replicas }) + int32(len(seen.oldPods))
			starts := p.create != nil
			for _, change := range p.change {
				starts = starts || change.from == seen.newRS && size(change.from) == 0
			}
			if starts && left > 0 {
				t.Logf("the new version starts beside %d pods of old ones: %s\nthe plan: %s", left, situation(seen), p.tells())
				t.Fatal("the new version starts beside pods of old ones")
			}
		})
	})
}
