package job

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// refusesStatus says why an API server of 1.36 does not take a Job's status after
// the one that it has, or "". It goes by the Job's spec as it is stored, and asks
// for some things only when what they are about has changed: a user may have
// changed the spec meanwhile.
func refusesStatus(before, after *batchv1.Job) string {
	for refusal, is := range map[string]bool{
		"counts less than nothing":            lessThanNothing(after.Status),
		"a UID stands there twice":            standsTwice(after.Status.UncountedTerminatedPods),
		"its conditions contradict":           contradict(after.Status),
		"a condition was taken back":          takenBack(before.Status, after.Status),
		"a counter has fallen":                hasFallen(before, after),
		"it is over and not over":             isHalfOver(before.Status, after.Status),
		"its indexes are not those of a Job":  hasOddIndexes(before, after),
		"its times are not those of its life": hasOddTimes(before, after),
	} {
		if is {
			return refusal
		}
	}
	return ""
}

func lessThanNothing(status batchv1.JobStatus) bool {
	return min(status.Active, status.Succeeded, status.Failed, *status.Ready, *status.Terminating) < 0 || *status.Ready > status.Active
}

func standsTwice(uncounted *batchv1.UncountedTerminatedPods) bool {
	uids := append(append([]types.UID{}, uncounted.Succeeded...), uncounted.Failed...)
	return sets.New(uids...).Len() < len(uids) || sets.New(uids...).Has("")
}

func contradict(status batchv1.JobStatus) bool {
	failed, complete := isTrue(status, batchv1.JobFailed), isTrue(status, batchv1.JobComplete)
	fails, succeeds := isTrue(status, batchv1.JobFailureTarget), isTrue(status, batchv1.JobSuccessCriteriaMet)
	return fails && succeeds || failed && !fails || complete && !succeeds
}

func takenBack(before, after batchv1.JobStatus) bool {
	for _, c := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if isTrue(before, c) && !isTrue(after, c) {
			return true
		}
	}
	return false
}

// hasFallen allows for an Indexed Job that was scaled down, as long as it has
// parallelism for all of its indexes.
func hasFallen(before, after *batchv1.Job) bool {
	mayShrink := isIndexed(after) && *after.Spec.Completions == *after.Spec.Parallelism
	return after.Status.Failed < before.Status.Failed || !mayShrink && after.Status.Succeeded < before.Status.Succeeded
}

func isHalfOver(before, after batchv1.JobStatus) bool {
	uncounted := after.UncountedTerminatedPods
	left := int(after.Active+*after.Terminating) + len(uncounted.Succeeded) + len(uncounted.Failed)
	return isFinished(&batchv1.Job{Status: after}) && left > 0
}

func hasOddIndexes(before, after *batchv1.Job) bool {
	completed, failed := after.Status.CompletedIndexes, ptr.Deref(after.Status.FailedIndexes, "")
	if completed == before.Status.CompletedIndexes && failed == ptr.Deref(before.Status.FailedIndexes, "") {
		return false
	}
	n := int(*after.Spec.Completions)
	outside := parseIndexes(completed, 100).len() > parseIndexes(completed, n).len() || parseIndexes(failed, 100).len() > parseIndexes(failed, n).len()
	return outside || parseIndexes(completed, n).common(parseIndexes(failed, n)) > 0 ||
		completed != "" && !isIndexed(after) || after.Status.FailedIndexes != nil && !countsPerIndex(after)
}

func hasOddTimes(before, after *batchv1.Job) bool {
	was, start, end := before.Status.StartTime, after.Status.StartTime, after.Status.CompletionTime
	resumes := isTrue(before.Status, batchv1.JobSuspended) && !isTrue(after.Status, batchv1.JobSuspended)
	return was != nil && !was.Equal(start) && !isSuspended(after) && !resumes ||
		start == nil && isFinished(after) && !(isSuspended(after) && *after.Spec.Completions == 0) ||
		(end != nil) != isTrue(after.Status, batchv1.JobComplete) ||
		end != nil && start != nil && end.Before(start)
}
