package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// running returns ready pod number n, changed.
func running(n int, change ...func(*corev1.Pod)) *corev1.Pod {
	ip := fmt.Sprintf("10.0.%d.%d", n/250, n%250)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", n), UID: types.UID(fmt.Sprint(n)), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}, {IP: fmt.Sprint("fd00::", n)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func notReady(p *corev1.Pod)       { p.Status.Conditions = nil }
func going(p *corev1.Pod)          { p.DeletionTimestamp = new(metav1.Now()) }
func ended(p *corev1.Pod)          { p.Status.Phase = corev1.PodSucceeded }
func publish(s *corev1.Service)    { s.Spec.PublishNotReadyAddresses = true }
func headless(s *corev1.Service)   { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil }
func ofOldTimes(s *corev1.Service) { s.Spec.IPFamilies = nil }
func mostlyIPv6(p *corev1.Pod) {
	slices.Reverse(p.Status.PodIPs)
	p.Status.PodIP = p.Status.PodIPs[0].IP
}
func metrics(s *corev1.Service) {
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9090)})
}
func port(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = n }
}

// inWords returns subsets as "8080: 10.0.0.1 10.0.0.2!", with ! at those that are not ready.
func inWords(subsets []corev1.EndpointSubset) string {
	var words []string
	for _, s := range subsets {
		var ports, addresses []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprint(p.Port))
		}
		for _, a := range s.Addresses {
			addresses = append(addresses, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			addresses = append(addresses, a.IP+"!")
		}
		slices.Sort(ports)
		words = append(words, strings.Join(ports, ",")+": "+strings.Join(addresses, " "))
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

func TestSubsetsOfAService(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		service *corev1.Service
		pods    []*corev1.Pod
		want    string
	}{
		"a ready pod is an address":                       {service(), []*corev1.Pod{running(1)}, "8080: 10.0.0.1"},
		"a pod that is not ready is one of the others":    {service(), []*corev1.Pod{running(1), running(2, notReady)}, "8080: 10.0.0.1 10.0.0.2!"},
		"a pod that is going is none":                     {service(), []*corev1.Pod{running(1, going)}, ""},
		"a pod that has ended is none":                    {service(publish), []*corev1.Pod{running(1, ended)}, ""},
		"who publishes all has going ones as ready":       {service(publish), []*corev1.Pod{running(1, going, notReady)}, "8080: 10.0.0.1"},
		"a port by name has each pod's number":            {service(), []*corev1.Pod{running(1), running(2, port(9))}, "8080: 10.0.0.1; 9: 10.0.0.2"},
		"ports of the same pods are together":             {service(metrics), []*corev1.Pod{running(1), running(2)}, "8080,9090: 10.0.0.1 10.0.0.2"},
		"a port of more pods than another is by itself":   {service(metrics), []*corev1.Pod{running(1), running(2, port(9))}, "8080: 10.0.0.1; 9090: 10.0.0.1 10.0.0.2; 9: 10.0.0.2"},
		"a pod that has no port of that name is left out": {service(), []*corev1.Pod{running(1, func(p *corev1.Pod) { p.Spec.Containers = nil })}, ""},
		"headless without ports has addresses alone":      {service(headless), []*corev1.Pod{running(1), running(2, notReady)}, ": 10.0.0.1 10.0.0.2!"},
		"of two families the first one counts": {service(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"} }),
			[]*corev1.Pod{running(1)}, "8080: fd00::1"},
		"headless without families goes by the pod's own address": {service(headless, ofOldTimes), []*corev1.Pod{running(1), running(2, mostlyIPv6)}, ": 10.0.0.1 fd00::2"},
		"with a cluster IP that counts":                           {service(ofOldTimes), []*corev1.Pod{running(1, mostlyIPv6)}, "8080: 10.0.0.1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, inWords(subsets(test.service, test.pods)))
		})
	}
}

