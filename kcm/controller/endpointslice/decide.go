package endpointslice

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/endpointslice"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

// situation is what a Service has, as of one moment.
type situation struct {
	service *corev1.Service
	// pods are those that the Service selects.
	pods []*corev1.Pod
	// slices are those that this controller manages for the Service.
	slices []*discoveryv1.EndpointSlice
	// nodes are the nodes of these pods by name. One that the cache does not have is
	// nil.
	nodes map[string]*corev1.Node
	// mayWait says that what moves no traffic need not be written yet.
	mayWait bool
}

// decide returns what is to be written for the slices of one address type, of
// which each may have at most limit endpoints. If the Service has no address of
// that type, all go. If there is nothing to tell, one slice without ports and
// endpoints says so, for who has to tell "none" from "not yet".
func decide(seen situation, addressType discoveryv1.AddressType, limit int) Plan {
	var plan, doomed Plan
	groups := map[string]*Group{}
	for _, slice := range seen.slices {
		switch {
		case slice.AddressType != addressType:
		case !isOf(slice, seen.service) || !hasFamily(seen.service, addressType):
			doomed.Delete = append(doomed.Delete, slice) // of another Service that had the name, or another family
		default:
			g := groupOf(groups, seen.service, addressType, slice.Ports)
			g.Existing = append(g.Existing, slice)
		}
	}
	if !hasFamily(seen.service, addressType) {
		return doomed
	}
	var g *Group // of the pod before, and so of most pods: they have the same ports
	var before []int32
	for _, pod := range seen.pods {
		endpoint, ok := seen.endpoint(pod, addressType)
		numbers, offers := numbersOf(seen.service, pod)
		if !ok || !offers {
			continue
		}
		if g == nil || !slices.Equal(numbers, before) {
			g, before = groupOf(groups, seen.service, addressType, portsOf(seen.service, numbers)), numbers
		}
		g.Wanted = append(g.Wanted, endpoint)
	}
	carries := carriesTraffic(seen.service, groups)
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if seen.mayWait {
			plan.Add(groups[key].PackUrgent(carries, limit))
		} else {
			plan.Add(groups[key].Pack(limit))
		}
	}
	if len(plan.Create)+len(plan.Update)+len(plan.Unchanged) == 0 {
		plan.keepEmpty(Group{Template: template(seen.service, addressType, nil)})
	}
	plan.Recycle()
	plan.Add(doomed)
	return plan
}

// carriesTraffic tells which endpoints of a Service are sent requests: those that
// are ready. Those that only serve are, too, where no other is left: in the whole
// Service, or on one node if the Service keeps requests there
// (https://kep.k8s.io/1669).
func carriesTraffic(service *corev1.Service, groups map[string]*Group) func(discoveryv1.Endpoint) bool {
	isReady := func(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) }
	servingCounts := service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal ||
		ptr.Deref(service.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal
	if !servingCounts {
		servingCounts = true
		for _, g := range groups {
			servingCounts = servingCounts && !slices.ContainsFunc(g.Wanted, isReady)
		}
	}
	return func(endpoint discoveryv1.Endpoint) bool {
		return isReady(endpoint) || servingCounts && ptr.Deref(endpoint.Conditions.Serving, true)
	}
}

// keepEmpty has one slice without endpoints stay or come where there would be
// none at all.
func (p *Plan) keepEmpty(g Group) {
	if i := slices.IndexFunc(p.Delete, func(slice *discoveryv1.EndpointSlice) bool {
		return len(slice.Endpoints)+len(slice.Ports) == 0 && g.isDressed(slice)
	}); i >= 0 {
		p.Unchanged = append(p.Unchanged, p.Delete[i])
		p.Delete = slices.Delete(p.Delete, i, i+1)
		return
	}
	p.Create = append(p.Create, g.Template)
}

