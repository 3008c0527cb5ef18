package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

// Writers keeps of Endpoints what [IsOwn] reads.
var Writers = controller.KeepOf(func(kept, whole *corev1.Endpoints) { kept.ManagedFields = whole.ManagedFields })

// IsOwn tells whether it is this controller that has written Endpoints last.
func IsOwn(endpoints *corev1.Endpoints) bool {
	return endpoints.Labels[managedBy] == managedByUs && servicepods.WroteLast(endpoints, managedBy, "subsets")
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

// subsets returns the addresses of a Service, in the form of Together. Most pods
// have the same ports as the one before: those are kept once. A headless Service
// without ports offers its pods as they are.
func subsets(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var all []corev1.EndpointSubset
	for _, pod := range pods {
		address, ok := addressOf(service, pod)
		ports := portsOf(service, pod)
		offersNothing := len(ports) == 0 && (len(service.Spec.Ports) > 0 || !servicepods.IsHeadless(service))
		if !ok || offersNothing {
			continue
		}
		if len(all) == 0 || !slices.Equal(all[len(all)-1].Ports, ports) {
			all = append(all, corev1.EndpointSubset{Ports: ports})
		}
		s := &all[len(all)-1]
		if service.Spec.PublishNotReadyAddresses || controller.IsPodReady(pod) {
			s.Addresses = append(s.Addresses, address)
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, address)
		}
	}
	together, _ := Together(all, math.MaxInt)
	return together
}

// Together returns subsets that tell the same in one form: for each port all
// addresses that have it, and ports that the same addresses have, ready or not,
// together. Addresses are the same if their IP and their target are. One that
// some subset says is not ready is not, for the ports of that subset.
//
// Ports that stand in the same subsets are looked at as one. Once it has looked at
// most addresses, it leaves out what ports are left, and left is how many addresses
// those have.
func Together(subsets []corev1.EndpointSubset, most int) (together []corev1.EndpointSubset, left int) {
	seen := 0
	of := map[string]int{} // which of together has these addresses
	for _, o := range offersOf(subsets) {
		if seen > most {
			left += o.size
			continue
		}
		seen += o.size
		addresses, key := o.addresses()
		i, known := of[key]
		if !known {
			i = len(together)
			of[key], together = i, append(together, addresses)
		}
		together[i].Ports = append(together[i].Ports, o.ports...)
	}
	return sorted(together), left
}

// offer is ports that the same subsets have, and so the same addresses.
type offer struct {
	ports   []corev1.EndpointPort // none of subsets without ports
	subsets []corev1.EndpointSubset
	size    int // how many addresses the subsets have
}

// offersOf returns the ports of all subsets. It looks at each once, however many
// addresses have it.
func offersOf(subsets []corev1.EndpointSubset) []*offer {
	var order [][]corev1.EndpointPort
	in := map[string][]int{} // the subsets of each port
	for i, s := range subsets {
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			continue
		}
		for _, ports := range oneByOne(s.Ports) {
			key := portsKey(ports)
			if in[key] == nil {
				order = append(order, ports)
			}
			in[key] = append(in[key], i)
		}
	}
	var all []*offer
	of := map[string]*offer{} // by subsets
	for _, ports := range order {
		numbers := slices.Compact(in[portsKey(ports)]) // a subset may have a port twice
		key := fmt.Sprint(numbers)
		o, known := of[key]
		if !known {
			o = &offer{}
			for _, i := range numbers {
				o.subsets = append(o.subsets, subsets[i])
				o.size += len(subsets[i].Addresses) + len(subsets[i].NotReadyAddresses)
			}
			of[key], all = o, append(all, o)
		}
		o.ports = append(o.ports, ports...)
	}
	return all
}

func oneByOne(ports []corev1.EndpointPort) [][]corev1.EndpointPort {
	if len(ports) == 0 {
		return [][]corev1.EndpointPort{nil}
	}
	return slices.Collect(slices.Chunk(ports, 1))
}

// addresses returns the addresses that have what is offered, each once, and a key
// that is the same for the same addresses.
func (o *offer) addresses() (s corev1.EndpointSubset, key string) {
	for _, subset := range o.subsets {
		s.Addresses = append(s.Addresses, subset.Addresses...)
		s.NotReadyAddresses = append(s.NotReadyAddresses, subset.NotReadyAddresses...)
	}
	s.NotReadyAddresses = once(s.NotReadyAddresses)
	s.Addresses = slices.DeleteFunc(once(s.Addresses), func(ready corev1.EndpointAddress) bool {
		_, isNot := slices.BinarySearchFunc(s.NotReadyAddresses, ready, byIP)
		return isNot
	})
	var all []byte
	for i, address := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
		all = fmt.Appendf(all, "%t %q %q\n", i < len(s.Addresses), address.IP, uidOf(address))
	}
	return s, string(all)
}

func once(addresses []corev1.EndpointAddress) []corev1.EndpointAddress {
	slices.SortStableFunc(addresses, byIP)
	return slices.CompactFunc(addresses, func(a, b corev1.EndpointAddress) bool { return byIP(a, b) == 0 })
}

// sorted returns the same subsets in an order of their own.
func sorted(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	all := make([]corev1.EndpointSubset, 0, len(subsets))
	for _, s := range subsets {
		all = append(all, corev1.EndpointSubset{
			Addresses:         slices.SortedFunc(slices.Values(s.Addresses), byIP),
			NotReadyAddresses: slices.SortedFunc(slices.Values(s.NotReadyAddresses), byIP),
			Ports:             sortedByKey(s.Ports, func(p corev1.EndpointPort) string { return portsKey([]corev1.EndpointPort{p}) }),
		})
	}
	return sortedByKey(all, func(s corev1.EndpointSubset) string { return portsKey(s.Ports) })
}

// sortedByKey works each key out once.
func sortedByKey[T any](all []T, key func(T) string) []T {
	keys := make(map[string][]T, len(all))
	for _, one := range all {
		k := key(one)
		keys[k] = append(keys[k], one)
	}
	var in []T
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		in = append(in, keys[k]...)
	}
	return in
}

func byIP(a, b corev1.EndpointAddress) int {
	return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(uidOf(a), uidOf(b)))
}

func uidOf(address corev1.EndpointAddress) string {
	if address.TargetRef == nil {
		return ""
	}
	return string(address.TargetRef.UID)
}

// truncate returns subsets that have at most limit addresses together, and tells
// whether it had to cut any off.
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

// cut shortens lists that have more than limit addresses together to that many.
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
		NodeName:  servicepods.NodeName(pod),
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
// pod. A port that the pod does not have by that name is left out.
func portsOf(service *corev1.Service, pod *corev1.Pod) []corev1.EndpointPort {
	var ports []corev1.EndpointPort
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number, err := endpointslice.FindPort(pod, port)
		if err != nil {
			continue
		}
		ports = append(ports, corev1.EndpointPort{
			Name: port.Name, Port: int32(number), Protocol: port.Protocol, AppProtocol: port.AppProtocol,
		})
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
