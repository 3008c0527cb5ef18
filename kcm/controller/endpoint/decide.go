package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/endpointslice"
	"k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

const (
	// capacity is how many addresses one Endpoints object has at most.
	capacity = 1000
	// managedBy and managedByUs are the label that says who writes Endpoints.
	managedBy, managedByUs = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
	// truncated is what the annotation for Endpoints over capacity says.
	truncated = "truncated"
)

// decide returns the Endpoints that the Service is to have, or nil if current
// ones tell the same. Current is nil if there are none.
func decide(service *corev1.Service, pods []*corev1.Pod, current *corev1.Endpoints) *corev1.Endpoints {
	wanted := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	if current != nil {
		wanted.ObjectMeta = *current.ObjectMeta.DeepCopy()
	}
	wanted.Labels = servicepods.Labels(service)
	wanted.Labels[managedBy] = managedByUs
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	delete(wanted.Annotations, corev1.EndpointsOverCapacity)
	all, isOver := truncate(subsets(service, pods), capacity)
	wanted.Subsets = all
	if isOver {
		wanted.Annotations[corev1.EndpointsOverCapacity] = truncated
	}
	if current != nil && tellsTheSame(current, wanted) {
		return nil
	}
	return wanted
}

// tellsTheSame tells whether a consumer learns nothing new. Since when it has been
// so does not count, and neither does the order of subsets and addresses.
func tellsTheSame(current, wanted *corev1.Endpoints) bool {
	return maps.Equal(current.Labels, wanted.Labels) &&
		current.Annotations[corev1.EndpointsOverCapacity] == wanted.Annotations[corev1.EndpointsOverCapacity] &&
		apiequality.Semantic.DeepEqual(sorted(current.Subsets), sorted(wanted.Subsets))
}

// canWait tells whether all that is new is of addresses that are not ready. Nobody
// sends requests there.
func canWait(current, wanted *corev1.Endpoints) bool {
	return current != nil && tellsTheSame(ready(current), ready(wanted))
}

// ready returns Endpoints with only those addresses that are ready.
func ready(endpoints *corev1.Endpoints) *corev1.Endpoints {
	only := &corev1.Endpoints{ObjectMeta: endpoints.ObjectMeta}
	for _, s := range endpoints.Subsets {
		if len(s.Addresses) > 0 {
			only.Subsets = append(only.Subsets, corev1.EndpointSubset{Addresses: s.Addresses, Ports: s.Ports})
		}
	}
	return only
}

// subsets returns the addresses of a Service, in the form of Together.
func subsets(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var all []corev1.EndpointSubset
	for _, pod := range pods {
		address, ok := addressOf(service, pod)
		if !ok {
			continue
		}
		for _, ports := range portsOf(service, pod) {
			s := corev1.EndpointSubset{Ports: ports}
			if service.Spec.PublishNotReadyAddresses || controller.IsPodReady(pod) {
				s.Addresses = []corev1.EndpointAddress{address}
			} else {
				s.NotReadyAddresses = []corev1.EndpointAddress{address}
			}
			all = append(all, s)
		}
	}
	return Together(all)
}

// offer is a port, and the addresses that have it: by number, 'r' for one that is
// ready, 'n' for one that is not, and 0 for one that has it not.
type offer struct {
	ports     []corev1.EndpointPort // one, or none of a subset without ports
	addresses []byte
}

// Together returns subsets that tell the same in one form: for each port all
// addresses that have it, and ports that the same addresses have, ready or not,
// together. Addresses are the same if their IP and their target are. One that
// some subset says is not ready is not, for the ports of that subset.
func Together(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	var addresses []corev1.EndpointAddress
	numbers := map[[2]string]int{}
	offers := map[string]*offer{}
	for _, s := range subsets {
		for i, address := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
			id := [2]string{address.IP, uidOf(address)}
			n, known := numbers[id]
			if !known {
				n = len(addresses)
				numbers[id], addresses = n, append(addresses, address)
			}
			for _, ports := range oneByOne(s.Ports) {
				key := portsKey(ports)
				if offers[key] == nil {
					offers[key] = &offer{ports: ports}
				}
				offers[key].add(n, i < len(s.Addresses))
			}
		}
	}
	together := map[string]*corev1.EndpointSubset{}
	for _, o := range offers {
		key := string(o.addresses)
		if together[key] == nil {
			together[key] = o.subset(addresses)
		}
		together[key].Ports = append(together[key].Ports, o.ports...)
	}
	var all []corev1.EndpointSubset
	for _, s := range together {
		all = append(all, *s)
	}
	return sorted(all)
}

func oneByOne(ports []corev1.EndpointPort) [][]corev1.EndpointPort {
	if len(ports) == 0 {
		return [][]corev1.EndpointPort{nil}
	}
	return slices.Collect(slices.Chunk(ports, 1))
}

// add adds address number n.
func (o *offer) add(n int, isReady bool) {
	if missing := n + 1 - len(o.addresses); missing > 0 {
		o.addresses = append(o.addresses, make([]byte, missing)...)
	}
	if isReady && o.addresses[n] != 'n' {
		o.addresses[n] = 'r'
	} else {
		o.addresses[n] = 'n'
	}
}

