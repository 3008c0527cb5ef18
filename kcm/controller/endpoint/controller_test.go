package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

// server is an API server in memory that gives Endpoints versions.
func server(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	var lock sync.Mutex
	n := 0
	client.PrependReactor("*", "endpoints", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if write, ok := action.(clienttesting.CreateAction); ok { // an update has the same methods
			lock.Lock()
			defer lock.Unlock()
			n++
			write.GetObject().(*corev1.Endpoints).ResourceVersion = strconv.Itoa(n)
		}
		return false, nil, nil
	})
	return client
}

// play runs the controller in a bubble until body returns.
func play(t *testing.T, client *fake.Clientset, batchPeriod time.Duration, body func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
		core := factory.Core().V1()
		c := NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, batchPeriod)
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 2) })
		wait(time.Second) // informers look after a tenth of it whether their caches are filled
		body(ctx)
		stop()
		running.Wait()
		factory.Shutdown()
	})
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// there returns the subsets that the API server has, or "none".
func there(client *fake.Clientset, name string) string {
	endpoints, err := client.CoreV1().Endpoints("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return "none"
	}
	return inWords(endpoints.Subsets)
}

func writes(client *fake.Clientset) int {
	n := 0
	for _, action := range client.Actions() {
		if action.GetResource().Resource == "endpoints" && (action.GetVerb() == "create" || action.GetVerb() == "update") {
			n++
		}
	}
	return n
}

func TestEndpointsFollowTheirService(t *testing.T) {
	t.Parallel()
	client := server(service(), running(1))
	play(t, client, 0, func(ctx context.Context) {
		require.Equal(t, "8080: 10.0.0.1", there(client, "web"))
		_, err := client.CoreV1().Pods("default").Create(ctx, running(2, notReady), metav1.CreateOptions{})
		require.NoError(t, err)
		wait(time.Second)
		require.Equal(t, "8080: 10.0.0.1 10.0.0.2!", there(client, "web"))
		require.NoError(t, client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}))
		wait(time.Second)
		assert.Equal(t, "none", there(client, "web"))
	})
}

func TestAddressesThatAreNotReadyWaitForASecondOrForOthers(t *testing.T) {
	t.Parallel()
	client := server(service(), running(1))
	play(t, client, 0, func(ctx context.Context) {
		pods := client.CoreV1().Pods("default")
		before := writes(client)
		_, err := pods.Create(ctx, running(2, notReady), metav1.CreateOptions{})
		require.NoError(t, err)
		wait(900 * time.Millisecond)
		require.Equal(t, before, writes(client), "writes before the second is over")
		wait(100 * time.Millisecond)
		require.Equal(t, "8080: 10.0.0.1 10.0.0.2!", there(client, "web"))
		_, err = pods.Create(ctx, running(3, notReady), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = pods.Update(ctx, running(2), metav1.UpdateOptions{})
		require.NoError(t, err)
		wait(0)
		require.Equal(t, "8080: 10.0.0.1 10.0.0.2 10.0.0.3!", there(client, "web"), "at once, since one became ready")
		_, err = pods.Update(ctx, running(2, notReady), metav1.UpdateOptions{})
		require.NoError(t, err)
		wait(0)
		require.Equal(t, "8080: 10.0.0.1 10.0.0.2! 10.0.0.3!", there(client, "web"), "at once, since one is ready no more")
		require.NoError(t, pods.Delete(ctx, running(3).Name, metav1.DeleteOptions{}))
		wait(time.Second)
		require.Equal(t, "8080: 10.0.0.1 10.0.0.2!", there(client, "web"), "a second after it has gone, though another waited just before")
		wait(time.Minute)
		assert.Equal(t, before+4, writes(client))
	})
}

func TestEndpointsThatSomebodyHasDeletedComeBack(t *testing.T) {
	t.Parallel()
	client := server(service(), running(1))
	play(t, client, 0, func(ctx context.Context) {
		require.NoError(t, client.CoreV1().Endpoints("default").Delete(ctx, "web", metav1.DeleteOptions{}))
		wait(time.Second)
		assert.Equal(t, "8080: 10.0.0.1", there(client, "web"))
	})
}

func TestEndpointsWithoutAServiceGoWhenTheLoopBeginsButForLocks(t *testing.T) {
	t.Parallel()
	left := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "left"}}
	lock := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock",
		Annotations: map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: "{}"}}}
	client := server(left, lock)
	play(t, client, 0, func(context.Context) {
		assert.Equal(t, "none", there(client, "left"))
		assert.Equal(t, "", there(client, "lock"))
	})
}

// denied is what a webhook may say that does not want a deletion.
var denied = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: `admission webhook "shop.example.com" denied the request`}}

