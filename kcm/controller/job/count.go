package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// tally is what a Job's pods have come to.
type tally struct {
	// active may still succeed. terminating are being deleted, and may still run.
	active, terminating []*corev1.Pod
	// succeeded and failed are how many pods have, of all that there ever were:
	// those in the status's counters, those that wait there by UID, and those
	// that the status does not know of yet. Of an Indexed Job's pods succeeded
	// counts the indexes.
	succeeded, failed int
	// completed and failedIndexes are the indexes of an Indexed Job that have
	// succeeded, and that have failed for good.
	completed, failedIndexes indexes
	// due are the pods that have yet to be counted. What is written down stands: a
	// pod whose UID or whose completed index is in the status counts as that says,
	// whatever the pod shows by now.
	due sets.Set[types.UID]
	// replaced are, by index, the failed pods that wait for their replacement.
	// Only for a Job that counts per index.
	replaced map[int]*corev1.Pod
}

// count adds up. A pod without finalizer is in the status's counters, or was
// never to be counted.
func count(seen observed) tally {
	job, status := seen.job, seen.job.Status
	succeeded, failed := waiting(status)
	t := tally{
		succeeded: int(status.Succeeded) + len(succeeded),
		failed:    int(status.Failed) + len(failed),
		due:       sets.Set[types.UID]{},
	}
	if isIndexed(job) {
		t.completed = parseIndexes(status.CompletedIndexes, int(*job.Spec.Completions))
		t.failedIndexes = parseIndexes(ptr.Deref(status.FailedIndexes, ""), int(*job.Spec.Completions))
	}
	var completed, failedIndexes []int
	for _, pod := range seen.pods {
		switch {
		case controller.IsPodActive(pod):
			t.active = append(t.active, pod)
		case controller.IsPodTerminating(pod):
			t.terminating = append(t.terminating, pod)
		}
		index, ok := indexOf(job, pod)
		if !ok || !hasFinalizer(pod) || succeeded.Has(pod.UID) || failed.Has(pod.UID) || t.completed.has(index) {
			continue
		}
		t.due.Insert(pod.UID)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !t.failedIndexes.has(index):
			completed = append(completed, index)
			t.succeeded++
		case hasFailed(job, pod):
			if judge(job.Spec.PodFailurePolicy, pod).counts() {
				t.failed++
			}
			if countsPerIndex(job) && isLastTry(job, pod) {
				failedIndexes = append(failedIndexes, index)
			}
		}
	}
	if isIndexed(job) {
		t.completed = t.completed.union(indexesOf(completed...))
		t.succeeded = t.completed.len()
	}
	if countsPerIndex(job) {
		t.failedIndexes = t.failedIndexes.union(indexesOf(slices.DeleteFunc(failedIndexes, t.completed.has)...))
		t.replaced = toReplace(seen, t)
	}
	return t
}

// waiting returns the pods that wait in the status for their finalizer to go.
func waiting(status batchv1.JobStatus) (succeeded, failed sets.Set[types.UID]) {
	uncounted := status.UncountedTerminatedPods
	if uncounted == nil {
		return nil, nil
	}
	return sets.New(uncounted.Succeeded...), sets.New(uncounted.Failed...)
}
