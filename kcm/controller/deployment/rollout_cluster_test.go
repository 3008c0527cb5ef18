package deployment_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestARollingUpdateKeepsItsBoundsFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(4, surge(1, 1), func(d *appsv1.Deployment) { d.Annotations = map[string]string{"team": "blue"} }))
	first := s.untilDone("v1")
	assert.Equal(t, "1", first.Annotations["deployment.kubernetes.io/revision"])
	s.untilEvent("ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to 4", first.replicaSets["v1"].Name))

	replicaSets, pods := s.recordReplicaSets(), s.recordPods()
	s.change(image("v2"))
	last := s.untilDone("v2")
	old, updated := last.replicaSets["v1"], last.replicaSets["v2"]
	last = s.until("the end is told", func(seen state) bool {
		return seen.condition("Progressing") == fmt.Sprintf("True NewReplicaSetAvailable: ReplicaSet %q has successfully progressed.", updated.Name)
	})
	checkSizes(t, replicaSets(), 5)
	checkAvailability(t, pods(), 3)

	assert.Zero(t, *old.Spec.Replicas)
	assert.Equal(t, first.replicaSets["v1"].UID, old.UID)
	assert.Equal(t, "True MinimumReplicasAvailable: Deployment has minimum availability.", last.condition("Available"))
	assert.Equal(t, "2", last.Annotations["deployment.kubernetes.io/revision"])
	assert.Equal(t, map[string]string{
		"team":                              "blue",
		"deployment.kubernetes.io/revision": "2",
		"deployment.kubernetes.io/desired-replicas": "4",
		"deployment.kubernetes.io/max-replicas":     "5",
	}, updated.Annotations)
	hash := updated.Labels["pod-template-hash"]
	assert.Equal(t, "web-"+hash, updated.Name)
	assert.Equal(t, hash, updated.Spec.Selector.MatchLabels["pod-template-hash"])
	s.untilEvent("ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to 1", updated.Name))
	s.untilEvent("ScalingReplicaSet", fmt.Sprintf("Scaled down replica set %s from 4 to 3", old.Name))
}

// checkSizes wants the sizes of all ReplicaSets together never above a bound.
func checkSizes(t *testing.T, changes []change[*appsv1.ReplicaSet], most int32) {
	t.Helper()
	sizes := map[types.UID]int32{}
	highest := int32(0)
	for _, change := range changes {
		sizes[change.object.UID] = *change.object.Spec.Replicas
		if change.kind == watch.Deleted {
			delete(sizes, change.object.UID)
		}
		total := int32(0)
		for _, size := range sizes {
			total += size
		}
		highest = max(highest, total)
	}
	assert.Equal(t, most, highest, "the highest sum of all sizes")
}

// checkAvailability wants never fewer than so many pods available, once they
// were.
func checkAvailability(t *testing.T, changes []change[*corev1.Pod], least int) {
	t.Helper()
	available := map[types.UID]bool{}
	satisfied := false
	for _, change := range changes {
		pod := change.object
		delete(available, pod.UID)
		if change.kind != watch.Deleted && pod.DeletionTimestamp == nil && controller.IsPodReady(pod) {
			available[pod.UID] = true
		}
		satisfied = satisfied || len(available) >= least
		if satisfied && len(available) < least {
			t.Fatalf("%d pods were available, after %s of %s", len(available), change.kind, pod.Name)
		}
	}
	require.True(t, satisfied)
}

func TestRecreateRemovesAllOldPodsBeforeTheFirstNewOne(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(3, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}))
	s.untilDone("v1")
	pods := s.recordPods()
	s.change(image("v2"))
	s.untilDone("v2")

	there := map[types.UID]string{}
	created := 0
	for _, change := range pods() {
		if version := versionOf(change.object.Spec); change.kind == watch.Deleted {
			delete(there, change.object.UID)
		} else {
			there[change.object.UID] = version
			if version == "v2" && change.kind == watch.Added {
				created++
				for _, other := range there {
					require.Equal(t, "v2", other, "when %s was created", change.object.Name)
				}
			}
		}
	}
	assert.Equal(t, 3, created)
}

func TestUndoMakesTheOldReplicaSetTheNewOneWithTheNextRevision(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(2))
	first := s.untilDone("v1")
	s.change(image("v2"))
	s.untilDone("v2")
	s.change(image("v1"))
	s.untilDone("v1")
	last := s.until("the revision is 3", func(seen state) bool { return seen.Annotations["deployment.kubernetes.io/revision"] == "3" })

	assert.Len(t, last.replicaSets, 2)
	assert.Equal(t, first.replicaSets["v1"].UID, last.replicaSets["v1"].UID)
	assert.Equal(t, "3", last.replicaSets["v1"].Annotations["deployment.kubernetes.io/revision"])
	assert.Equal(t, "1", last.replicaSets["v1"].Annotations["deployment.kubernetes.io/revision-history"])
	assert.Equal(t, "2", last.replicaSets["v2"].Annotations["deployment.kubernetes.io/revision"])
}

func TestAnOldClientsRollbackIsCarriedOut(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	cause := func(text string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "kubernetes.io/change-cause", text)
		}
	}
	rollbackTo := func(revision string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, revision)
		}
	}
	s.create(web(1, cause("create")))
	s.untilDone("v1")
	s.change(image("v2"), cause("edit"))
	s.untilDone("v2")
	s.change(rollbackTo("0"))
	last := s.untilDone("v1")
	assert.NotContains(t, last.Annotations, appsv1.DeprecatedRollbackTo)
	assert.Equal(t, "create", last.Annotations["kubernetes.io/change-cause"])
	s.untilEvent("DeploymentRollback", `Rolled back deployment "web" to revision 1`)

	s.change(rollbackTo("99"))
	s.untilEvent("DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
	s.until("the request is taken away", func(seen state) bool { return seen.Annotations[appsv1.DeprecatedRollbackTo] == "" })
}