// groupOf returns the group of the slices that have these ports, in any order.
func groupOf(groups map[string]*Group, service *corev1.Service, addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *Group {
	key := PortsKey(ports)
	if groups[key] == nil {
		groups[key] = &Group{Template: template(service, addressType, ports)}
	}
	return groups[key]
}

// PortsKey is the same for the same ports, in whatever order they are given.
func PortsKey(ports []discoveryv1.EndpointPort) string {
	keys := make([]string, 0, len(ports))
	for _, p := range ports {
		keys = append(keys, fmt.Sprintf("%q %d %s %q", ptr.Deref(p.Name, ""), ptr.Deref(p.Port, -1),
			ptr.Deref(p.Protocol, corev1.ProtocolTCP), ptr.Deref(p.AppProtocol, "")))
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// endpoint returns what slices of one address type say about a pod: its addresses
// of that type, its conditions, which pod it is, and where it runs. It is not ok if
// the pod is not to be in these slices.
func (s situation) endpoint(pod *corev1.Pod, addressType discoveryv1.AddressType) (endpoint discoveryv1.Endpoint, ok bool) {
	addresses := servicepods.Addresses(pod, corev1.IPFamily(addressType))
	if !servicepods.IsReachable(pod) || len(addresses) == 0 || s.lacksNode(pod) {
		return discoveryv1.Endpoint{}, false
	}
	endpoint = discoveryv1.Endpoint{
		Addresses:  addresses,
		Conditions: conditionsOf(pod, s.service.Spec.PublishNotReadyAddresses),
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		NodeName:   servicepods.NodeName(pod),
	}
	if name := servicepods.Hostname(pod, s.service); name != "" {
		endpoint.Hostname = &name
	}
	if node := s.nodes[pod.Spec.NodeName]; node != nil && node.Labels[corev1.LabelTopologyZone] != "" {
		endpoint.Zone = new(node.Labels[corev1.LabelTopologyZone])
	}
	return endpoint, true
}

// lacksNode tells whether a pod that can be reached is left out for want of its
// node.
func (s situation) lacksNode(pod *corev1.Pod) bool {
	return s.nodes[pod.Spec.NodeName] == nil && !s.service.Spec.PublishNotReadyAddresses
}

// lackingNodes returns an error for the pods that are left out because their nodes
// are not known, so that the Service is looked at again.
func (s situation) lackingNodes() error {
	var errs []error
	for _, pod := range s.pods {
		if servicepods.IsReachable(pod) && s.lacksNode(pod) {
			errs = append(errs, fmt.Errorf("skipping Pod %s for Service %s/%s: Node %s Not Found",
				pod.Name, s.service.Namespace, s.service.Name, pod.Spec.NodeName))
		}
	}
	return errors.Join(errs...)
}

// conditionsOf returns the three conditions of a pod's endpoint, none of them left
// open. A Service may ask for its pods to be found before they are ready.
func conditionsOf(pod *corev1.Pod, publishNotReady bool) discoveryv1.EndpointConditions {
	serving, terminating := controller.IsPodReady(pod), pod.DeletionTimestamp != nil
	return discoveryv1.EndpointConditions{
		Ready:       new(publishNotReady || serving && !terminating),
		Serving:     &serving,
		Terminating: &terminating,
	}
}

// absent is the number of a port that a pod does not have by its name.
const absent = -1

// numbersOf returns under which number each port of the Service is found at this
// pod, and whether it offers anything there. A pod that has none of the ports would
// stand as ready in a slice without ports, which only a Service without ports may have
// (the API's documentation of EndpointSlice).
func numbersOf(service *corev1.Service, pod *corev1.Pod) (numbers []int32, offers bool) {
	numbers = make([]int32, len(service.Spec.Ports))
	offers = len(numbers) == 0
	for i := range service.Spec.Ports {
		number, err := endpointslice.FindPort(pod, &service.Spec.Ports[i])
		if err != nil {
			number = absent
		}
		numbers[i] = int32(number)
		offers = offers || err == nil
	}
	return numbers, offers
}

// portsOf returns the ports of the Service with their numbers. One that is absent
// is left out.
func portsOf(service *corev1.Service, numbers []int32) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for i, number := range numbers {
		if port := &service.Spec.Ports[i]; number != absent {
			ports = append(ports, discoveryv1.EndpointPort{
				Name: &port.Name, Port: new(number), Protocol: &port.Protocol, AppProtocol: port.AppProtocol,
			})
		}
	}
	return ports
}

// isOf tells whether a slice is of this Service, not of one that had its name.
func isOf(slice *discoveryv1.EndpointSlice, service *corev1.Service) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == service.UID && ref.Kind == "Service"
	})
}

func hasFamily(service *corev1.Service, addressType discoveryv1.AddressType) bool {
	return slices.Contains(servicepods.Families(service), corev1.IPFamily(addressType))
}

// template returns what all slices of a Service with these ports have in common.
func template(service *corev1.Service, addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	labels := servicepods.Labels(service, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy)
	labels[discoveryv1.LabelServiceName] = service.Name
	labels[discoveryv1.LabelManagedBy] = ControllerName
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       service.Namespace,
			GenerateName:    service.Name + "-",
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: addressType,
		Ports:       ports,
		Endpoints:   []discoveryv1.Endpoint{},
	}
}