// subset returns the addresses that have the port, and no ports yet.
func (o *offer) subset(addresses []corev1.EndpointAddress) *corev1.EndpointSubset {
	s := &corev1.EndpointSubset{}
	for n, is := range o.addresses {
		switch is {
		case 'r':
			s.Addresses = append(s.Addresses, addresses[n])
		case 'n':
			s.NotReadyAddresses = append(s.NotReadyAddresses, addresses[n])
		}
	}
	return s
}

// sorted returns the same subsets in an order of their own.
func sorted(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	byIP := func(a, b corev1.EndpointAddress) int {
		return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(uidOf(a), uidOf(b)))
	}
	all := make([]corev1.EndpointSubset, 0, len(subsets))
	for _, s := range subsets {
		all = append(all, corev1.EndpointSubset{
			Addresses:         slices.SortedFunc(slices.Values(s.Addresses), byIP),
			NotReadyAddresses: slices.SortedFunc(slices.Values(s.NotReadyAddresses), byIP),
			Ports: slices.SortedFunc(slices.Values(s.Ports), func(a, b corev1.EndpointPort) int {
				return strings.Compare(portsKey([]corev1.EndpointPort{a}), portsKey([]corev1.EndpointPort{b}))
			}),
		})
	}
	slices.SortFunc(all, func(a, b corev1.EndpointSubset) int { return strings.Compare(portsKey(a.Ports), portsKey(b.Ports)) })
	return all
}

func uidOf(address corev1.EndpointAddress) string {
	if address.TargetRef == nil {
		return ""
	}
	return string(address.TargetRef.UID)
}

// truncate cuts subsets off at so many addresses, and tells whether it had to.
// Addresses that are not ready go first.
func truncate(subsets []corev1.EndpointSubset, limit int) ([]corev1.EndpointSubset, bool) {
	var ready, notReady []*[]corev1.EndpointAddress
	for i := range subsets {
		ready = append(ready, &subsets[i].Addresses)
		notReady = append(notReady, &subsets[i].NotReadyAddresses)
	}
	if count(ready)+count(notReady) <= limit {
		return subsets, false
	}
	cut(notReady, max(limit-count(ready), 0))
	cut(ready, limit)
	return slices.DeleteFunc(subsets, func(s corev1.EndpointSubset) bool {
		return len(s.Addresses)+len(s.NotReadyAddresses) == 0
	}), true
}

// cut leaves so many addresses in the lists, of each list as large a part.
func cut(lists []*[]corev1.EndpointAddress, limit int) {
	total, left := count(lists), limit
	if total <= limit {
		return
	}
	for _, list := range lists {
		share := (len(*list)*limit + total - 1) / total // rounded up
		*list = (*list)[:min(share, left)]
		left -= len(*list)
	}
}

func count(lists []*[]corev1.EndpointAddress) int {
	n := 0
	for _, list := range lists {
		n += len(*list)
	}
	return n
}

// addressOf returns the pod's address of the IP family that counts. It is not
// ok if the pod has none, or is being deleted and the Service does not want
// addresses of pods that are not ready.
func addressOf(service *corev1.Service, pod *corev1.Pod) (address corev1.EndpointAddress, ok bool) {
	addresses := servicepods.Addresses(pod, familyOf(service, pod))
	isGoing := pod.DeletionTimestamp != nil && !service.Spec.PublishNotReadyAddresses
	if !servicepods.IsReachable(pod) || isGoing || len(addresses) == 0 {
		return corev1.EndpointAddress{}, false
	}
	return corev1.EndpointAddress{
		IP:        addresses[0],
		Hostname:  servicepods.Hostname(pod, service),
		NodeName:  &pod.Spec.NodeName,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}, true
}

// familyOf returns the Service's first IP family. A headless one that was written
// before there were families goes by its pods.
func familyOf(service *corev1.Service, pod *corev1.Pod) corev1.IPFamily {
	if len(service.Spec.IPFamilies) == 0 && servicepods.IsHeadless(service) && net.IsIPv6String(pod.Status.PodIP) {
		return corev1.IPv6Protocol
	}
	return servicepods.Families(service)[0]
}

// portsOf returns each port of the Service with the number that it has at this
// pod. A port that the pod does not have by that name is left out. A headless
// Service without ports offers its pods as they are.
func portsOf(service *corev1.Service, pod *corev1.Pod) [][]corev1.EndpointPort {
	if len(service.Spec.Ports) == 0 && servicepods.IsHeadless(service) {
		return [][]corev1.EndpointPort{nil}
	}
	var ports [][]corev1.EndpointPort
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number, err := endpointslice.FindPort(pod, port)
		if err != nil {
			continue
		}
		ports = append(ports, []corev1.EndpointPort{{
			Name: port.Name, Port: int32(number), Protocol: port.Protocol, AppProtocol: port.AppProtocol,
		}})
	}
	return ports
}

func portsKey(ports []corev1.EndpointPort) string {
	keys := make([]string, 0, len(ports))
	for _, p := range ports {
		keys = append(keys, fmt.Sprintf("%q %d %s %q", p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, "")))
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}
