package controller

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// PodState keeps where a pod is, whether it works or why not, and which of its
// containers have begun, how often they have restarted and how they have ended.
var PodState = KeepOf(func(kept, whole *corev1.Pod) {
	kept.Spec.NodeName = whole.Spec.NodeName
	for _, c := range whole.Spec.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			kept.Spec.InitContainers = append(kept.Spec.InitContainers, corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy})
		}
	}
	status := whole.Status
	kept.Status = corev1.PodStatus{
		Phase:                 status.Phase,
		Reason:                status.Reason,
		Message:               status.Message,
		ContainerStatuses:     begun(status.Phase, status.ContainerStatuses),
		InitContainerStatuses: begun(status.Phase, status.InitContainerStatuses),
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget {
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
})

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

// DisruptionTarget returns the condition by which a Job can tell a pod that is deleted through no
// fault of its own from one that has to be counted against it (https://kep.k8s.io/3329). If
// the pod has the condition already, its lastTransitionTime is kept.
func DisruptionTarget(pod *corev1.Pod, reason, message string) corev1.PodCondition {
	condition := corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.Now(),
		Reason:             reason,
		Message:            message,
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == condition.Type && c.Status == condition.Status {
			condition.LastTransitionTime = c.LastTransitionTime
		}
	}
	return condition
}

// PatchPodStatus writes what status says, and leaves all else as it is, also conditions of other
// types. The UID in the patch keeps it from another pod of the name: see [IsGone].
func PatchPodStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "status")
	return err
}

// begun returns how often which containers have restarted, and which have begun,
// unless the phase of their pod says that.
func begun(phase corev1.PodPhase, statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var begun []corev1.ContainerStatus
	for _, s := range statuses {
		kept := corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount}
		switch {
		case s.RestartCount == 0 && phase == corev1.PodRunning:
			continue
		case s.State.Running != nil:
			kept.State.Running = &corev1.ContainerStateRunning{}
		case s.State.Terminated != nil:
			end := s.State.Terminated
			kept.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: end.ExitCode, FinishedAt: end.FinishedAt}
		case s.LastTerminationState.Terminated != nil:
			kept.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
		case s.RestartCount == 0:
			continue
		}
		begun = append(begun, kept)
	}
	return begun
}
