package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
)

func pod(name, label string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"label": label}}}
}

// watch runs an informer of what source holds until the test ends.
func watch(t *testing.T, source *cachetesting.FakeControllerSource, h Handlers[*corev1.Pod]) cache.InformerSynced {
	t.Helper()
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, nil)
	synced := Handle(informer, h)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return synced
}

// next returns what comes next, and fails the test when nothing does.
func next(t *testing.T, notes <-chan string) string {
	t.Helper()
	select {
	case note := <-notes:
		return note
	case <-time.After(30 * time.Second):
		require.Fail(t, "no handler was called for 30 s")
		return ""
	}
}

func TestHandlersAreCalledWithTypedObjects(t *testing.T) {
	t.Parallel()
	source := cachetesting.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	notes := make(chan string, 10)
	watch(t, source, Handlers[*corev1.Pod]{
		Add: func(pod *corev1.Pod) { notes <- "add " + pod.Labels["label"] },
		Update: func(old, new *corev1.Pod) {
			notes <- fmt.Sprintf("update %s to %s", old.Labels["label"], new.Labels["label"])
		},
		Delete: func(pod *corev1.Pod) { notes <- "delete " + pod.Labels["label"] },
	})
	source.Add(pod("a", "first"))
	assert.Equal(t, "add first", next(t, notes))
	source.Modify(pod("a", "second"))
	assert.Equal(t, "update first to second", next(t, notes))
	source.Delete(pod("a", "second"))
	assert.Equal(t, "delete second", next(t, notes))
}

func TestChangesThatNobodyCaresForAreSkipped(t *testing.T) {
	t.Parallel()
	source := cachetesting.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	notes := make(chan string, 10)
	source.Add(pod("a", "first"))
	synced := watch(t, source, Handlers[*corev1.Pod]{Delete: func(pod *corev1.Pod) { notes <- "delete " + pod.Name }})
	require.Eventually(t, synced, 30*time.Second, time.Millisecond)
	source.Modify(pod("a", "second"))
	source.Delete(pod("a", "second"))
	assert.Equal(t, "delete a", next(t, notes))
}

func TestTheFirstListIsSyncedOnlyWhenTheHandlersHaveSeenIt(t *testing.T) {
	t.Parallel()
	source := cachetesting.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	source.Add(pod("a", ""))
	source.Add(pod("b", ""))
	called, goOn := make(chan string), make(chan struct{})
	synced := watch(t, source, Handlers[*corev1.Pod]{Add: func(pod *corev1.Pod) {
		called <- pod.Name
		<-goOn
	}})
	next(t, called)
	assert.False(t, synced(), "the first of two is being handled")
	goOn <- struct{}{}
	next(t, called)
	assert.False(t, synced(), "the second of two is being handled")
	goOn <- struct{}{}
	assert.Eventually(t, synced, 30*time.Second, time.Millisecond)
}

func TestADeletionThatWasMissedIsHandledAllTheSame(t *testing.T) {
	t.Parallel()
	last := pod("a", "last seen")
	for name, test := range map[string]struct {
		obj     any
		handled []*corev1.Pod
	}{
		"the object itself":           {obj: last, handled: []*corev1.Pod{last}},
		"a tombstone":                 {obj: cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: last}, handled: []*corev1.Pod{last}},
		"a tombstone without a state": {obj: cache.DeletedFinalStateUnknown{Key: "ns/a"}},
		"a tombstone of another kind": {obj: cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: &corev1.Secret{}}},
		"another kind":                {obj: &corev1.Secret{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handled []*corev1.Pod
			deleted(test.obj, func(pod *corev1.Pod) { handled = append(handled, pod) })
			assert.Equal(t, test.handled, handled)
		})
	}
}