// An empty name of a node the API server refuses, with all addresses.
func TestAPodWithoutANodeIsAnAddressWithoutOne(t *testing.T) {
	t.Parallel()
	unbound := func(p *corev1.Pod) { p.Spec.NodeName = "" }
	addresses := subsets(service(), []*corev1.Pod{running(1), running(2, unbound)})[0].Addresses
	assert.Equal(t, []*string{new("n"), nil}, []*string{addresses[0].NodeName, addresses[1].NodeName})
}

// some returns subsets with so many ready addresses, and so many that are not, each.
func some(sizes ...[2]int) []corev1.EndpointSubset {
	var subsets []corev1.EndpointSubset
	for i, size := range sizes {
		s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: int32(i + 1)}}}
		for n := range size[0] {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.%d.0.%d", i, n)})
		}
		for n := range size[1] {
			s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.%d.1.%d", i, n)})
		}
		subsets = append(subsets, s)
	}
	return subsets
}

func sizes(subsets []corev1.EndpointSubset) string {
	var words []string
	for _, s := range subsets {
		words = append(words, fmt.Sprintf("%d+%d", len(s.Addresses), len(s.NotReadyAddresses)))
	}
	return strings.Join(words, " ")
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		subsets []corev1.EndpointSubset
		want    string
		cut     bool
	}{
		"ten are ten":                                              {some([2]int{6, 4}), "6+4", false},
		"of eleven one goes that is not ready":                     {some([2]int{6, 5}), "6+4", true},
		"ready ones go when there are too many of them":            {some([2]int{12, 5}), "10+0", true},
		"each subset loses as large a part":                        {some([2]int{16, 0}, [2]int{4, 0}), "8+0 2+0", true},
		"each subset loses as large a part of the not ready":       {some([2]int{4, 8}, [2]int{0, 4}), "4+4 0+2", true},
		"parts are rounded up, and the last one gets what is left": {some([2]int{5, 0}, [2]int{5, 0}, [2]int{5, 0}), "4+0 4+0 2+0", true},
		"a subset without addresses is none":                       {some([2]int{11, 0}, [2]int{0, 3}), "10+0", true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			before := sizes(test.subsets)
			got, cut := truncate(test.subsets, 10)
			assert.Equal(t, test.want, sizes(got), "what is left of %s, ready and not, when ten may stay", before)
			assert.Equal(t, test.cut, cut, "whether something was cut off")
		})
	}
	t.Run("no more than so many are left, and no fewer, whatever there is", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var all [][2]int
			ready, total := 0, 0
			for range rapid.IntRange(0, 4).Draw(t, "subsets") {
				size := [2]int{rapid.IntRange(0, 12).Draw(t, "ready"), rapid.IntRange(0, 12).Draw(t, "not ready")}
				if size[0]+size[1] == 0 {
					continue
				}
				all = append(all, size)
				ready, total = ready+size[0], total+size[0]+size[1]
			}
			got, cut := truncate(some(all...), 10)
			left, leftReady := 0, 0
			for _, s := range got {
				leftReady += len(s.Addresses)
				left += len(s.Addresses) + len(s.NotReadyAddresses)
			}
			assert.Equal(t, min(total, 10), left, "addresses of %v", all)
			assert.Equal(t, min(ready, 10), leftReady, "ready addresses of %v", all)
			assert.Equal(t, total > 10, cut)
		})
	})
}

