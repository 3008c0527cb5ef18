package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs that only if
// it is said to.
func starting(client *fake.Clientset, syncs bool, edit func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		core := factory.Core().V1()
		c := NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
		edit(c)
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - a pod: labels, whether it is to go, phase, addresses, readiness, node;
//   - the Endpoints: subsets, labels, and whether they say that they are cut off.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	pod := func(edit func(*corev1.Pod)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods("default").Update(ctx, running(1, edit), metav1.UpdateOptions{})
			return err
		}
	}
	endpoints := func(name string, edit func(*corev1.Endpoints)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Endpoints("default"), name, edit)
		}
	}
	other := func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "192.0.2.1" }
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a pod comes": {func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods("default").Create(ctx, running(2), metav1.CreateOptions{})
			return err
		}, "web"},
		"a pod goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Pods("default").Delete(ctx, running(1).Name, metav1.DeleteOptions{})
		}, "web"},
		"a pod is nobody's any more":          {pod(func(p *corev1.Pod) { p.Labels = nil }), "web"},
		"a pod is to go":                      {pod(going), "web"},
		"a pod ends":                          {pod(ended), "web"},
		"a pod is not ready":                  {pod(notReady), "web"},
		"a pod has another address":           {pod(func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[1:] }), "web"},
		"a pod is bound":                      {pod(func(p *corev1.Pod) { p.Spec.NodeName = "m" }), "web"},
		"a pod has a note":                    {pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"note": "x"} }), ""},
		"the Endpoints have another address":  {endpoints("web", other), "web"},
		"the Endpoints have another label":    {endpoints("web", func(e *corev1.Endpoints) { e.Labels = map[string]string{"team": "blue"} }), "web"},
		"the Endpoints say they are cut off":  {endpoints("web", func(e *corev1.Endpoints) { e.Annotations = map[string]string{corev1.EndpointsOverCapacity: truncated} }), "web"},
		"the Endpoints have a note":           {endpoints("web", func(e *corev1.Endpoints) { e.Annotations = map[string]string{"note": "x"} }), ""},
		"the Endpoints are as the loop wrote": {endpoints("web", func(e *corev1.Endpoints) { other(e); e.ResourceVersion = "9" }), ""},
		"Endpoints without a Service change":  {endpoints("alone", other), ""},
		"Endpoints of an outside name change": {endpoints("outside", other), ""},
		"Endpoints written by hand change":    {endpoints("hand", other), ""},
		"the Endpoints go": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Endpoints("default").Delete(ctx, "web", metav1.DeleteOptions{})
		}, "web"},
		"the zone of a node is known": {func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), "n", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "north"} })
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, service(), running(1),
				service(func(s *corev1.Service) { s.Name, s.Spec.Selector = "hand", nil }),
				service(func(s *corev1.Service) { s.Name, s.Spec.Type = "outside", corev1.ServiceTypeExternalName }),
				written("web"), written("alone"), written("hand"), written("outside"))
			wrote := func(c *Controller) { c.writes.Wrote(cache.NewObjectName("default", "web"), "9") }
			woken := bubble.Woken(t, client, starting(client, false, wrote), func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, test.want, woken)
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	for what, later := range map[string]func(*corev1.Service){
		"no cache shows its Endpoints":                              func(*corev1.Service) {},
		"nor when the Service becomes a name for something outside": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(service(), running(1))
			bubble.Ahead(client)
			waits := controller.NewOwnWrites(bubble.Late{})
			late := func(c *Controller) {
				c.writes = waits
				time.AfterFunc(time.Second, func() { // it has written them by then
					assert.NoError(t, bubble.Edit(t.Context(), client.CoreV1().Services("default"), "web", later))
				})
			}
			sent := func() int { return len(client.Actions()) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, late), sent), bubble.Most)
			assert.ErrorIs(t, waits.Observed(cache.NewObjectName("default", "web")), controller.ErrStaleCache, "it still waits")
		})
	}
}

// written returns Endpoints as they may be there.
func written(name string) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}}},
	}
}

func TestEndpointsThatSomebodyHasChangedArePutRight(t *testing.T) {
	t.Parallel()
	client := server(service(), running(1))
	play(t, client, 0, func(ctx context.Context) {
		api := client.CoreV1().Endpoints("default")
		wrong, err := api.Get(ctx, "web", metav1.GetOptions{})
		require.NoError(t, err)
		wrong = wrong.DeepCopy()
		wrong.Subsets[0].Addresses[0].IP = "192.0.2.1"
		_, err = api.Update(ctx, wrong, metav1.UpdateOptions{})
		require.NoError(t, err)
		wait(0)
		require.Equal(t, "8080: 192.0.2.1", there(client, "web"))
		wait(time.Minute)
		assert.Equal(t, "8080: 10.0.0.1", there(client, "web"))
	})
}
