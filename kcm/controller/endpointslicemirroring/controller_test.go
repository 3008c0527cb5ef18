package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

// play runs the controller in a bubble, with the Service web that has no selector, and these Endpoints.
func play(t *testing.T, endpoints *corev1.Endpoints, body func(ctx context.Context, client *fake.Clientset)) {
	t.Helper()
	playWith(t, endpoints, func(*fake.Clientset) {}, body)
}

// playWith is play with a client that is prepared, in the bubble.
func playWith(t *testing.T, endpoints *corev1.Endpoints, prepare func(client *fake.Clientset), body func(ctx context.Context, client *fake.Clientset)) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	client := fake.NewClientset(service, endpoints)
	var created atomic.Int64
	client.PrependReactor("create", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		slice := action.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice)
		slice.Name = fmt.Sprint(slice.GenerateName, created.Add(1))
		slice.UID = types.UID(slice.Name)
		return false, nil, nil
	})
	synctest.Test(t, func(t *testing.T) {
		prepare(client)
		ctx, stop := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
		core := factory.Core().V1()
		c := NewController(ctx, core.Endpoints(), factory.Discovery().V1().EndpointSlices(), core.Services(), 2, client, 0)
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 2) })
		wait()
		body(ctx, client)
		stop()
		running.Wait()
		factory.Shutdown()
	})
}

func wait() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// there returns the addresses in all slices of the API server.
func there(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	list, err := client.DiscoveryV1().EndpointSlices("default").List(context.Background(), metav1.ListOptions{})
	require.NoError(t, err)
	var all []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			all = append(all, endpoint.Addresses...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestAMirrorEnds(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(ctx context.Context, client *fake.Clientset) error{
		"with the Endpoints": func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Endpoints("default").Delete(ctx, "web", metav1.DeleteOptions{})
		},
		"with their Service": func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{})
		},
		"when the Service gains a selector": func(ctx context.Context, client *fake.Clientset) error {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
			_, err := client.CoreV1().Services("default").Update(ctx, service, metav1.UpdateOptions{})
			return err
		},
		"when a label asks for it": func(ctx context.Context, client *fake.Clientset) error {
			endpoints := byHand("8080: 192.0.2.1")
			endpoints.Labels[discoveryv1.LabelSkipMirror] = "true"
			_, err := client.CoreV1().Endpoints("default").Update(ctx, endpoints, metav1.UpdateOptions{})
			return err
		},
		"when the Endpoints are a lock": func(ctx context.Context, client *fake.Clientset) error {
			endpoints := byHand("8080: 192.0.2.1")
			endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey] = "{}"
			_, err := client.CoreV1().Endpoints("default").Update(ctx, endpoints, metav1.UpdateOptions{})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			play(t, byHand("8080: 192.0.2.1"), func(ctx context.Context, client *fake.Clientset) {
				require.Equal(t, "192.0.2.1", there(t, client))
				require.NoError(t, end(ctx, client))
				wait()
				assert.Equal(t, "", there(t, client))
			})
		})
	}
}

func TestAMirrorWhoseDeletionAWebhookDeniesGoesWhenItDoesSoNoMore(t *testing.T) {
	t.Parallel()
	play(t, byHand("8080: 192.0.2.1"), func(ctx context.Context, client *fake.Clientset) {
		denials := 2
		client.PrependReactor("delete", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			denials--
			return denials >= 0, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: `admission webhook "shop.example.com" denied the request`}}
		})
		require.Equal(t, "192.0.2.1", there(t, client))
		require.NoError(t, client.CoreV1().Endpoints("default").Delete(ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, there(t, client), "the webhook has answered twice with 404")
	})
}