func TestEndpointsWhoseDeletionAWebhookDeniesGoWhenItDoesSoNoMore(t *testing.T) {
	t.Parallel()
	client := server(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "left"}})
	denials := 2
	client.PrependReactor("delete", "endpoints", func(clienttesting.Action) (bool, runtime.Object, error) {
		denials--
		return denials >= 0, nil, denied
	})
	play(t, client, 0, func(context.Context) {
		wait(time.Minute)
		assert.Equal(t, "none", there(client, "left"), "the webhook has answered twice with 404")
	})
}

func TestEndpointsStayUnlessTheAPIServerSaysThatTheirServiceIsGone(t *testing.T) {
	t.Parallel()
	for what, answer := range map[string]error{"the cache does not have the Service yet": nil, "the API server cannot say": errors.New("no answer")} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := server(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
			client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, service(), answer })
			play(t, client, 0, func(context.Context) { assert.Equal(t, "", there(client, "web")) })
		})
	}
}

func TestAServiceWithoutASelectorAndANameForSomethingOutsideAreLeftAlone(t *testing.T) {
	t.Parallel()
	client := server(
		service(func(s *corev1.Service) { s.Spec.Selector = nil }),
		service(func(s *corev1.Service) { s.Name, s.Spec.Type = "outside", corev1.ServiceTypeExternalName }),
		running(1))
	play(t, client, 0, func(context.Context) { assert.Zero(t, writes(client)) })
}

func TestOfAMereNameTheLoopDeletesWhatItHasWrittenAndNoMore(t *testing.T) {
	t.Parallel()
	becomes := func(change func(*corev1.Service)) func(context.Context, *fake.Clientset) error {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Services("default").Update(ctx, service(change), metav1.UpdateOptions{})
			return err
		}
	}
	outside := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }
	for what, test := range map[string]struct {
		by     string
		change func(ctx context.Context, client *fake.Clientset) error
		want   string
	}{
		"what it has written goes":                               {servicepods.FieldManager, becomes(outside), "none"},
		"without a selector, too":                                {servicepods.FieldManager, becomes(func(s *corev1.Service) { outside(s); s.Spec.Selector = nil }), "none"},
		"what a user has edited stays":                           {"kubectl-edit", becomes(outside), "8080: 192.0.2.1"},
		"if only the selector goes, a user may go on from there": {servicepods.FieldManager, becomes(func(s *corev1.Service) { s.Spec.Selector = nil }), "8080: 192.0.2.1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := server(service(), running(1))
			play(t, client, 0, func(ctx context.Context) {
				api := client.CoreV1().Endpoints("default")
				current, err := api.Get(ctx, "web", metav1.GetOptions{})
				require.NoError(t, err)
				edited := current.DeepCopy()
				edited.Subsets[0].Addresses[0].IP = "192.0.2.1"
				_, err = api.Update(ctx, edited, metav1.UpdateOptions{FieldManager: test.by})
				require.NoError(t, err)
				synctest.Wait() // this API server deletes also what was changed since it was seen
				require.NoError(t, test.change(ctx, client))
				wait(time.Minute)
				assert.Equal(t, test.want, there(client, "web"))
			})
		})
	}
}

func TestWhatChangesWithinTheBatchPeriodIsWrittenTogether(t *testing.T) {
	t.Parallel()
	client := server(service())
	play(t, client, time.Second, func(ctx context.Context) {
		before := writes(client)
		for n := range 3 {
			_, err := client.CoreV1().Pods("default").Create(ctx, running(n), metav1.CreateOptions{})
			require.NoError(t, err)
			wait(100 * time.Millisecond)
		}
		wait(time.Second)
		assert.Equal(t, "8080: 10.0.0.0 10.0.0.1 10.0.0.2", there(client, "web"))
		assert.Equal(t, before+1, writes(client), "writes for three pods")
	})
}

func TestAWriteThatFailsIsToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	client := server(service(), running(1))
	failures := 2
	client.PrependReactor("create", "endpoints", func(clienttesting.Action) (bool, runtime.Object, error) {
		failures--
		return failures >= 0, nil, errors.New("the server is busy")
	})
	play(t, client, 0, func(ctx context.Context) {
		assert.Equal(t, "8080: 10.0.0.1", there(client, "web"))
		events, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.NotEmpty(t, events.Items)
		assert.Equal(t, "FailedToCreateEndpoint", events.Items[0].Reason)
		assert.Equal(t, "Failed to create endpoint for service default/web: the server is busy", events.Items[0].Message)
	})
}

func TestANamespaceThatIsBeingDeletedIsNoFailure(t *testing.T) {
	t.Parallel()
	client := server(service(), running(1))
	client.PrependReactor("create", "endpoints", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, terminating()
	})
	play(t, client, 0, func(ctx context.Context) {
		wait(time.Hour)
		assert.Equal(t, 1, writes(client))
	})
}

// terminating is what the API server says to who creates something in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}
