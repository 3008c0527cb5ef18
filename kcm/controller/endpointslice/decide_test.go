package endpointslice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6

// service returns one with the port http, changed.
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

// running returns a ready pod on the node n, changed.
func running(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-" + "x", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func notReady(p *corev1.Pod)      { p.Status.Conditions = nil }
func going(p *corev1.Pod)         { p.DeletionTimestamp = new(metav1.Now()) }
func ended(p *corev1.Pod)         { p.Status.Phase = corev1.PodFailed }
func elsewhere(p *corev1.Pod)     { p.Spec.NodeName = "unknown" }
func publish(s *corev1.Service)   { s.Spec.PublishNotReadyAddresses = true }
func bothKinds(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"} }
func headless(s *corev1.Service)  { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil }
func labelled(s *corev1.Service)  { s.Labels = map[string]string{"team": "blue"} }
func port(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = n }
}

func given(s *corev1.Service, pods ...*corev1.Pod) situation {
	return situation{service: s, pods: pods, nodes: map[string]*corev1.Node{
		"n":       {ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "north"}}},
		"unknown": nil, // as observe notes a node that the cache does not have
	}}
}

func TestEndpointOfAPod(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		service *corev1.Service
		pod     *corev1.Pod
		want    string
	}{
		"a ready pod is ready and serving":                               {service(), running("web"), "10.0.0.1 ready serving"},
		"a pod that is not ready is there, and neither":                  {service(), running("web", notReady), "10.0.0.1"},
		"a pod that is going and works is serving, not ready":            {service(), running("web", going), "10.0.0.1 serving terminating"},
		"a pod that is going and works no more":                          {service(), running("web", going, notReady), "10.0.0.1 terminating"},
		"who publishes not ready pods calls them ready, and not serving": {service(publish), running("web", notReady), "10.0.0.1 ready"},
		"who publishes not ready pods calls going ones ready":            {service(publish), running("web", going), "10.0.0.1 ready serving terminating"},
		"a pod that has ended is no endpoint":                            {service(), running("web", ended), "none"},
		"a pod that has ended is none for who publishes all, either":     {service(publish), running("web", ended), "none"},
		"a pod without an address is no endpoint":                        {service(publish), running("web", func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }), "none"},
		"a pod without an address of the family is no endpoint":          {service(), running("web", func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[1:] }), "none"},
		"a pod on an unknown node is no endpoint":                        {service(), running("web", elsewhere), "none"},
		"it is one for who publishes all":                                {service(publish), running("web", elsewhere), "10.0.0.1 ready serving"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			endpoint, ok := given(test.service, test.pod).endpoint(test.pod, v4)
			got := "none"
			if ok {
				require.NotNil(t, endpoint.Conditions.Ready, "ready is neither true nor false")
				require.NotNil(t, endpoint.Conditions.Serving, "serving is neither true nor false")
				require.NotNil(t, endpoint.Conditions.Terminating, "terminating is neither true nor false")
				words := endpoint.Addresses
				for _, c := range []struct {
					is   bool
					word string
				}{{*endpoint.Conditions.Ready, "ready"}, {*endpoint.Conditions.Serving, "serving"}, {*endpoint.Conditions.Terminating, "terminating"}} {
					if c.is {
						words = append(words, c.word)
					}
				}
				got = strings.Join(words, " ")
			}
			assert.Equal(t, test.want, got, "the endpoint of the pod")
		})
	}
	t.Run("an endpoint says which pod it is and where", func(t *testing.T) {
		t.Parallel()
		p := running("web-0", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "zero", "web" })
		endpoint, ok := given(service(), p).endpoint(p, v6)
		require.True(t, ok, "the pod is an endpoint")
		assert.Equal(t, "fd00::1 zero on n in north: Pod default/web-0 uid-x", fmt.Sprintf("%s %s on %s in %s: %s %s/%s %s",
			strings.Join(endpoint.Addresses, ","), ptr.Deref(endpoint.Hostname, "-"), ptr.Deref(endpoint.NodeName, "-"), ptr.Deref(endpoint.Zone, "-"),
			endpoint.TargetRef.Kind, endpoint.TargetRef.Namespace, endpoint.TargetRef.Name, endpoint.TargetRef.UID))
	})
	t.Run("a pod that asks for no name in the Service has none", func(t *testing.T) {
		t.Parallel()
		p := running("web-0", func(p *corev1.Pod) { p.Spec.Hostname = "zero" })
		endpoint, _ := given(service(), p).endpoint(p, v4)
		assert.Nil(t, endpoint.Hostname)
	})
}

