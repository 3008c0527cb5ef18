package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/net"

	"github.com/kcm-book/kcm-book/kcm/controller/endpoint"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
)

// mostLooks times the limit is how many addresses are looked at for one Endpoints
// object, and about how many are mirrored of it, whatever its subsets have in common.
const mostLooks = 100

// leftOut counts the addresses that are not mirrored.
type leftOut struct {
	// invalid ones are no IP addresses.
	invalid int
	// tooMany are those beyond the limit for addresses with the same ports, and
	// those that were not looked at any more.
	tooMany int
}

// decide returns what is to be written for the slices to tell what the Endpoints
// do: for each set of ports at most limit addresses of IPv4 and IPv6 together, the
// ready ones first. They get one slice of each family. Where somebody has made
// more, each keeps what it tells rightly.
func decide(endpoints *corev1.Endpoints, existing []*discoveryv1.EndpointSlice, limit int) (endpointslice.Plan, leftOut) {
	groups := map[groupKey]*endpointslice.Group{}
	for _, slice := range existing {
		g := groupOf(groups, endpoints, slice.AddressType, slice.Ports)
		g.Existing = append(g.Existing, slice)
	}
	subsets, tooMany := endpoint.Together(endpoints.Subsets, mostLooks*limit)
	left := leftOut{tooMany: tooMany}
	for _, subset := range subsets {
		ports, room := portsOf(subset.Ports), limit
		ofType := map[discoveryv1.AddressType]*endpointslice.Group{}
		for i, address := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
			wanted, addressType, ok := endpointOf(address, i < len(subset.Addresses))
			switch {
			case !ok:
				left.invalid++
				continue
			case room == 0:
				left.tooMany++
				continue
			}
			g := ofType[addressType]
			if g == nil {
				g = groupOf(groups, endpoints, addressType, ports)
				ofType[addressType] = g
			}
			g.Wanted = append(g.Wanted, wanted)
			room--
		}
	}
	var plan endpointslice.Plan
	for _, g := range groups {
		plan.Add(g.Pack(limit))
	}
	plan.Recycle()
	return plan, left
}

// groupKey is what the slices of a group have in common.
type groupKey struct {
	addressType discoveryv1.AddressType
	ports       string
}

func groupOf(groups map[groupKey]*endpointslice.Group, endpoints *corev1.Endpoints, addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *endpointslice.Group {
	key := groupKey{addressType, endpointslice.PortsKey(ports)}
	if groups[key] == nil {
		groups[key] = &endpointslice.Group{Template: template(endpoints, addressType, ports)}
	}
	return groups[key]
}

// endpointOf returns an address as an endpoint, and its type. It is not ok if it
// is no IP address.
func endpointOf(address corev1.EndpointAddress, ready bool) (endpoint discoveryv1.Endpoint, addressType discoveryv1.AddressType, ok bool) {
	ip := net.ParseIPSloppy(address.IP)
	if ip == nil {
		return discoveryv1.Endpoint{}, "", false
	}
	addressType = discoveryv1.AddressTypeIPv4
	if net.IsIPv6(ip) {
		addressType = discoveryv1.AddressTypeIPv6
	}
	endpoint = discoveryv1.Endpoint{
		Addresses:  []string{ip.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef:  address.TargetRef,
		NodeName:   address.NodeName,
	}
	if address.Hostname != "" {
		endpoint.Hostname = &address.Hostname
	}
	return endpoint, addressType, true
}

// portsOf returns the ports that a slice may have: of several of one name, which the
// API server takes in Endpoints alone, the first.
func portsOf(ports []corev1.EndpointPort) []discoveryv1.EndpointPort {
	mirrored := make([]discoveryv1.EndpointPort, 0, len(ports))
	names := map[string]bool{}
	for i := range ports {
		port := ports[i]
		if names[port.Name] {
			continue
		}
		names[port.Name] = true
		mirrored = append(mirrored, discoveryv1.EndpointPort{
			Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol, AppProtocol: port.AppProtocol,
		})
	}
	return mirrored
}

// template returns what all slices of the Endpoints with these ports have in
// common: their labels and annotations, but for those that are about the object
// itself.
func template(endpoints *corev1.Endpoints, addressType discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, endpoints.Labels)
	maps.Copy(annotations, endpoints.Annotations)
	labels[discoveryv1.LabelServiceName] = endpoints.Name
	labels[discoveryv1.LabelManagedBy] = ControllerName
	delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       endpoints.Namespace,
			GenerateName:    endpoints.Name + "-",
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(endpoints, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: addressType,
		Ports:       ports,
		Endpoints:   []discoveryv1.Endpoint{},
	}
}
