package app

//lint:file-ignore SA1019 Endpoints are deprecated, and this keeps what loops read of them.

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller/resourcequota"
)

// trim drops from an object what no loop reads, before it is cached. The object
// is still the informer's alone, so it is changed in place, and a second time
// changes nothing.
func trim(obj any) (any, error) {
	trimManagedFields(obj)
	trimSecret(obj)
	trimPod(obj)
	trimNode(obj)
	return obj, nil
}

// trimManagedFields drops what is often the larger part of an object, but of those
// from which a loop has to tell what it has written itself, or when others have
// written.
func trimManagedFields(obj any) {
	switch obj.(type) {
	case *corev1.Endpoints, *discoveryv1.EndpointSlice, *batchv1.CronJob:
		return
	}
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

// trimPod leaves of a pod what loops read. What is to run there, its kubelet alone
// has to know. A loop that comes to read more has to keep it here.
func trimPod(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	whole := *pod
	pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
	keepState(pod, &whole)
	keepAddresses(pod, &whole)
	resourcequota.KeepCharge(pod, &whole)
	keepPlace(pod, &whole)
	keepConditions(pod, &whole)
}

// keepState keeps where a pod is, whether it works or why not, and which of its
// containers have begun, how often they have restarted and how they have ended.
func keepState(pod, whole *corev1.Pod) {
	pod.Spec.NodeName = whole.Spec.NodeName
	for _, c := range whole.Spec.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy})
		}
	}
	status := whole.Status
	pod.Status = corev1.PodStatus{
		Phase:                 status.Phase,
		Reason:                status.Reason,
		Message:               status.Message,
		ContainerStatuses:     begun(status.Phase, status.ContainerStatuses),
		InitContainerStatuses: begun(status.Phase, status.InitContainerStatuses),
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget {
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
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

// keepAddresses keeps under which addresses, names and ports a pod is reached.
func keepAddresses(pod, whole *corev1.Pod) {
	pod.Spec.Hostname, pod.Spec.Subdomain = whole.Spec.Hostname, whole.Spec.Subdomain
	pod.Status.PodIP, pod.Status.PodIPs = whole.Status.PodIP, whole.Status.PodIPs
	for _, c := range whole.Spec.Containers {
		if ports := named(c.Ports); ports != nil {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Ports: ports})
		}
	}
	sidecars := pod.Spec.InitContainers
	for i := range sidecars {
		from := slices.IndexFunc(whole.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == sidecars[i].Name })
		sidecars[i].Ports = named(whole.Spec.InitContainers[from].Ports)
	}
}

// named returns the ports that have a name: a Service may ask for them by it.
func named(ports []corev1.ContainerPort) []corev1.ContainerPort {
	var named []corev1.ContainerPort
	for _, p := range ports {
		if p.Name != "" {
			named = append(named, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
		}
	}
	return named
}

// keepPlace keeps of a pod that is not bound yet the node that it is meant for.
func keepPlace(pod, whole *corev1.Pod) {
	if whole.Spec.NodeName != "" || whole.Spec.Affinity == nil || whole.Spec.Affinity.NodeAffinity == nil {
		return
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	pod.Spec.Affinity.NodeAffinity = whole.Spec.Affinity.NodeAffinity
}

// trimNode leaves of a node what pods may ask of it, whether and where it works,
// and how much CPU it has: endpoints are spread over zones by that.
func trimNode(obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	cpu, hasCPU := node.Status.Allocatable[corev1.ResourceCPU]
	node.Status = corev1.NodeStatus{Conditions: node.Status.Conditions, Addresses: node.Status.Addresses}
	if hasCPU {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: cpu}
	}
}

// keepConditions keeps all conditions of a pod that belongs to a Job, or did and is
// not counted yet: the Job's pod failure policy may be about any.
func keepConditions(pod, whole *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(whole)
	if owner != nil && owner.Kind == "Job" || slices.Contains(whole.Finalizers, batchv1.JobTrackingFinalizer) {
		pod.Status.Conditions = whole.Status.Conditions
	}
}
