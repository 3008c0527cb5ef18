package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestTenChangesOfPodsAreOneKeyOfTheirOwner(t *testing.T) {
	t.Parallel()
	client := &fake.Clientset{}
	l := newLoop(client, informers.NewSharedInformerFactory(client, 0), 0)
	t.Cleanup(l.queue.ShutDown)
	for range 5 {
		l.wake(pod("web-1"))
		l.wake(pod("web-2"))
	}
	l.wake(web(3))
	l.wake(pod("alone", noOwner))
	l.wake(cache.DeletedFinalStateUnknown{Key: "shop/web-1", Obj: pod("web-1")})
	assert.Equal(t, 1, l.queue.Len())
}

func TestAKeyWhoseSyncFailsComesBack(t *testing.T) {
	t.Parallel()
	client := &fake.Clientset{}
	tries := 0
	client.AddReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if tries++; tries < 3 {
			return true, nil, assert.AnError
		}
		return true, &corev1.Pod{}, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	l := newLoop(client, factory, 0)
	assert.NoError(t, factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(web(1)))
	l.wake(web(1))
	for tries < 3 {
		assert.True(t, l.next(t.Context()))
	}
	assert.Zero(t, l.queue.NumRequeues(cache.NewObjectName("shop", "web")), "what has succeeded starts afresh")
	l.queue.ShutDown()
	assert.False(t, l.next(t.Context()))
}
