package job

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// done is what became of a plan.
type done struct {
	created, deleted, deletedReady int
}

// startTime returns since when the Job has been active.
func startTime(seen observed) time.Time {
	if at := seen.job.Status.StartTime; at != nil {
		return at.Time
	}
	return seen.now
}

// decideStatus returns the status that tells how things are now that the plan was
// carried out, apart from what account and finish write.
func decideStatus(seen observed, t tally, p plan, d done) batchv1.JobStatus {
	status := *seen.job.Status.DeepCopy()
	status.Active = int32(len(t.active) + d.created - d.deleted)
	status.Ready = ptr.To(int32(ready(t.active) - d.deletedReady))
	status.Terminating = ptr.To(int32(len(t.terminating) + d.deleted))
	if status.StartTime == nil && !isSuspended(seen.job) {
		status.StartTime = &metav1.Time{Time: seen.now}
	}
	switch {
	case p.verdict != nil:
		setCondition(&status, p.verdict.condition, corev1.ConditionTrue, p.verdict.reason, p.verdict.message, seen.now)
	case !seen.mayAct || seen.job.DeletionTimestamp != nil:
	case isSuspended(seen.job):
		if setCondition(&status, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", seen.now) && seen.resetsStart {
			status.StartTime = nil
		}
	case isTrue(status, batchv1.JobSuspended):
		setCondition(&status, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", seen.now)
		status.StartTime = &metav1.Time{Time: seen.now}
	}
	return status
}

// finish ends the Job if there is a verdict and nothing to wait for: no pod that
// has its finalizer, none that has to be counted, and none that may still run. The
// API server wants it to have started, and not after its end: it may be suspended,
// or a process whose clock was ahead wrote when it started.
func finish(status *batchv1.JobStatus, v *verdict, left int, now time.Time) {
	uncounted := status.UncountedTerminatedPods
	left += len(uncounted.Succeeded) + len(uncounted.Failed) + int(*status.Terminating)
	if v == nil || left > 0 {
		return
	}
	setCondition(status, v.end(), corev1.ConditionTrue, v.reason, v.message, now)
	at := &metav1.Time{Time: now}
	if status.StartTime = cmp.Or(status.StartTime, at); at.Before(status.StartTime) {
		at = status.StartTime
	}
	if !v.failed() {
		status.CompletionTime = at
	}
}

func isTrue(status batchv1.JobStatus, condition batchv1.JobConditionType) bool {
	return slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

// setCondition adds or changes a condition, and tells whether it was another one
// before.
func setCondition(
	status *batchv1.JobStatus,
	condition batchv1.JobConditionType,
	value corev1.ConditionStatus,
	reason, message string,
	now time.Time,
) bool {
	wanted := batchv1.JobCondition{
		Type: condition, Status: value, Reason: reason, Message: message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	at := slices.IndexFunc(status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == condition })
	if at < 0 {
		status.Conditions = append(status.Conditions, wanted)
		return true
	}
	if c := status.Conditions[at]; c.Status == value && c.Reason == reason && c.Message == message {
		return false
	}
	status.Conditions[at] = wanted
	return true
}
