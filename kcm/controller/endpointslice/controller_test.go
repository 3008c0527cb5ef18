package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/endpointslice/metrics"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// server is an API server in memory that gives slices names, UIDs and generations.
func server(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	var lock sync.Mutex
	n := int64(0)
	client.PrependReactor("*", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		write, ok := action.(clienttesting.CreateAction) // an update has the same methods
		if !ok {
			return false, nil, nil
		}
		lock.Lock()
		defer lock.Unlock()
		n++
		slice := write.GetObject().(*discoveryv1.EndpointSlice)
		slice.Generation = n
		if slice.Name == "" {
			slice.Name = fmt.Sprint(slice.GenerateName, n)
			slice.UID = types.UID(slice.Name)
		}
		return false, nil, nil
	})
	return client
}

// play runs the controller in a bubble until body returns.
func play(t *testing.T, client kubernetes.Interface, batchPeriod time.Duration, body func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
		core := factory.Core().V1()
		c := NewController(ctx, core.Pods(), core.Services(), core.Nodes(), factory.Discovery().V1().EndpointSlices(), limit, client, batchPeriod)
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 2) })
		time.Sleep(time.Second) // informers look after a tenth of it whether their caches are filled
		synctest.Wait()
		body(ctx)
		stop()
		running.Wait()
		factory.Shutdown()
	})
}

func node() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}} }

// there returns what the API server has, as "a b; c".
func there(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	list, err := client.DiscoveryV1().EndpointSlices("default").List(context.Background(), metav1.ListOptions{})
	require.NoError(t, err)
	var words []string
	for _, slice := range list.Items {
		var names []string
		for _, e := range slice.Endpoints {
			names = append(names, e.TargetRef.Name)
		}
		slices.Sort(names)
		words = append(words, strings.Join(names, " "))
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

func writes(client *fake.Clientset) int {
	n := 0
	for _, action := range client.Actions() {
		if action.GetResource().Resource == "endpointslices" && slices.Contains([]string{"create", "update", "delete"}, action.GetVerb()) {
			n++
		}
	}
	return n
}

func TestSlicesFollowThePodsOfAService(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), running("a"), running("b"))
	play(t, client, 0, func(ctx context.Context) {
		require.Equal(t, "a b", there(t, client))
		pods := client.CoreV1().Pods("default")
		for _, name := range []string{"c", "d", "e"} {
			_, err := pods.Create(ctx, running(name), metav1.CreateOptions{})
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, "a b c d; e", there(t, client))
		require.NoError(t, pods.Delete(ctx, "e", metav1.DeleteOptions{}))
		require.NoError(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, "b c d", there(t, client))
	})
}

func TestWhatChangesWithinTheBatchPeriodIsWrittenTogether(t *testing.T) {
	t.Parallel()
	client := server(node(), service())
	play(t, client, time.Second, func(ctx context.Context) {
		time.Sleep(time.Second) // the slice may have come back before the answer to its creation: the loop looks once more
		synctest.Wait()
		before := writes(client)
		for _, name := range []string{"a", "b", "c"} {
			_, err := client.CoreV1().Pods("default").Create(ctx, running(name), metav1.CreateOptions{})
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, before, writes(client), "writes before the period has passed")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "a b c", there(t, client))
		assert.Equal(t, before+1, writes(client), "writes for three pods")
	})
}

func TestItsOwnWritesAreNothingNew(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), running("a"))
	play(t, client, 0, func(context.Context) {
		before := writes(client)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, before, writes(client))
	})
}

// changeSlice changes the first slice as somebody else does, and returns its name.
func changeSlice(ctx context.Context, t *testing.T, client *fake.Clientset, edit func(slice *discoveryv1.EndpointSlice)) string {
	t.Helper()
	api := client.DiscoveryV1().EndpointSlices("default")
	list, err := api.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	slice := list.Items[0].DeepCopy()
	edit(slice)
	_, err = api.Update(ctx, slice, metav1.UpdateOptions{})
	require.NoError(t, err)
	return slice.Name
}