// slicesInWords returns slices as "8080: 10.0.0.1; empty".
func slicesInWords(slices []*discoveryv1.EndpointSlice) string {
	var words []string
	for _, slice := range slices {
		var ports, names []string
		for _, p := range slice.Ports {
			ports = append(ports, fmt.Sprint(*p.Port))
		}
		for _, e := range slice.Endpoints {
			names = append(names, e.TargetRef.Name)
		}
		words = append(words, strings.TrimSpace(slice.Name+" "+strings.Join(ports, ",")+": "+strings.Join(names, " ")))
	}
	return strings.Join(words, "; ")
}

func TestSlicesOfAService(t *testing.T) {
	t.Parallel()
	t.Run("pods with different ports are in different slices", func(t *testing.T) {
		t.Parallel()
		plan := decide(given(service(), running("a"), running("b", port(9090)), running("c")), v4, 100)
		assert.Equal(t, "8080: a c; 9090: b", slicesInWords(plan.Create))
	})
	t.Run("a Service without pods has an empty slice, once", func(t *testing.T) {
		t.Parallel()
		seen := given(service(labelled))
		plan := decide(seen, v4, 100)
		require.Equal(t, ":", slicesInWords(plan.Create))
		plan.Create[0].Name = "web-1"
		seen.slices = plan.Create
		plan = decide(seen, v4, 100)
		assert.Empty(t, inWords(plan), "is written though nothing has changed")
		assert.Len(t, plan.Unchanged, 1)
	})
	t.Run("the empty slice is filled when pods come, and emptied when they go", func(t *testing.T) {
		t.Parallel()
		seen := given(service())
		seen.slices = decide(seen, v4, 100).Create
		seen.slices[0].Name, seen.slices[0].ResourceVersion = "web-1", "7"
		seen.pods = []*corev1.Pod{running("a")}
		plan := decide(seen, v4, 100)
		require.Equal(t, "web-1 8080: a", slicesInWords(plan.Update), "to be updated")
		require.Empty(t, plan.Create, "to be created")
		require.Equal(t, "7", plan.Update[0].ResourceVersion, "the version without which a write of somebody else would be overwritten")
		seen.slices, seen.pods = plan.Update, nil
		plan = decide(seen, v4, 100)
		assert.Equal(t, "web-1 :", slicesInWords(plan.Update))
		assert.Empty(t, plan.Create)
		assert.Empty(t, plan.Delete)
	})
	t.Run("a headless Service without ports has its pods in slices without ports", func(t *testing.T) {
		t.Parallel()
		plan := decide(given(service(headless), running("a")), v4, 100)
		require.Equal(t, ": a", slicesInWords(plan.Create))
		assert.Contains(t, plan.Create[0].Labels, corev1.IsHeadlessService)
	})
	without := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }
	withMetrics := func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("metrics")})
	}
	metricsOnly := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}}
	}
	overUDP := func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }
	for what, test := range map[string]struct {
		service *corev1.Service
		pods    []*corev1.Pod
		want    string
	}{
		"a pod that has no port of that name is no endpoint":         {service(), []*corev1.Pod{running("a"), running("b", without)}, "8080: a"},
		"if no pod has it, the slice is empty":                       {service(), []*corev1.Pod{running("b", without)}, ":"},
		"that name at another protocol is another port":              {service(), []*corev1.Pod{running("b", overUDP)}, ":"},
		"who publishes pods that are not ready has it left out, too": {service(publish), []*corev1.Pod{running("b", without, notReady)}, ":"},
		"a headless Service that names a port has it left out, too": {service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }),
			[]*corev1.Pod{running("a"), running("b", without)}, "8080: a"},
		"a pod that has some of the ports is an endpoint of those": {service(withMetrics), []*corev1.Pod{running("a"), running("b", metricsOnly), running("c", without)},
			"8080: a; 9090: b"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, slicesInWords(decide(given(test.service, test.pods...), v4, 100).Create))
		})
	}
	t.Run("a slice without ports goes when its pods are no endpoints any more", func(t *testing.T) {
		t.Parallel()
		seen := given(service(headless), running("a", without))
		seen.slices = decide(seen, v4, 100).Create
		seen.slices[0].Name = "web-1"
		seen.service, seen.mayWait = service(), true
		assert.Equal(t, "web-1 :", slicesInWords(decide(seen, v4, 100).Update))
	})
	t.Run("a Service of two families has slices of both", func(t *testing.T) {
		t.Parallel()
		seen := given(service(bothKinds), running("a"))
		assert.Equal(t, []string{"10.0.0.1"}, decide(seen, v4, 100).Create[0].Endpoints[0].Addresses)
		assert.Equal(t, []string{"fd00::1"}, decide(seen, v6, 100).Create[0].Endpoints[0].Addresses)
	})
	t.Run("a family that the Service has no more goes", func(t *testing.T) {
		t.Parallel()
		seen := given(service(bothKinds), running("a"))
		seen.slices = decide(seen, v6, 100).Create
		seen.slices[0].Name = "web-6"
		seen.service = service()
		assert.Equal(t, "delete web-6", inWords(decide(seen, v6, 100)))
		assert.Equal(t, "create 1", inWords(decide(seen, v4, 100)), "an IPv6 slice must not become one of IPv4")
	})
	t.Run("slices of another Service that had the name go, and are not filled", func(t *testing.T) {
		t.Parallel()
		seen := given(service(func(s *corev1.Service) { s.UID = "before" }), running("a"))
		seen.slices = decide(seen, v4, 100).Create
		seen.slices[0].Name = "web-1"
		seen.service = service()
		assert.Equal(t, "create 1; delete web-1", inWords(decide(seen, v4, 100)))
	})
	t.Run("ports in another order are the same ports", func(t *testing.T) {
		t.Parallel()
		two := service(func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9)})
		})
		seen := given(two, running("a"))
		slice := decide(seen, v4, 100).Create[0]
		slice.Name = "web-1"
		slice.Ports[0], slice.Ports[1] = slice.Ports[1], slice.Ports[0]
		seen.slices = []*discoveryv1.EndpointSlice{slice}
		assert.Empty(t, inWords(decide(seen, v4, 100)))
	})
	t.Run("pods on unknown nodes are told of", func(t *testing.T) {
		t.Parallel()
		assert.EqualError(t, given(service(), running("a"), running("b", elsewhere), running("c", elsewhere, ended)).lackingNodes(),
			"skipping Pod b for Service default/web: Node unknown Not Found")
		assert.NoError(t, given(service(publish), running("b", elsewhere)).lackingNodes())
	})
}

func TestPortsAreComparedWithThoseOfThePodBefore(t *testing.T) {
	const size = 700
	s, pods := service(), []*corev1.Pod{}
	s.Spec.Ports = nil
	for n := range size {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", n), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(int32(1 + n))})
		pods = append(pods, running(fmt.Sprint("web-", n)))
	}
	allocations := testing.AllocsPerRun(1, func() {
		plan := decide(given(s, pods...), discoveryv1.AddressTypeIPv4, 1000)
		require.Len(t, plan.Create, 1)
		require.Len(t, plan.Create[0].Endpoints, size)
	})
	assert.Less(t, allocations, 100.*size, "there are %d pairs", size*size)
}
