package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// account prepares the first write of counting. It settles the status, writes
// into it what must not be forgotten of the pods that have ended, and returns the
// pods whose finalizers may go once the status is stored. v is how the Job is to
// end, or nil.
func account(seen observed, t tally, v *verdict, status *batchv1.JobStatus) (release []*corev1.Pod) {
	job := seen.job
	settle(status, tracked(seen.pods))
	uncounted := status.UncountedTerminatedPods
	for _, pod := range accountable(seen, t, v) {
		switch {
		case !t.due.Has(pod.UID):
		case pod.Status.Phase == corev1.PodSucceeded && !isIndexed(job):
			uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
		case pod.Status.Phase == corev1.PodSucceeded:
		case (hasFailed(job, pod) || v.failed()) && judge(job.Spec.PodFailurePolicy, pod).counts():
			uncounted.Failed = append(uncounted.Failed, pod.UID)
		}
		release = append(release, pod)
	}
	if isIndexed(job) {
		status.Succeeded, status.CompletedIndexes = countIndexed(job, t), t.completed.String()
	}
	if countsPerIndex(job) {
		status.FailedIndexes = new(t.failedIndexes.String())
	}
	return release
}

// countIndexed returns the counter of an Indexed Job: how many indexes are
// completed. In one that was scaled down it falls, and that the API server takes
// only while all indexes may run at once. Otherwise the counter stays.
func countIndexed(job *batchv1.Job, t tally) int32 {
	if *job.Spec.Completions == *job.Spec.Parallelism {
		return int32(t.succeeded)
	}
	return max(job.Status.Succeeded, int32(t.succeeded))
}

// accountable returns the pods whose finalizer may go: those that have ended, and
// all of a Job that ends or is deleted; not yet those that wait for their
// replacement or for the verdict that they are the reason of. Of too many it
// returns first those that the status knows already, so that never more than
// Burst UIDs stand there.
func accountable(seen observed, t tally, v *verdict) []*corev1.Pod {
	succeeded, failed := waiting(seen.job.Status)
	var known, others []*corev1.Pod
	for _, pod := range seen.pods {
		index, _ := indexOf(seen.job, pod)
		all := v != nil || seen.job.DeletionTimestamp != nil
		failsJob := t.due.Has(pod.UID) && judge(seen.job.Spec.PodFailurePolicy, pod).failsJob()
		switch {
		case !hasFinalizer(pod) || !all && t.replaced[index] == pod:
		case succeeded.Has(pod.UID) || failed.Has(pod.UID):
			known = append(known, pod)
		case all || pod.Status.Phase == corev1.PodSucceeded || hasFailed(seen.job, pod) && !failsJob:
			others = append(others, pod)
		}
	}
	pods := append(known, others...)
	return pods[:min(len(pods), Burst)]
}

// tracked returns the pods that still have their finalizers.
func tracked(pods []*corev1.Pod) sets.Set[types.UID] {
	tracked := sets.Set[types.UID]{}
	for _, pod := range filter(pods, hasFinalizer) {
		tracked.Insert(pod.UID)
	}
	return tracked
}

// settle prepares the third write of counting: it moves into the counters what may
// go there of the lists of UIDs. tracked are the pods that still have their
// finalizers. Whoever reads the status finds a pod in one of the two places and
// never in both. The lists that the status came with are the caller's, and stay as
// they are.
func settle(status *batchv1.JobStatus, tracked sets.Set[types.UID]) {
	uncounted := &batchv1.UncountedTerminatedPods{}
	if status.UncountedTerminatedPods != nil {
		*uncounted = *status.UncountedTerminatedPods
	}
	move := func(uids []types.UID, counter *int32) []types.UID {
		left := slices.DeleteFunc(slices.Clone(uids), func(uid types.UID) bool { return !tracked.Has(uid) })
		*counter += int32(len(uids) - len(left))
		return left
	}
	uncounted.Succeeded = move(uncounted.Succeeded, &status.Succeeded)
	uncounted.Failed = move(uncounted.Failed, &status.Failed)
	status.UncountedTerminatedPods = uncounted
}
