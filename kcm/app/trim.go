package app

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// trim drops from an object what no loop reads, before it is cached. The object
// is still the informer's alone, so it is changed in place, and a second time
// changes nothing.
func trim(obj any) (any, error) {
	trimManagedFields(obj)
	trimSecret(obj)
	trimPod(obj)
	return obj, nil
}

// trimManagedFields drops what is often the larger part of an object.
func trimManagedFields(obj any) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
}

// trimSecret leaves nothing secret of what is no token.
func trimSecret(obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Type == corev1.SecretTypeServiceAccountToken || secret.Type == corev1.SecretTypeBootstrapToken {
		return
	}
	secret.Data = nil
}

// trimPod leaves of a pod where it is, whether it works or why not, and which of
// its containers have begun, how often they have restarted, and how and when they
// have ended. Of a Job's pod it leaves all conditions, since the Job's pod failure
// policy may be about any. What is to run
// there, its kubelet alone has to know. A loop that comes to read more has to keep
// it here.
func trimPod(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	spec, status := pod.Spec, pod.Status
	pod.Spec = corev1.PodSpec{NodeName: spec.NodeName}
	for _, c := range spec.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy})
		}
	}
	pod.Status = corev1.PodStatus{
		Phase:                 status.Phase,
		Reason:                status.Reason,
		Message:               status.Message,
		ContainerStatuses:     begun(status.Phase, status.ContainerStatuses),
		InitContainerStatuses: begun(status.Phase, status.InitContainerStatuses),
	}
	for _, c := range status.Conditions {
		if ofJob(pod) || c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget {
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
}

// ofJob tells whether a pod belongs to a Job, or did and is not counted yet.
func ofJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "Job" || slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
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