func TestWhatSomebodyElseDoesToASliceIsPutRightAfterASecond(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), running("a"))
	play(t, client, 0, func(ctx context.Context) {
		slice := changeSlice(ctx, t, client, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = nil })
		synctest.Wait()
		require.Equal(t, "", there(t, client))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "a", there(t, client))
		require.NoError(t, client.DiscoveryV1().EndpointSlices("default").Delete(ctx, slice, metav1.DeleteOptions{}))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "a", there(t, client))
	})
}

func TestASliceThatSomebodyTakesAwayStaysAndAnotherTakesItsPlace(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(labels map[string]string){
		"for another manager":  func(labels map[string]string) { labels[discoveryv1.LabelManagedBy] = "me" },
		"for another Service":  func(labels map[string]string) { labels[discoveryv1.LabelServiceName] = "other" },
		"for no Service":       func(labels map[string]string) { delete(labels, discoveryv1.LabelServiceName) },
		"for nobody in either": func(labels map[string]string) { clear(labels) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := server(node(), service(), running("a"))
			play(t, client, 0, func(ctx context.Context) {
				changeSlice(ctx, t, client, func(slice *discoveryv1.EndpointSlice) { take(slice.Labels) })
				time.Sleep(minSliceDelay)
				synctest.Wait()
				require.Equal(t, "a; a", there(t, client))
				_, err := client.CoreV1().Pods("default").Create(ctx, running("b"), metav1.CreateOptions{})
				require.NoError(t, err)
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, "a; a b", there(t, client), "what was taken stays as it was, and the other is written")
			})
		})
	}
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	client := server(node(), service(), running("a"))
	failures := 2
	client.PrependReactor("create", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		failures--
		return failures >= 0, nil, errors.New("the server is busy")
	})
	play(t, client, 0, func(context.Context) {
		require.Equal(t, "", there(t, client))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "", there(t, client), "after a second or two")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, "a", there(t, client), "after three seconds more")
	})
}

func TestAPodOnAnUnknownNodeIsToldOfWhenTheNodeIsThere(t *testing.T) {
	t.Parallel()
	client := server(service(), running("a"))
	play(t, client, 0, func(ctx context.Context) {
		require.Equal(t, "", there(t, client))
		_, err := client.CoreV1().Nodes().Create(ctx, node(), metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, "a", there(t, client))
	})
}

func TestNothingIsCreatedForAServiceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	client := server(node(), service(func(s *corev1.Service) { s.DeletionTimestamp, s.Finalizers = new(metav1.Now()), []string{"x"} }), running("a"))
	play(t, client, 0, func(context.Context) { assert.Zero(t, writes(client)) })
}

func TestAServiceWithoutASelectorIsLeftAlone(t *testing.T) {
	t.Parallel()
	client := server(node(), service(func(s *corev1.Service) { s.Spec.Selector = nil }), running("a"))
	play(t, client, 0, func(context.Context) { assert.Zero(t, writes(client)) })
}

func TestSlicesOfAServiceThatSelectsPodsNoMoreGoButForAUsers(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*corev1.Service){
		"it loses its selector":            func(s *corev1.Service) { s.Spec.Selector = nil },
		"it has an empty one":              func(s *corev1.Service) { s.Spec.Selector = map[string]string{} },
		"it is a name for what is outside": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := server(node(), service(), service(func(s *corev1.Service) { s.Name, s.Spec.Selector = "hand", nil }), running("a"))
			copied := sliceOf("copied", ControllerName)
			copied.Labels[discoveryv1.LabelServiceName] = "hand"
			copied.Endpoints[0].TargetRef = &corev1.ObjectReference{Name: "copied"}
			play(t, client, 0, func(ctx context.Context) {
				_, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, copied, metav1.CreateOptions{FieldManager: "kubectl-create"})
				require.NoError(t, err)
				require.Equal(t, "a; copied", there(t, client))
				_, err = client.CoreV1().Services("default").Update(ctx, service(change), metav1.UpdateOptions{})
				require.NoError(t, err)
				time.Sleep(900 * time.Millisecond)
				synctest.Wait()
				require.Equal(t, "a; copied", there(t, client), "while its Endpoints may not yet be mirrored")
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, "copied", there(t, client))
				_, err = client.CoreV1().Services("default").Update(ctx, service(), metav1.UpdateOptions{})
				require.NoError(t, err)
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, "a; copied", there(t, client), "when it selects pods again")
			})
		})
	}
}