func TestOfAMereNameThoseEndpointsAreMirroredThatAUserHasWritten(t *testing.T) {
	t.Parallel()
	for manager, want := range map[string]string{"kubectl-edit": "192.0.2.1", servicepods.FieldManager: ""} {
		t.Run("written by "+manager, func(t *testing.T) {
			t.Parallel()
			endpoints := byHand("8080: 192.0.2.1")
			endpoints.Labels["endpoints.kubernetes.io/managed-by"] = "endpoint-controller"
			endpoints.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:subsets":{}}`)}}
			play(t, endpoints, func(ctx context.Context, client *fake.Clientset) {
				require.Equal(t, "192.0.2.1", there(t, client), "of a Service that is no name, and has no selector")
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}
				_, err := client.CoreV1().Services("default").Update(ctx, service, metav1.UpdateOptions{})
				require.NoError(t, err)
				wait()
				assert.Equal(t, want, there(t, client))
			})
		})
	}
}

func TestASliceThatNamesNoServiceStays(t *testing.T) {
	t.Parallel()
	play(t, byHand("8080: 192.0.2.1"), func(ctx context.Context, client *fake.Clientset) {
		api := client.DiscoveryV1().EndpointSlices("default")
		_, err := api.Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", GenerateName: "lone-", Labels: map[string]string{discoveryv1.LabelManagedBy: ControllerName}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		wait()
		assert.Equal(t, "192.0.2.1 192.0.2.9", there(t, client))
	})
}

func TestASliceThatSomebodyTakesAwayStaysAndAnotherTakesItsPlace(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(labels map[string]string){
		"for another manager": func(labels map[string]string) { labels[discoveryv1.LabelManagedBy] = "me" },
		"for no Service":      func(labels map[string]string) { delete(labels, discoveryv1.LabelServiceName) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			play(t, byHand("8080: 192.0.2.1"), func(ctx context.Context, client *fake.Clientset) {
				api := client.DiscoveryV1().EndpointSlices("default")
				list, err := api.List(ctx, metav1.ListOptions{})
				require.NoError(t, err)
				slice := list.Items[0].DeepCopy()
				take(slice.Labels)
				_, err = api.Update(ctx, slice, metav1.UpdateOptions{})
				require.NoError(t, err)
				wait()
				require.Equal(t, "192.0.2.1 192.0.2.1", there(t, client))
				_, err = client.CoreV1().Endpoints("default").Update(ctx, byHand("8080: 192.0.2.2"), metav1.UpdateOptions{})
				require.NoError(t, err)
				wait()
				assert.Equal(t, "192.0.2.1 192.0.2.2", there(t, client), "what was taken stays as it was, and the other is written")
			})
		})
	}
}

func TestWhatIsLeftOutIsTold(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ endpoints, there, want string }{
		"no address": {"8080: 192.0.2.1 nowhere", "192.0.2.1",
			"InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices"},
		"too many": {"8080: 192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4!", "192.0.2.1 192.0.2.2",
			"TooManyAddressesToMirror: A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			play(t, byHand(test.endpoints), func(ctx context.Context, client *fake.Clientset) {
				require.Equal(t, test.there, there(t, client))
				events, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
				require.NoError(t, err)
				require.Len(t, events.Items, 1)
				assert.Equal(t, test.want, events.Items[0].Reason+": "+events.Items[0].Message)
			})
		})
	}
}

func TestALateCacheIsLookedAtAgainSoonHoweverLateItWas(t *testing.T) {
	t.Parallel()
	var seen *watch.FakeWatcher
	late := func(client *fake.Clientset) {
		seen = watch.NewFake()
		client.PrependWatchReactor("endpointslices", func(clienttesting.Action) (bool, watch.Interface, error) { return true, seen, nil })
	}
	playWith(t, byHand("8080: 192.0.2.1"), late, func(ctx context.Context, client *fake.Clientset) {
		_, err := client.CoreV1().Endpoints("default").Update(ctx, byHand("8080: 192.0.2.1 192.0.2.2"), metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Equal(t, "192.0.2.1", there(t, client), "the cache does not show what was written yet")
		list, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		seen.Add(&list.Items[0])
		time.Sleep(controller.StaleDelay)
		synctest.Wait()
		assert.Equal(t, "192.0.2.1 192.0.2.2", there(t, client))
	})
}
