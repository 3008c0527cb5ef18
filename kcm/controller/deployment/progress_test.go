package deployment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods returns the part of a status that tells of pods.
func pods(old, updated, ready, available int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{Replicas: old + updated, UpdatedReplicas: updated, ReadyReplicas: ready, AvailableReplicas: available}
}

func podsIn(status appsv1.DeploymentStatus) string {
	return fmt.Sprintf("%d old pods, %d new, %d ready, %d available",
		status.Replicas-status.UpdatedReplicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas)
}

func TestASignOfProgress(t *testing.T) {
	t.Parallel()
	before := pods(8, 5, 10, 9)
	for _, tt := range []struct {
		behaviour string
		now       appsv1.DeploymentStatus
		want      bool
	}{
		{"a new pod is progress", pods(8, 6, 10, 9), true},
		{"an old pod that is gone is progress", pods(7, 5, 10, 9), true},
		{"a pod that becomes ready is progress", pods(8, 5, 11, 9), true},
		{"a pod that becomes available is progress", pods(8, 5, 10, 10), true},
		{"a pod that starts is progress though another one fails", pods(8, 6, 9, 8), true},
		{"the same once more is no progress", pods(8, 5, 10, 9), false},
		{"a pod that is ready no longer is no progress", pods(8, 5, 9, 8), false},
		{"a new pod that is lost is no progress", pods(8, 4, 9, 8), false},
		{"an old pod that comes back is no progress", pods(9, 5, 10, 9), false},
		{"a new pod that turns out to be an old one is no progress", pods(9, 4, 10, 9), false},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			text := map[bool]string{true: "that is progress", false: "that is no progress"}
			assert.Equal(t, text[tt.want], text[progressed(before, tt.now)], "%s, then %s", podsIn(before), podsIn(tt.now))
		})
	}
}

// lastSaid is a deployment with a deadline of ten minutes whose Progressing
// condition was written and became what it is so long ago.
func lastSaid(reason string, updated, transitioned time.Duration) *appsv1.Deployment {
	d := rolling(4, "1", "0")
	condition := newCondition(noon.Add(-updated), appsv1.DeploymentProgressing, corev1.ConditionTrue, reason, "before")
	if reason == reasonDeadlineExceeded {
		condition.Status = corev1.ConditionFalse
	}
	condition.LastTransitionTime = metav1.NewTime(noon.Add(-transitioned))
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{condition}}
	return d
}

func lastWords(d *appsv1.Deployment) string {
	c := findCondition(d.Status, appsv1.DeploymentProgressing)
	if c == nil {
		return "nothing was said about progress"
	}
	return fmt.Sprintf("%s, said %s ago, Progressing=%s for %s; deadline 10m0s", c.Reason, noon.Sub(c.LastUpdateTime.Time), c.Status, noon.Sub(c.LastTransitionTime.Time))
}

func TestSilence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour string
		d         *appsv1.Deployment
		want      string
	}{
		{"silence longer than the deadline is too long", lastSaid(reasonReplicaSetUpdated, 601*time.Second, time.Hour), "timed out"},
		{"silence within the deadline is not", lastSaid(reasonReplicaSetUpdated, 9*time.Minute, 9*time.Minute), "not timed out"},
		{"at the deadline itself there is still time", lastSaid(reasonReplicaSetUpdated, 10*time.Minute, 10*time.Minute), "not timed out"},
		{"the clock runs from the last sign of progress and not from the first", lastSaid(reasonReplicaSetUpdated, time.Minute, time.Hour), "not timed out"},
		{"the creation of the ReplicaSet starts the clock", lastSaid(reasonNewReplicaSet, 11*time.Minute, 11*time.Minute), "timed out"},
		{"the end of a pause starts the clock", lastSaid(reasonResumed, time.Minute, time.Minute), "not timed out"},
		{"the end of the rollout before is no sign of this one", lastSaid(reasonRolledOut, time.Hour, time.Hour), "not timed out"},
		{"what has timed out does not time out again", lastSaid(reasonDeadlineExceeded, time.Hour, time.Hour), "not timed out"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			text := map[bool]string{true: "timed out", false: "not timed out"}
			assert.Equal(t, tt.want, text[timedOut(tt.d, findCondition(tt.d.Status, appsv1.DeploymentProgressing), noon)], lastWords(tt.d))
		})
	}
	t.Run("without any sign there is nothing to measure from", func(t *testing.T) {
		t.Parallel()
		assert.False(t, timedOut(rolling(4, "1", "0"), nil, noon), "nothing was said about progress, and it timed out")
	})
}

func TestASilentRolloutIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	underWay, done := pods(4, 1, 4, 4), pods(0, 4, 4, 4)
	done.ObservedGeneration = 1
	for _, tt := range []struct {
		behaviour string
		d         *appsv1.Deployment
		status    appsv1.DeploymentStatus
		want      time.Duration
	}{
		{"a silent rollout is looked at a second after its deadline", lastSaid(reasonReplicaSetUpdated, 3*time.Minute, time.Hour), underWay, 7*time.Minute + time.Second},
		{"right after a sign of progress the whole deadline is left", lastSaid(reasonReplicaSetUpdated, 0, time.Hour), underWay, 10*time.Minute + time.Second},
		{"one that has timed out is not looked at again", lastSaid(reasonDeadlineExceeded, time.Minute, time.Hour), underWay, 0},
		{"one that has ended is not looked at again", lastSaid(reasonRolledOut, time.Minute, time.Hour), underWay, 0},
		{"one that ends now is not looked at again", lastSaid(reasonReplicaSetUpdated, time.Minute, time.Hour), done, 0},
		{"where nothing was said nothing is waited for", given(rolling(4, "1", "0"), func(d *appsv1.Deployment) { d.Status.Conditions = nil }), underWay, 0},
		{"without a deadline nothing is waited for", given(lastSaid(reasonReplicaSetUpdated, time.Minute, time.Hour), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }), underWay, 0},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			look := func(after time.Duration) string {
				if after == 0 {
					return "do not look again"
				}
				return "look again in " + after.String()
			}
			tt.status.Conditions = tt.d.Status.Conditions
			assert.Equal(t, look(tt.want), look(untilDeadline(observed{deployment: tt.d, now: noon}, tt.status)), "%s; %s", lastWords(tt.d), podsIn(tt.status))
		})
	}
}

// given changes a deployment for a test.
func given(d *appsv1.Deployment, change func(*appsv1.Deployment)) *appsv1.Deployment {
	change(d)
	return d
}

func TestProgressing(t *testing.T) {
	t.Parallel()
	// Four replicas; what the status said before, and what the ReplicaSets say now.
	silence := pods(4, 1, 4, 4)
	for _, tt := range []struct {
		behaviour string
		d         *appsv1.Deployment
		was       appsv1.DeploymentStatus
		sets      []set
		want      string
	}{
		{"a new pod is told of as progress", lastSaid(reasonNewReplicaSet, time.Minute, time.Minute), pods(4, 0, 4, 4), []set{{1, 4, 4}, {2, 1, 0}},
			`True ReplicaSetUpdated, ReplicaSet "web-v2" is progressing., said now, so for 1m0s`},
		{"progress that is told of again has a new time", lastSaid(reasonReplicaSetUpdated, time.Minute, time.Hour), pods(4, 0, 4, 4), []set{{1, 4, 4}, {2, 1, 0}},
			`True ReplicaSetUpdated, ReplicaSet "web-v2" is progressing., said now, so for 1h0m0s`},
		{"before there is a new ReplicaSet the deployment is spoken of", lastSaid(reasonReplicaSetUpdated, time.Minute, time.Minute), pods(5, 0, 4, 4), []set{{1, 4, 4}},
			`True ReplicaSetUpdated, Deployment "web" is progressing., said now, so for 1m0s`},
		{"in silence the last word stays", lastSaid(reasonReplicaSetUpdated, time.Minute, time.Minute), silence, []set{{1, 4, 4}, {2, 1, 0}},
			`True ReplicaSetUpdated, before, said 1m0s ago, so for 1m0s`},
		{"silence that is too long is told of", lastSaid(reasonReplicaSetUpdated, 601*time.Second, time.Hour), silence, []set{{1, 4, 4}, {2, 1, 0}},
			`False ProgressDeadlineExceeded, ReplicaSet "web-v2" has timed out progressing., said now, so for 0s`},
		{"it is told of once", lastSaid(reasonDeadlineExceeded, time.Minute, time.Minute), silence, []set{{1, 4, 4}, {2, 1, 0}},
			`False ProgressDeadlineExceeded, before, said 1m0s ago, so for 1m0s`},
		{"progress that comes too late is progress", lastSaid(reasonReplicaSetUpdated, 601*time.Second, time.Hour), pods(4, 0, 4, 4), []set{{1, 4, 4}, {2, 1, 0}},
			`True ReplicaSetUpdated, ReplicaSet "web-v2" is progressing., said now, so for 1h0m0s`},
		{"progress after the deadline was told of takes that back", lastSaid(reasonDeadlineExceeded, time.Minute, time.Minute), pods(4, 0, 4, 4), []set{{1, 4, 4}, {2, 1, 0}},
			`True ReplicaSetUpdated, ReplicaSet "web-v2" is progressing., said now, so for 0s`},
		{"the end is told of", lastSaid(reasonReplicaSetUpdated, time.Minute, time.Hour), pods(1, 4, 5, 4), []set{{1, 0, 0}, {2, 4, 4}},
			`True NewReplicaSetAvailable, ReplicaSet "web-v2" has successfully progressed., said now, so for 1h0m0s`},
		{"the end is told of though it comes too late", lastSaid(reasonReplicaSetUpdated, time.Hour, time.Hour), pods(0, 4, 4, 4), []set{{1, 0, 0}, {2, 4, 4}},
			`True NewReplicaSetAvailable, ReplicaSet "web-v2" has successfully progressed., said now, so for 1h0m0s`},
		{"a pod that is lost after the end is no lack of progress", lastSaid(reasonRolledOut, time.Hour, time.Hour), pods(0, 4, 4, 4), []set{{1, 0, 0}, {2, 4, 3}},
			`True NewReplicaSetAvailable, before, said 1h0m0s ago, so for 1h0m0s`},
		{"one that comes back after the end is no progress", lastSaid(reasonRolledOut, time.Hour, time.Hour), pods(0, 4, 2, 2), []set{{1, 0, 0}, {2, 4, 3}},
			`True NewReplicaSetAvailable, before, said 1h0m0s ago, so for 1h0m0s`},
		{"another version ends the end", lastSaid(reasonRolledOut, time.Hour, time.Hour), pods(4, 0, 4, 4), []set{{1, 4, 4}, {2, 1, 0}},
			`True ReplicaSetUpdated, ReplicaSet "web-v2" is progressing., said now, so for 1h0m0s`},
		{"without a deadline nothing is said, and what was said goes", given(lastSaid(reasonReplicaSetUpdated, time.Minute, time.Hour), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(1<<31 - 1)) }),
			pods(4, 0, 4, 4), []set{{1, 4, 4}, {2, 1, 0}}, "nothing is said"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			situation := fmt.Sprintf("before: %s; %s; now: %v as version, size, available", podsIn(tt.was), lastWords(tt.d), tt.sets)
			tt.was.ObservedGeneration, tt.was.Conditions = 1, tt.d.Status.Conditions
			tt.d.Status = tt.was
			var replicaSets []*appsv1.ReplicaSet
			for _, s := range tt.sets {
				replicaSets = append(replicaSets, having(replicaSet(tt.d, int(s.version), s.size), s.available))
			}
			assert.Equal(t, tt.want, said(rolloutStatus(see(tt.d, replicaSets...))), situation)
		})
	}
}

