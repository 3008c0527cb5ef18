package endpointslice

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// slowNetwork holds the answers to writes of slices for as long as there is something to
// wait for.
type slowNetwork struct {
	*fake.Clientset
	until atomic.Pointer[chan struct{}]
}

type slowDiscovery struct {
	discoveryclient.DiscoveryV1Interface
	network *slowNetwork
}

type slowSlices struct {
	discoveryclient.EndpointSliceInterface
	network *slowNetwork
}

func (n *slowNetwork) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return slowDiscovery{n.Clientset.DiscoveryV1(), n}
}

func (d slowDiscovery) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	return slowSlices{d.DiscoveryV1Interface.EndpointSlices(namespace), d.network}
}

func (s slowSlices) Create(ctx context.Context, slice *discoveryv1.EndpointSlice, options metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	created, err := s.EndpointSliceInterface.Create(ctx, slice, options)
	s.network.hold()
	return created, err
}

func (s slowSlices) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, options metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	updated, err := s.EndpointSliceInterface.Update(ctx, slice, options)
	s.network.hold()
	return updated, err
}

func (n *slowNetwork) hold() {
	if until := n.until.Load(); until != nil {
		<-*until
	}
}

func TestWhatGoesBeforeTheAnswerToItsWriteComesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		pods []string // that are there when the network becomes slow
		then func(ctx context.Context, t *testing.T, client *fake.Clientset)
	}{
		"with the Service, which is made anew": {[]string{"a"}, func(ctx context.Context, t *testing.T, client *fake.Clientset) {
			deleteSlices(ctx, t, client)
			require.NoError(t, client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			synctest.Wait()
			_, err := client.CoreV1().Services("default").Create(ctx, service(func(s *corev1.Service) { s.UID = "anew" }), metav1.CreateOptions{})
			require.NoError(t, err)
		}},
		"alone":                    {[]string{"a"}, deleteSlices},
		"though it has only begun": {[]string{"a", "b", "c", "d"}, deleteSlices},
		"because somebody has taken it": {[]string{"a"}, func(ctx context.Context, t *testing.T, client *fake.Clientset) {
			changeSlice(ctx, t, client, func(slice *discoveryv1.EndpointSlice) {
				slice.Labels, slice.Endpoints = map[string]string{"mine": "now"}, nil
			})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := server(node(), service())
			network := &slowNetwork{Clientset: client}
			play(t, network, 0, func(ctx context.Context) {
				pod := func(name string) {
					_, err := client.CoreV1().Pods("default").Create(ctx, running(name), metav1.CreateOptions{})
					require.NoError(t, err)
				}
				for _, name := range test.pods {
					pod(name)
				}
				time.Sleep(time.Minute)
				answered := make(chan struct{})
				network.until.Store(&answered)
				pod("last")
				time.Sleep(time.Second)
				test.then(ctx, t, client)
				synctest.Wait()
				close(answered)
				time.Sleep(time.Minute)
				synctest.Wait()
				got := there(t, client)
				for _, name := range append(test.pods, "last") {
					assert.Contains(t, got, name)
				}
				before := len(client.Actions())
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Len(t, client.Actions(), before, "requests of an hour in which nothing happens")
			})
		})
	}
}

func deleteSlices(ctx context.Context, t *testing.T, client *fake.Clientset) {
	t.Helper()
	list, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for _, slice := range list.Items {
		require.NoError(t, client.DiscoveryV1().EndpointSlices("default").Delete(ctx, slice.Name, metav1.DeleteOptions{}))
	}
}

func TestASliceThatAFinalizerHoldsIsReplaced(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), running("a"))
	play(t, client, 0, func(ctx context.Context) {
		changeSlice(ctx, t, client, func(slice *discoveryv1.EndpointSlice) {
			slice.DeletionTimestamp, slice.Finalizers = new(metav1.Now()), []string{"x"}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, "a; a", there(t, client))
	})
}
