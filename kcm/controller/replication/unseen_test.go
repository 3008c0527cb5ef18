package replication

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestWhatIsWaitedForInVainEndsThoughNothingWakesTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(testSet(1))
		nothing := watch.NewFake() // which tells of no pod
		client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(nothing, nil))
		factory := informers.NewSharedInformerFactory(client, 0)
		ctx, cancel := context.WithCancel(t.Context())
		apps, core := factory.Apps().V1(), factory.Core().V1()
		c := NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, 10)
		c.podWrites = newOwnWrites(corev1.Resource("pods"), new(version)) // the cache has passed that
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 1) })
		factory.Start(ctx.Done())
		defer func() { cancel(); nothing.Stop(); running.Wait(); factory.Shutdown() }()

		pods := func() []corev1.Pod {
			list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			return list.Items
		}
		time.Sleep(time.Minute) // on the clock of the bubble
		require.Len(t, pods(), 1, "a pod was created")
		require.NoError(t, client.CoreV1().Pods(pods()[0].Namespace).Delete(ctx, pods()[0].Name, metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		require.Empty(t, pods(), "the loop was not told that it is gone again, and waits to see it come")
		time.Sleep(2 * controller.ExpectationsTimeout)
		assert.Len(t, pods(), 1, "when five minutes have passed")
	})
}
