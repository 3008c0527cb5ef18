package servicepods

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/utils/net"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// PodAddresses keeps under which addresses, names and ports a pod is reached. It
// comes after [controller.PodState], which keeps the sidecars.
var PodAddresses = controller.KeepOf(func(kept, whole *corev1.Pod) {
	kept.Spec.Hostname, kept.Spec.Subdomain = whole.Spec.Hostname, whole.Spec.Subdomain
	kept.Status.PodIP, kept.Status.PodIPs = whole.Status.PodIP, whole.Status.PodIPs
	for _, c := range whole.Spec.Containers {
		if ports := named(c.Ports); ports != nil {
			kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Ports: ports})
		}
	}
	sidecars := kept.Spec.InitContainers
	for i := range sidecars {
		from := slices.IndexFunc(whole.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == sidecars[i].Name })
		sidecars[i].Ports = named(whole.Spec.InitContainers[from].Ports)
	}
})

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

// IsReachable tells whether a pod has an address at which something may still
// answer: it was given one, and has not ended. A pod that is being deleted may
// be reachable, and may even be ready.
func IsReachable(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !ended && (pod.Status.PodIP != "" || len(pod.Status.PodIPs) > 0)
}

// Addresses returns the pod's addresses of one IP family, in the form in which
// everybody writes them. A pod has at most one of each.
func Addresses(pod *corev1.Pod, family corev1.IPFamily) []string {
	var addresses []string
	for _, podIP := range pod.Status.PodIPs {
		ip := net.ParseIPSloppy(podIP.IP)
		if ip != nil && net.IsIPv6(ip) == (family == corev1.IPv6Protocol) {
			addresses = append(addresses, ip.String())
		}
	}
	return addresses
}

// Families returns the IP families that a Service has addresses of, the most
// important one first. The API server fills them in; for a Service that was
// written before it did, its cluster IP says which, and a headless one has both.
func Families(service *corev1.Service) []corev1.IPFamily {
	switch {
	case len(service.Spec.IPFamilies) > 0:
		return service.Spec.IPFamilies
	case IsHeadless(service):
		return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	case net.IsIPv6String(service.Spec.ClusterIP):
		return []corev1.IPFamily{corev1.IPv6Protocol}
	}
	return []corev1.IPFamily{corev1.IPv4Protocol}
}

// IsHeadless tells whether a Service has no address of its own. Then the name of
// the Service stands for the addresses of its pods.
func IsHeadless(service *corev1.Service) bool {
	return service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone
}

// Hostname returns the name under which DNS is to have the pod within the
// Service, or nothing. A pod has one if it asks for it, by hostname and subdomain.
func Hostname(pod *corev1.Pod, service *corev1.Service) string {
	if pod.Spec.Subdomain != service.Name {
		return ""
	}
	return pod.Spec.Hostname
}

// NodeName returns the name of the pod's node, or nil. It is nil, too, for a name
// that no node can have: a Binding may have one, but the API server refuses whatever
// else says it, with all other addresses.
func NodeName(pod *corev1.Pod) *string {
	if len(content.IsDNS1123Subdomain(pod.Spec.NodeName)) > 0 {
		return nil
	}
	return new(pod.Spec.NodeName)
}

// Labels returns the labels that an object which tells a Service's addresses
// takes over: the Service's own without the reserved keys, and one more if it is
// headless. They are a copy.
func Labels(service *corev1.Service, reserved ...string) map[string]string {
	taken := maps.Clone(service.Labels)
	if taken == nil {
		taken = map[string]string{}
	}
	for _, key := range append(reserved, corev1.IsHeadlessService) {
		delete(taken, key)
	}
	if IsHeadless(service) {
		taken[corev1.IsHeadlessService] = ""
	}
	return taken
}

// sameAddress tells whether what is told of a pod is the same. What else is read of
// it does not change: names and ports.
func sameAddress(a, b *corev1.Pod) bool {
	return (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		IsReachable(a) == IsReachable(b) &&
		controller.IsPodReady(a) == controller.IsPodReady(b) &&
		slices.Equal(a.Status.PodIPs, b.Status.PodIPs) &&
		a.Spec.NodeName == b.Spec.NodeName
}
