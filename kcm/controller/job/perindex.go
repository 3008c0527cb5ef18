package job

import (
	"math"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// countsPerIndex says that each index has a limit of its own
// (https://kep.k8s.io/3850). How often an index has failed stands nowhere but on
// its pods: each carries in an annotation what its predecessors had come to.
func countsPerIndex(job *batchv1.Job) bool { return job.Spec.BackoffLimitPerIndex != nil }

// annotated reads a count from a pod's annotation. What is no count is zero.
func annotated(pod *corev1.Pod, key string) int {
	n, err := strconv.Atoi(pod.Annotations[key])
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

// tries returns how many pods of the index had failed before this one.
func tries(pod *corev1.Pod) int {
	return annotated(pod, batchv1.JobIndexFailureCountAnnotation) + annotated(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// isLastTry tells whether with this pod, which has failed, its index has failed.
func isLastTry(job *batchv1.Job, pod *corev1.Pod) bool {
	judged := judge(job.Spec.PodFailurePolicy, pod)
	return judged.action == batchv1.PodFailurePolicyActionFailIndex ||
		judged.counts() && annotated(pod, batchv1.JobIndexFailureCountAnnotation) >= int(*job.Spec.BackoffLimitPerIndex)
}

// countTries writes into the pod that is to replace another what has failed
// before it.
func countTries(job *batchv1.Job, pod, replaced *corev1.Pod) {
	failed, ignored := 0, 0
	if replaced != nil {
		failed = annotated(replaced, batchv1.JobIndexFailureCountAnnotation)
		ignored = annotated(replaced, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if judge(job.Spec.PodFailurePolicy, replaced).counts() {
			failed++
		} else {
			ignored++
		}
	}
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(failed)
	if ignored > 0 {
		pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(ignored)
	}
}

// toReplace returns, for each index that has yet to succeed and that nothing
// runs for, the pod that has failed last. It keeps its finalizer until its
// replacement is seen, or the number of failures would go with it.
func toReplace(seen observed, t tally) map[int]*corev1.Pod {
	last := map[int]*corev1.Pod{}
	settled := indexesOf(indexesOfPods(seen.job, t.active)...).union(t.completed, t.failedIndexes)
	for _, pod := range seen.pods {
		index, ok := indexOf(seen.job, pod)
		if !ok || !hasFinalizer(pod) || !hasFailed(seen.job, pod) || settled.has(index) {
			continue
		}
		other := last[index]
		if other == nil || tries(pod) > tries(other) ||
			tries(pod) == tries(other) && !finishedAt(pod).Before(finishedAt(other)) {
			last[index] = pod
		}
	}
	return last
}

// indexesOfPods returns the indexes that pods run for.
func indexesOfPods(job *batchv1.Job, pods []*corev1.Pod) []int {
	var list []int
	for _, pod := range pods {
		if index, ok := indexOf(job, pod); ok {
			list = append(list, index)
		}
	}
	return list
}