func TestEndpointsAreHintedForTheirZone(t *testing.T) {
	t.Parallel()
	north := node()
	north.Labels = map[string]string{corev1.LabelTopologyZone: "north"}
	client := server(north, service(func(s *corev1.Service) {
		s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose)
	}), running("a"))
	play(t, client, 0, func(ctx context.Context) {
		api := client.DiscoveryV1().EndpointSlices("default")
		list, err := api.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.NotNil(t, list.Items[0].Endpoints[0].Hints)
		assert.Equal(t, "north", list.Items[0].Endpoints[0].Hints.ForZones[0].Name)
		changed := service()
		_, err = client.CoreV1().Services("default").Update(ctx, changed, metav1.UpdateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		list, err = api.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		assert.Nil(t, list.Items[0].Endpoints[0].Hints, "nobody asks for hints any more")
	})
}

func TestAZoneThatIsKnownLateIsInEndpointsAndHintsAtOnce(t *testing.T) {
	t.Parallel()
	working := func(name, zone, cpu string) *corev1.Node {
		n := node()
		n.Name, n.Labels = name, map[string]string{corev1.LabelTopologyZone: zone}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	on := func(n string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = n } }
	client := server(working("n", "north", "4"), working("s", "south", "2"), working("late", "", "2"), running("a"), named("b", "10.0.0.2", on("s")),
		named("late", "10.0.0.3", on("late"), func(p *corev1.Pod) { p.Labels = map[string]string{"app": "late"} }),
		service(func(s *corev1.Service) {
			s.Name, s.UID, s.Spec.Selector = "late", "late", map[string]string{"app": "late"}
			s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		}),
		service(func(s *corev1.Service) { s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"} }))
	play(t, client, 0, func(ctx context.Context) {
		hints := func() string {
			list, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			var all []string
			for _, slice := range list.Items {
				for _, e := range slice.Endpoints {
					all = append(all, e.TargetRef.Name+" in "+ptr.Deref(e.Zone, "-"))
					if e.Hints != nil {
						all[len(all)-1] += " for " + e.Hints.ForZones[0].Name
					}
				}
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		require.Equal(t, "a in north, b in south, late in -", hints(), "with a node that is in no zone there are no hints by CPU at all")
		_, err := client.CoreV1().Nodes().Update(ctx, working("late", "south", "2"), metav1.UpdateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, "a in north for north, b in south for south, late in south for south", hints())
	})
}

func TestWhatChangesIsCountedForEachFamily(t *testing.T) {
	t.Parallel()
	mine := func(s *corev1.Service) { // no other test has this one, so that the count is of this one alone
		s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameNode)
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	count := func() uint64 {
		n, err := testutil.GetHistogramMetricCount(metrics.EndpointSlicesChangedPerSync.WithLabelValues("Disabled", "PreferSameNode"))
		require.NoError(t, err)
		return n
	}
	client := server(node(), service(mine), running("a"))
	play(t, client, 0, func(ctx context.Context) {
		before := count()
		_, err := client.CoreV1().Services("default").Update(ctx, service(mine, func(s *corev1.Service) { s.Labels = map[string]string{"team": "blue"} }), metav1.UpdateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, before+2, count(), "after one sync")
	})
}

func TestWhoAsksForTopologyIsToldWhyItHasNone(t *testing.T) {
	t.Parallel()
	client := server(node(), service(func(s *corev1.Service) {
		s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
	}), running("a"))
	play(t, client, 0, func(ctx context.Context) {
		events, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		var said []string
		for _, event := range events.Items {
			said = append(said, event.Reason+": "+event.Message)
		}
		require.Len(t, said, 1, "one for the family that the Service has: %q", said)
		assert.Contains(t, said[0], "addressType: IPv4")
	})
}
