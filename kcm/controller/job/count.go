package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

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
		switch {
		case !ok || !hasFinalizer(pod):
		case pod.Status.Phase == corev1.PodSucceeded && !failed.Has(pod.UID):
			completed = append(completed, index)
			if !succeeded.Has(pod.UID) {
				t.succeeded++
			}
		case hasFailed(job, pod):
			if !failed.Has(pod.UID) && judge(job.Spec.PodFailurePolicy, pod).counts() {
				t.failed++
			}
			if countsPerIndex(job) && isLastTry(job, pod) {
				failedIndexes = append(failedIndexes, index)
			}
		}
	}
	if isIndexed(job) {
		t.completed = parseIndexes(status.CompletedIndexes, int(*job.Spec.Completions)).union(indexesOf(completed...))
		t.succeeded = t.completed.len()
	}
	if countsPerIndex(job) {
		t.failedIndexes = failedBefore(job).union(indexesOf(failedIndexes...))
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

// failedBefore returns the failed indexes of the status.
func failedBefore(job *batchv1.Job) indexes {
	if job.Status.FailedIndexes == nil {
		return nil
	}
	return parseIndexes(*job.Status.FailedIndexes, int(*job.Spec.Completions))
}
