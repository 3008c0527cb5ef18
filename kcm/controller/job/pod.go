package job

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// hasFinalizer tells whether a pod has still to be counted, or to be let go of
// after it was.
func hasFinalizer(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

func isIndexed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

func isSuspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

// isFinished tells whether a Job is over. Nothing follows then but that its pods
// are let go of.
func isFinished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// isManagedElsewhere tells whether a Job is another controller's
// (https://kep.k8s.io/4368).
func isManagedElsewhere(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

// waitsForPhase says that a pod that is being deleted is neither counted nor
// replaced until its phase says how it has ended (https://kep.k8s.io/3939). A
// pod failure policy needs to know that, too.
func waitsForPhase(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed || job.Spec.PodFailurePolicy != nil
}

// hasFailed tells whether a pod counts as failed. One that is being deleted
// does: it may go without ever reaching the phase Failed.
func hasFailed(job *batchv1.Job, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed ||
		pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded && !waitsForPhase(job)
}

// indexOf returns the completion index that a pod runs for. It is not ok for a
// pod of an Indexed Job that has none below completions, and that counts for
// nothing. Pods of other Jobs all have index zero.
func indexOf(job *batchv1.Job, pod *corev1.Pod) (index int, ok bool) {
	if !isIndexed(job) {
		return 0, true
	}
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	return index, err == nil && 0 <= index && index < int(*job.Spec.Completions)
}

// finishedAt returns when a pod ended: when its last container did; failing that,
// when it ceased to be ready; when somebody asked for its deletion; when it was
// created.
func finishedAt(pod *corev1.Pod) time.Time {
	if at := lastContainerEnded(pod); !at.IsZero() {
		return at
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Add(-controller.Seconds(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)))
	}
	return pod.CreationTimestamp.Time
}

// lastContainerEnded returns when the last of a pod's containers and sidecars
// ended, or zero if one has not.
func lastContainerEnded(pod *corev1.Pod) time.Time {
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for _, status := range pod.Status.InitContainerStatuses {
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == status.Name && ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		}) {
			statuses = append(statuses, status)
		}
	}
	var last time.Time
	for _, status := range statuses {
		if status.State.Terminated == nil || status.State.Terminated.FinishedAt.IsZero() {
			return time.Time{}
		}
		if at := status.State.Terminated.FinishedAt.Time; at.After(last) {
			last = at
		}
	}
	return last
}

// filter returns the pods that keep says.
func filter(pods []*corev1.Pod, keep func(*corev1.Pod) bool) []*corev1.Pod {
	var kept []*corev1.Pod
	for _, pod := range pods {
		if keep(pod) {
			kept = append(kept, pod)
		}
	}
	return kept
}

// ready returns how many of the pods are ready.
func ready(pods []*corev1.Pod) int { return len(filter(pods, controller.IsPodReady)) }