// said tells what a status says about progress.
func said(status appsv1.DeploymentStatus) string {
	c := findCondition(status, appsv1.DeploymentProgressing)
	if c == nil {
		return "nothing is said"
	}
	when := noon.Sub(c.LastUpdateTime.Time).String() + " ago"
	if c.LastUpdateTime.Time.Equal(noon) {
		when = "now"
	}
	return fmt.Sprintf("%s %s, %s, said %s, so for %s", c.Status, c.Reason, c.Message, when, noon.Sub(c.LastTransitionTime.Time))
}

func TestAFailureOfAReplicaSet(t *testing.T) {
	t.Parallel()
	failing := func(seen observed, index int, message string) observed {
		seen.all()[index].Status.Conditions = []appsv1.ReplicaSetCondition{{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Second)),
		}}
		return seen
	}
	failure := func(status appsv1.DeploymentStatus) string {
		c := findCondition(status, appsv1.DeploymentReplicaFailure)
		if c == nil {
			return "no failure"
		}
		return fmt.Sprintf("%s %s: %s, for %s", c.Status, c.Reason, c.Message, noon.Sub(c.LastTransitionTime.Time))
	}
	seen := func() observed { return rollout(4, "1", "0", set{1, 3, 3}, set{2, 1, 0}) }
	t.Run("a failure of a ReplicaSet is one of the deployment", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "True FailedCreate: no room for old pods, for 1s", failure(rolloutStatus(failing(seen(), 0, "no room for old pods"))))
	})
	t.Run("that of the new one has precedence", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "True FailedCreate: no room for new pods, for 1s",
			failure(rolloutStatus(failing(failing(seen(), 0, "no room for old pods"), 1, "no room for new pods"))))
	})
	t.Run("a failure that is over is told of no longer", func(t *testing.T) {
		t.Parallel()
		now := seen()
		now.deployment.Status = rolloutStatus(failing(seen(), 0, "no room for old pods"))
		assert.Equal(t, "no failure", failure(rolloutStatus(now)))
	})
	t.Run("without a deadline failures are told of all the same", func(t *testing.T) {
		t.Parallel()
		now := failing(seen(), 0, "no room for old pods")
		now.deployment.Spec.ProgressDeadlineSeconds = nil
		assert.Equal(t, "True FailedCreate: no room for old pods, for 1s", failure(rolloutStatus(now)))
	})
}
