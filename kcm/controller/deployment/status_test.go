package deployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestTheStatusAddsUpTheReplicaSets(t *testing.T) {
	t.Parallel()
	d := rolling(10, "3", "2")
	d.Status.CollisionCount = new(int32(2))
	status := statusOf(see(d,
		with(replicaSet(d, 1, 8), func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = new(int32(2)) }),
		with(replicaSet(d, 2, 5), func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{ObservedGeneration: 1, Replicas: 4, ReadyReplicas: 3, AvailableReplicas: 1, TerminatingReplicas: new(int32(1))}
		}),
	))
	conditions := status.Conditions
	status.Conditions = nil
	assert.Equal(t, appsv1.DeploymentStatus{
		ObservedGeneration: 1, Replicas: 12, UpdatedReplicas: 4, ReadyReplicas: 11, AvailableReplicas: 9,
		UnavailableReplicas: 4, TerminatingReplicas: new(int32(3)), CollisionCount: new(int32(2)),
	}, status)
	assert.Len(t, conditions, 2)
}

func TestMorePodsThanWantedAreNotNegativelyUnavailable(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	assert.Zero(t, statusOf(see(d, having(replicaSet(d, 2, 2), 5))).UnavailableReplicas)
}

func TestTerminatingPodsAreUnknownWhenAReplicaSetDoesNotTell(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	silent := with(replicaSet(d, 1, 1), func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = nil })
	fresh := with(replicaSet(d, 3, 1), func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{} })
	assert.Nil(t, terminating([]*appsv1.ReplicaSet{silent, fresh}))
	assert.EqualValues(t, 0, *terminating([]*appsv1.ReplicaSet{fresh, replicaSet(d, 2, 1)}))
	assert.EqualValues(t, 0, *terminating(nil))
}

func TestAvailabilityIsMeasuredByTheMinimum(t *testing.T) {
	t.Parallel()
	for available, want := range map[int32]struct {
		status          corev1.ConditionStatus
		reason, message string
	}{
		8: {corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability."},
		7: {corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."},
	} {
		d := rolling(10, "3", "2")
		status := statusOf(see(d, having(replicaSet(d, 2, 10), available)))
		condition := findCondition(status, appsv1.DeploymentAvailable)
		assert.Equal(t, want.status, condition.Status)
		assert.Equal(t, want.reason, condition.Reason)
		assert.Equal(t, want.message, condition.Message)
	}
}

func TestAFinishedRolloutStaysFinished(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	status := rolloutStatus(see(d, replicaSet(d, 1, 0), replicaSet(d, 2, 4)))
	condition := findCondition(status, appsv1.DeploymentProgressing)
	assert.Equal(t, "NewReplicaSetAvailable", condition.Reason)
	assert.Equal(t, `ReplicaSet "web-v2" has successfully progressed.`, condition.Message)

	d.Status = status
	later := see(d, having(replicaSet(d, 2, 4), 1))
	later.now = noon.Add(time.Hour)
	p := decide(later)
	assert.Equal(t, condition, findCondition(p.status.Status, appsv1.DeploymentProgressing))
	assert.Zero(t, p.recheckAfter)

	d.Status = p.status.Status
	assertNothing(t, decide(later))
}

func TestASilentRolloutIsLookedAtWhenItsDeadlineHasPassed(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	seen := see(d, replicaSet(d, 1, 4), having(replicaSet(d, 2, 1), 0))
	d.Status = decide(seen).status.Status
	seen.now = noon.Add(3 * time.Minute)
	assert.Equal(t, plan{recheckAfter: 7*time.Minute + time.Second}, decide(seen))

	seen.now = seen.now.Add(7*time.Minute + time.Second)
	p := decide(seen)
	assert.Equal(t, reasonDeadlineExceeded, findCondition(p.status.Status, appsv1.DeploymentProgressing).Reason)
	d.Status = p.status.Status
	assertNothing(t, decide(seen)) // it is said once
}

func TestAStatusThatStaysIsNotWritten(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	seen := see(d, replicaSet(d, 1, 0), replicaSet(d, 2, 4))
	d.Status = decide(seen).status.Status
	assertNothing(t, decide(seen))
}

func TestTheOutcomeOfACreationIsWrittenDown(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	rs := newReplicaSet(see(d))
	after := afterCreation(d, rs, noon)
	assert.Equal(t, "1", after.Annotations[revisionAnnotation])
	condition := findCondition(after.Status, appsv1.DeploymentProgressing)
	before := findCondition(d.Status, appsv1.DeploymentProgressing)
	assert.Equal(t, reasonNewReplicaSet, before.Reason, "another was created before")
	assert.Equal(t, noon, condition.LastUpdateTime.Time, "the deadline is measured from this creation")
	assert.Equal(t, before.LastTransitionTime, condition.LastTransitionTime)

	d.Status.Conditions = nil
	condition = findCondition(afterCreation(d, rs, noon).Status, appsv1.DeploymentProgressing)
	assert.Equal(t, `Created new replica set "`+rs.Name+`"`, condition.Message)
	condition = findCondition(afterFailure(d, reasonCreateFailed, "no", noon).Status, appsv1.DeploymentProgressing)
	assert.Equal(t, newCondition(noon, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", "no"), *condition)

	d.Spec.ProgressDeadlineSeconds = nil
	assert.Nil(t, afterFailure(d, reasonCreateFailed, "no", noon))
	assert.NotNil(t, afterFailure(d, reasonTemplateChanged, "no", noon), "the next round goes by it")
	assert.Empty(t, afterCreation(d, rs, noon).Status.Conditions)
}