func TestEndpointsAreWrittenOnceForEachChange(t *testing.T) {
	t.Parallel()
	blue := service(func(s *corev1.Service) { s.Labels = map[string]string{"team": "blue"} })
	written := decide(blue, []*corev1.Pod{running(1), running(2)}, nil)
	require.NotNil(t, written)
	assert.Equal(t, map[string]string{"team": "blue", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}, written.Labels)
	written.ResourceVersion = "7"
	t.Run("the same in another order is the same", func(t *testing.T) {
		t.Parallel()
		current := written.DeepCopy()
		slices.Reverse(current.Subsets[0].Addresses)
		assert.Nil(t, decide(blue, []*corev1.Pod{running(2), running(1)}, current))
	})
	t.Run("another pod is something new", func(t *testing.T) {
		t.Parallel()
		next := decide(blue, []*corev1.Pod{running(1), running(3)}, written)
		require.NotNil(t, next)
		assert.Equal(t, "7", next.ResourceVersion, "of what it replaces")
	})
	t.Run("another label is something new", func(t *testing.T) {
		t.Parallel()
		assert.NotNil(t, decide(service(), []*corev1.Pod{running(1), running(2)}, written))
	})
	t.Run("annotations of others are kept, and are nothing new", func(t *testing.T) {
		t.Parallel()
		current := written.DeepCopy()
		current.Annotations = map[string]string{"note": "kept"}
		assert.Nil(t, decide(blue, []*corev1.Pod{running(1), running(2)}, current))
		assert.Equal(t, "kept", decide(blue, nil, current).Annotations["note"])
	})
	t.Run("more than a thousand are written once, and marked until they fit again", func(t *testing.T) {
		t.Parallel()
		var pods []*corev1.Pod
		for n := range 1001 {
			pods = append(pods, running(n))
		}
		over := decide(blue, pods, nil)
		require.Len(t, over.Subsets[0].Addresses, 1000)
		assert.Equal(t, "truncated", over.Annotations[corev1.EndpointsOverCapacity])
		assert.Nil(t, decide(blue, pods, over), "the same is written again")
		fits := decide(blue, pods[:1000], over)
		require.NotNil(t, fits)
		assert.NotContains(t, fits.Annotations, corev1.EndpointsOverCapacity)
	})
}

func TestPortsAndPodsAreLookedAtButNotEachPair(t *testing.T) {
	const size = 700
	s, pods := service(), []*corev1.Pod{}
	s.Spec.Ports = nil
	for n := range size {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", n), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(int32(1 + n))})
		pods = append(pods, running(n))
	}
	allocations := testing.AllocsPerRun(1, func() {
		all := subsets(s, pods)
		require.Len(t, all, 1)
		require.Len(t, all[0].Ports, size)
		require.Len(t, all[0].Addresses, size)
	})
	assert.Less(t, allocations, 100.*size, "there are %d pairs", size*size)
}

// pairs returns for each port and address whether it is ready there.
func pairs(subsets []corev1.EndpointSubset) map[string]bool {
	all := map[string]bool{}
	for _, s := range subsets {
		for _, port := range s.Ports {
			for i, address := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
				pair := fmt.Sprintf("%s at %s %s", portsKey([]corev1.EndpointPort{port}), address.IP, uidOf(address))
				before, known := all[pair]
				all[pair] = i < len(s.Addresses) && (before || !known)
			}
		}
	}
	return all
}

func TestTogetherTellsTheSameOfEachPortAndAddressOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var given []corev1.EndpointSubset
		for range rapid.IntRange(0, 4).Draw(t, "subsets") {
			var s corev1.EndpointSubset
			for range rapid.IntRange(1, 3).Draw(t, "ports") {
				s.Ports = append(s.Ports, corev1.EndpointPort{Port: rapid.Int32Range(1, 3).Draw(t, "port")})
			}
			for range rapid.IntRange(0, 4).Draw(t, "addresses") {
				address := corev1.EndpointAddress{IP: rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}).Draw(t, "IP")}
				if rapid.Bool().Draw(t, "has a target") {
					address.TargetRef = &corev1.ObjectReference{UID: types.UID(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "UID"))}
				}
				if rapid.Bool().Draw(t, "is ready") {
					s.Addresses = append(s.Addresses, address)
				} else {
					s.NotReadyAddresses = append(s.NotReadyAddresses, address)
				}
			}
			given = append(given, s)
		}
		together, left := Together(given, 1000)
		assert.Zero(t, left)
		assert.Equal(t, pairs(given), pairs(together))
		told := 0
		for _, s := range together {
			told += len(s.Ports) * (len(s.Addresses) + len(s.NotReadyAddresses))
		}
		assert.Len(t, pairs(together), told, "some pair is told twice")
	})
}
