package app

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// trimPod leaves of a pod where it is, whether it works, and how often its
// containers have restarted. What is to run there, its kubelet alone has to know.
// A loop that comes to read more has to keep it here.
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
		ContainerStatuses:     restarts(status.ContainerStatuses),
		InitContainerStatuses: restarts(status.InitContainerStatuses),
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget {
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
}

// restarts returns which containers have restarted, and how often.
func restarts(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var restarts []corev1.ContainerStatus
	for _, s := range statuses {
		if s.RestartCount > 0 {
			restarts = append(restarts, corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount})
		}
	}
	return restarts
}