func TestAPausedDeploymentIsScaledAndNotRolledOut(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(2))
	s.untilDone("v1")
	deployments := s.recordDeployments()

	s.change(image("v2"), func(d *appsv1.Deployment) { d.Spec.Paused = true })
	paused := s.observed()
	assert.Equal(t, "Unknown DeploymentPaused: Deployment is paused", paused.condition("Progressing"))
	assert.Len(t, paused.replicaSets, 1)

	s.change(scaledTo(4))
	s.until("the old version is scaled", func(seen state) bool { return seen.size("v1") == 4 && seen.Status.AvailableReplicas == 4 })
	assert.Len(t, s.observed().replicaSets, 1)

	s.change(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	s.untilDone("v2")
	var reasons []string
	for _, change := range deployments() {
		for _, c := range change.object.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing && (len(reasons) == 0 || reasons[len(reasons)-1] != c.Reason) {
				reasons = append(reasons, c.Reason)
			}
		}
	}
	require.Contains(t, reasons, "DeploymentPaused")
	require.Contains(t, reasons, "DeploymentResumed")
}

func TestScalingInTheMiddleOfARolloutKeepsTheProportionsOfVersions(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(10, surge(3, 2)))
	s.untilDone("v1")
	s.change(image("broken"))
	s.until("the rollout is stuck", func(seen state) bool {
		return seen.size("v1") == 8 && seen.size("broken") == 5 && seen.Status.Replicas == 13 && seen.Status.AvailableReplicas == 8
	})
	s.change(scaledTo(15))
	last := s.until("both versions have grown", func(seen state) bool {
		return seen.size("v1") == 11 && seen.size("broken") == 7 && seen.Status.Replicas == 18 && seen.Status.AvailableReplicas == 11
	})
	for version, rs := range last.replicaSets {
		assert.Equal(t, "15", rs.Annotations["deployment.kubernetes.io/desired-replicas"], version)
		assert.Equal(t, "18", rs.Annotations["deployment.kubernetes.io/max-replicas"], version)
	}
	last = s.until("the status tells all", func(seen state) bool {
		status := seen.Status
		return status.ObservedGeneration == seen.Generation && status.UpdatedReplicas == 7 && status.ReadyReplicas == 11 &&
			status.UnavailableReplicas == 7 && status.TerminatingReplicas != nil && *status.TerminatingReplicas == 0
	})
	assert.Equal(t, "False MinimumReplicasUnavailable: Deployment does not have minimum availability.", last.condition("Available"))

	s.change(scaledTo(0))
	s.until("all are gone", func(seen state) bool {
		return seen.size("v1") == 0 && seen.size("broken") == 0 && seen.Status.Replicas == 0 && seen.Status.ObservedGeneration == seen.Generation
	})
}

func TestARolloutThatMakesNoProgressTimesOutAndMayStillSucceed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(2, surge(1, 0), image("broken"), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(2)) }))
	s.until("the deadline is exceeded", func(seen state) bool {
		rs := seen.replicaSets["broken"]
		return rs != nil && seen.condition("Progressing") == fmt.Sprintf("False ProgressDeadlineExceeded: ReplicaSet %q has timed out progressing.", rs.Name)
	})
	// More than the 3 seconds until a pod is ready, or it would time out too.
	s.change(image("v2"), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(30)) })
	s.untilDone("v2")
	s.until("success is told", func(seen state) bool {
		return seen.condition("Progressing") == fmt.Sprintf("True NewReplicaSetAvailable: ReplicaSet %q has successfully progressed.", seen.replicaSets["v2"].Name)
	})
}

func TestWithoutADeadlineNothingIsSaidAboutProgress(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(1, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(1<<31 - 1)) }))
	assert.Empty(t, s.untilDone("v1").condition("Progressing"))
}

func TestOldReplicaSetsAboveTheHistoryLimitAreDeleted(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(1, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(1)) }))
	s.untilDone("v1")
	for _, version := range []string{"v2", "v3"} {
		s.change(image(version))
		s.untilDone(version)
	}
	s.until("the oldest is gone", func(seen state) bool {
		return len(seen.replicaSets) == 2 && seen.size("v2") == 0 && seen.size("v3") == 1
	})
}

func TestMinReadySecondsAndAnnotationsChangeWithoutARollout(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(1))
	before := s.untilDone("v1")
	s.change(func(d *appsv1.Deployment) {
		d.Spec.MinReadySeconds = 1
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "team", "red")
	})
	after := s.until("the ReplicaSet has them", func(seen state) bool {
		rs := seen.replicaSets["v1"]
		return rs.Spec.MinReadySeconds == 1 && rs.Annotations["team"] == "red" && seen.Status.ObservedGeneration == seen.Generation
	})
	assert.Len(t, after.replicaSets, 1)
	assert.Equal(t, before.replicaSets["v1"].UID, after.replicaSets["v1"].UID)
	assert.Equal(t, "1", after.Annotations["deployment.kubernetes.io/revision"])
}

func TestPodsThatAreBeingDeletedAreCounted(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(3, func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations["lab.kcm-book.io/stop-after"] = "4"
		d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(10))
	}))
	s.untilDone("v1")
	s.change(scaledTo(1))
	s.until("two are terminating", func(seen state) bool {
		status := seen.Status
		return status.Replicas == 1 && status.TerminatingReplicas != nil && *status.TerminatingReplicas == 2
	})
	s.until("none is", func(seen state) bool { return *seen.Status.TerminatingReplicas == 0 })
}
