package endpointslice

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes both loops. They note what they are asked to look at, and
// sync that only if they are said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		core := factory.Core().V1()
		c := NewController(ctx, core.Pods(), core.Services(), core.Nodes(), factory.Discovery().V1().EndpointSlices(), limit, client, 0)
		for _, edit := range edits {
			edit(c)
		}
		zones := c.lookAtNodes
		if !syncs {
			zones = func(context.Context, string) error { c.haveLooked.Store(true); return nil }
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		c.zones.Sync = func(ctx context.Context, key string) error { note("zones"); return zones(ctx, key) }
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - a pod: labels, whether it is to go, phase, addresses, readiness, node;
//   - a node of the Service's pods: whether it is there, and its zone;
//   - all nodes, for the hints of Services that ask for the annotation: whether one counts, its zone and its CPUs;
//   - slices that this controller manages: all of them.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	nodeWith := func(change func(*corev1.Node)) func(context.Context, *fake.Clientset) error {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), "n", change)
		}
	}
	podWith := func(change func(*corev1.Pod)) func(context.Context, *fake.Clientset) error {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods("default").Update(ctx, running("a", change), metav1.UpdateOptions{})
			return err
		}
	}
	sliceWith := func(change func(*discoveryv1.EndpointSlice)) func(context.Context, *fake.Clientset) error {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.DiscoveryV1().EndpointSlices("default"), "web-1", func(s *discoveryv1.EndpointSlice) {
				change(s)
				s.Generation++
			})
		}
	}
	for what, test := range map[string]struct {
		change func(ctx context.Context, client *fake.Clientset) error
		want   string
	}{
		"a pod comes": {func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods("default").Create(ctx, running("b"), metav1.CreateOptions{})
			return err
		}, "web"},
		"a pod goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{})
		}, "web"},
		"a pod is another Service's":  {podWith(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }), "other web"},
		"a pod is to go":              {podWith(going), "web"},
		"a pod ends":                  {podWith(ended), "web"},
		"a pod is not ready":          {podWith(notReady), "web"},
		"a pod has another address":   {podWith(func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[1:] }), "web"},
		"a pod is bound":              {podWith(elsewhere), "web"},
		"a pod has a note":            {podWith(func(p *corev1.Pod) { p.Annotations = map[string]string{"note": "x"} }), ""},
		"a pod starts another time":   {podWith(func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} }), ""},
		"the zone of a node is known": {nodeWith(func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "north" }), "web zones"},
		"a node of no pods is in another zone": {func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), "m", func(m *corev1.Node) { m.Labels = map[string]string{corev1.LabelTopologyZone: "south"} })
		}, ""}, // it does not work
		"a node goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{})
		}, "web zones"},
		"a node comes of which a pod is said": {func(ctx context.Context, client *fake.Clientset) error {
			unknown := node()
			unknown.Name = "unknown"
			_, err := client.CoreV1().Nodes().Create(ctx, unknown, metav1.CreateOptions{})
			return err
		}, "waits zones"},
		"a node comes without pods": {func(ctx context.Context, client *fake.Clientset) error {
			empty := node()
			empty.Name = "empty"
			_, err := client.CoreV1().Nodes().Create(ctx, empty, metav1.CreateOptions{})
			return err
		}, "zones"},
		"a node does not work any more": {nodeWith(func(n *corev1.Node) { n.Status.Conditions = nil }), "zones"},
		"a node has more CPUs":          {nodeWith(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8") }), "zones"},
		"a node is of a control plane":  {nodeWith(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }), "zones"},
		"a node says that it lives":     {nodeWith(func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }), ""},
		"a node has another label":      {nodeWith(func(n *corev1.Node) { n.Labels["disk"] = "fast" }), ""},
		"a slice has other endpoints": {sliceWith(func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}}}
		}), "web"},
		"a slice has another label":    {sliceWith(func(s *discoveryv1.EndpointSlice) { s.Labels["team"] = "blue" }), "web"},
		"a slice is somebody else's":   {sliceWith(func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "me" }), "web"},
		"a slice is another Service's": {sliceWith(func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" }), "other web"},
		"a slice of somebody else changes": {func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.DiscoveryV1().EndpointSlices("default"), "theirs", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, m := node(), node()
			n.Labels = map[string]string{}
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			m.Name = "m"
			client := fake.NewClientset(n, m, service(), running("a"), running("c", elsewhere, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "waits"} }),
				service(func(s *corev1.Service) { s.Name, s.Spec.Selector = "other", map[string]string{"app": "other"} }),
				service(func(s *corev1.Service) { s.Name, s.Spec.Selector = "waits", map[string]string{"app": "waits"} }),
				sliceOf("web-1", ControllerName), sliceOf("theirs", "me"))
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), running("a"))
	bubble.Deaf(client, "endpointslices")
	sent := func() int { return len(client.Actions()) }
	again := func(c *Controller) { c.loop.AddAfter(cache.NewObjectName("default", "web"), time.Second) } // when its slice was written
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, again), sent), bubble.Most)
}

// sliceOf returns a slice of the Service web.
func sliceOf(name, manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-of-a-slice", Generation: 1,
			Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
}
