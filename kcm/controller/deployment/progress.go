package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// hasProgressDeadline tells whether a rollout may be found to take too long.
func hasProgressDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

func progressDeadline(d *appsv1.Deployment) time.Duration {
	return time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second
}

// notePause returns the deployment with a note that it was paused or resumed,
// or nil if there is nothing to note. The time of a pause must not count
// against the deadline; writing down that the pause is over starts the clock
// anew. A rollout that had run out of time by then has.
func notePause(seen observed) *appsv1.Deployment {
	d := seen.deployment
	current := findCondition(d.Status, appsv1.DeploymentProgressing)
	noted := current != nil && current.Reason == reasonPaused
	timedOut := current != nil && current.Reason == reasonDeadlineExceeded
	if d.DeletionTimestamp != nil || !hasProgressDeadline(d) || timedOut || noted == d.Spec.Paused {
		return nil
	}
	reason, message := reasonResumed, "Deployment is resumed"
	if d.Spec.Paused {
		reason, message = reasonPaused, "Deployment is paused"
	}
	status := *d.Status.DeepCopy()
	setCondition(&status,
		newCondition(seen.now, appsv1.DeploymentProgressing, corev1.ConditionUnknown, reason, message))
	return rewritten(d, status, d.Annotations[revisionAnnotation])
}

// withRolloutStatus adds to a plan the status, with what can be said about
// the progress of the rollout. When there is nothing new to say, silence is
// what the deadline is about, so the plan is to look again when it has passed.
func (p plan) withRolloutStatus(seen observed) plan {
	status := rolloutStatus(seen)
	p = p.withStatus(seen, status)
	if p.status == nil {
		p.recheckAfter = untilDeadline(seen, status)
	}
	return p
}

// rolloutStatus is statusOf with the Progressing and ReplicaFailure
// conditions brought up to date.
func rolloutStatus(seen observed) appsv1.DeploymentStatus {
	d, status := seen.deployment, statusOf(seen)
	before := findCondition(d.Status, appsv1.DeploymentProgressing)
	// Once finished, a rollout stays so: pods that come and go later are
	// neither progress nor a lack of it.
	finished := before != nil && before.Reason == reasonRolledOut && status.Replicas == status.UpdatedReplicas
	switch {
	case !hasProgressDeadline(d):
		removeCondition(&status, appsv1.DeploymentProgressing)
	case finished:
	case complete(d, status):
		setCondition(&status, progressing(seen, corev1.ConditionTrue, reasonRolledOut, "has successfully progressed."))
	case progressed(d.Status, status):
		// Replaced even if it says the same, for the sake of its time.
		condition := progressing(seen, corev1.ConditionTrue, reasonReplicaSetUpdated, "is progressing.")
		if before != nil && before.Status == corev1.ConditionTrue {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		replaceCondition(&status, condition)
	case timedOut(d, before, seen.now):
		setCondition(&status, progressing(seen, corev1.ConditionFalse, reasonDeadlineExceeded,
			"has timed out progressing."))
	}
	if failure := replicaFailure(seen); failure != nil {
		setCondition(&status, *failure)
	} else {
		removeCondition(&status, appsv1.DeploymentReplicaFailure)
	}
	return status
}

// progressing returns a Progressing condition that speaks of the new
// ReplicaSet, or of the deployment while there is none.
func progressing(seen observed, status corev1.ConditionStatus, reason, what string) appsv1.DeploymentCondition {
	who := fmt.Sprintf("Deployment %q", seen.deployment.Name)
	if seen.newRS != nil {
		who = fmt.Sprintf("ReplicaSet %q", seen.newRS.Name)
	}
	return newCondition(seen.now, appsv1.DeploymentProgressing, status, reason, who+" "+what)
}

// progressed tells whether a rollout is closer to its end now than it was
// before.
func progressed(before, now appsv1.DeploymentStatus) bool {
	return now.UpdatedReplicas > before.UpdatedReplicas ||
		now.Replicas-now.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		now.ReadyReplicas > before.ReadyReplicas ||
		now.AvailableReplicas > before.AvailableReplicas
}

// timedOut tells whether a rollout with a deadline has been silent for longer
// than that, and that has not been reported yet. It is given the Progressing
// condition, or nil if there is none.
func timedOut(d *appsv1.Deployment, progressing *appsv1.DeploymentCondition, now time.Time) bool {
	if progressing == nil || progressing.Reason == reasonRolledOut || progressing.Reason == reasonDeadlineExceeded {
		return false
	}
	return progressing.LastUpdateTime.Add(progressDeadline(d)).Before(now)
}

// untilDeadline returns how long to wait until the rollout has timed out if
// nothing happens, or zero if time alone cannot bring that about. By then
// timedOut says so, whatever was cut off the times that are stored.
func untilDeadline(seen observed, status appsv1.DeploymentStatus) time.Duration {
	d := seen.deployment
	last := findCondition(d.Status, appsv1.DeploymentProgressing)
	if !hasProgressDeadline(d) || last == nil || complete(d, status) ||
		last.Reason == reasonDeadlineExceeded || last.Reason == reasonRolledOut {
		return 0
	}
	// Times are stored in whole seconds, so the deadline may seem to be up to a
	// second nearer than it is (https://github.com/kubernetes/kubernetes/issues/39785).
	return last.LastUpdateTime.Add(progressDeadline(d)).Sub(seen.now) + time.Second
}

// replicaFailure returns why pods cannot be created or deleted, if a
// ReplicaSet says so. The new one has precedence.
func replicaFailure(seen observed) *appsv1.DeploymentCondition {
	all := seen.all()
	if seen.newRS != nil {
		all = slices.Insert(all, 0, seen.newRS)
	}
	for _, rs := range all {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return &appsv1.DeploymentCondition{
					Type:               appsv1.DeploymentReplicaFailure,
					Status:             c.Status,
					Reason:             c.Reason,
					Message:            c.Message,
					LastUpdateTime:     c.LastTransitionTime,
					LastTransitionTime: c.LastTransitionTime,
				}
			}
		}
	}
	return nil
}
