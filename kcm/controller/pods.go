package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// IsPodActive tells whether a pod runs or may still come to run: it has not
// finished and nobody has asked for its deletion. Loops that keep a number of
// pods count these.
func IsPodActive(pod *corev1.Pod) bool {
	return !isPodFinished(pod) && pod.DeletionTimestamp == nil
}

// IsPodTerminating tells whether a pod's deletion was asked for and its
// containers may still be running. A pod that has finished and waits only for
// a finalizer does not count.
func IsPodTerminating(pod *corev1.Pod) bool {
	return !isPodFinished(pod) && pod.DeletionTimestamp != nil
}

// isPodFinished tells whether all containers have ended, never to start again.
func isPodFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsPodReady tells whether the pod's Ready condition is true.
func IsPodReady(pod *corev1.Pod) bool {
	_, ready := PodReadySince(pod)
	return ready
}

// PodReadySince returns since when the pod has been ready, and whether it is.
// The time is zero when the condition does not give one.
func PodReadySince(pod *corev1.Pod) (time.Time, bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time, condition.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// IsPodAvailable tells whether the pod has been ready for minReadySeconds. With
// zero seconds, ready is enough.
func IsPodAvailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	since, ready := PodReadySince(pod)
	if !ready || minReadySeconds == 0 {
		return ready
	}
	at := since.Add(time.Duration(minReadySeconds) * time.Second)
	return !since.IsZero() && !at.After(now)
}
