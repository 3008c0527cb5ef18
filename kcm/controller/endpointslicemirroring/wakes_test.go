package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs that only if
// it is said to.
func starting(client *fake.Clientset, syncs bool, edit func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		core := factory.Core().V1()
		c := NewController(ctx, core.Endpoints(), factory.Discovery().V1().EndpointSlices(), core.Services(), 2, client, 0)
		edit(c)
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - the Endpoints: all of them, but for those that are a lock or ask not to be mirrored;
//   - their Service: whether it is there, its type, and whether it selects pods;
//   - slices that this controller manages: all of them.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	endpoints := func(edit func(*corev1.Endpoints)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			changed := byHand("8080: 192.0.2.1")
			edit(changed)
			_, err := client.CoreV1().Endpoints("default").Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}
	}
	service := func(name string, edit func(*corev1.Service)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			changed := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			edit(changed)
			_, err := client.CoreV1().Services("default").Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}
	}
	slice := func(manager string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			changed := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-" + manager, Generation: 2,
				Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager}}}
			_, err := client.DiscoveryV1().EndpointSlices("default").Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}
	}
	selects := func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the Endpoints have another address": {endpoints(func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "192.0.2.2" }), "web"},
		"the Endpoints have another note":    {endpoints(func(e *corev1.Endpoints) { e.Annotations["note"] = "other" }), "web"},
		"the Endpoints are to go":            {endpoints(func(e *corev1.Endpoints) { e.DeletionTimestamp, e.Finalizers = new(metav1.Now()), []string{"x"} }), "web"},
		"the Endpoints go": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Endpoints("default").Delete(ctx, "web", metav1.DeleteOptions{})
		}, "web"},
		"the Service goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{})
		}, "web"},
		"a Service with a selector goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Services("default").Delete(ctx, "pods", metav1.DeleteOptions{})
		}, ""},
		"the Service gains a selector":            {service("web", selects), "web"},
		"another loses it":                        {service("pods", func(*corev1.Service) {}), "pods"},
		"another becomes a mere name":             {service("pods", func(s *corev1.Service) { selects(s); s.Spec.Type = corev1.ServiceTypeExternalName }), "pods"},
		"the Service becomes a mere name":         {service("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), "web"},
		"another has another selector":            {service("pods", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} }), ""},
		"the Service has another port":            {service("web", func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 80}} }), ""},
		"a slice that this loop wrote is changed": {slice(ControllerName), "web"},
		"a slice of somebody else is changed":     {slice("me"), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pods := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pods"}}
			selects(pods)
			client := fake.NewClientset(pods, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}, byHand("8080: 192.0.2.1"))
			for _, manager := range []string{ControllerName, "me"} {
				_, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "of-" + manager, Generation: 1,
					Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager}}}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			start := starting(client, false, func(*Controller) {})
			woken := bubble.Woken(t, client, start, func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, test.want, woken)
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	client := fake.NewClientset(service, byHand("8080: 192.0.2.1"))
	bubble.Deaf(client, "endpointslices")
	var waits *endpointslice.Store
	again := func(c *Controller) {
		waits = c.slices
		c.loop.AddAfter(cache.MetaObjectToName(service), time.Second) // when its slice was written
	}
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, again), sent), bubble.Most)
	_, err := waits.Of(t.Context(), service)
	assert.ErrorIs(t, err, controller.ErrStaleCache, "it still waits")
}
