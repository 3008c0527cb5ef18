package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// informer is one whose notifications the test makes up. Its cache is filled; its
// handlers have seen all of the first list when handed is true.
type informer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
	handed  bool
	stopped bool
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	if i.stopped {
		return nil, errors.New("handler was not added to shared informer because it has stopped already")
	}
	i.handler = handler
	return registration{informer: i}, nil
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) HasSynced() bool { return true }

type registration struct {
	cache.ResourceEventHandlerRegistration
	informer *informer
}

func (r registration) HasSynced() bool { return r.informer.handed }

// notes are what the handlers of pods were told.
type notes []string

func (n *notes) handlers() Handlers[*corev1.Pod] {
	return Handlers[*corev1.Pod]{
		Add: func(pod *corev1.Pod) { *n = append(*n, "add "+pod.Labels["label"]) },
		Update: func(old, new *corev1.Pod) {
			*n = append(*n, fmt.Sprintf("update %s to %s", old.Labels["label"], new.Labels["label"]))
		},
		Delete: func(pod *corev1.Pod) {
			if pod == nil {
				*n = append(*n, "delete nothing at all")
				return
			}
			*n = append(*n, "delete "+pod.Labels["label"])
		},
	}
}

func (n *notes) String() string {
	if len(*n) == 0 {
		return "no handler is called"
	}
	return strings.Join(*n, ", ")
}

//exercise:race
func TestHandlersAreToldOfChanges(t *testing.T) {
	t.Parallel()
	first, second, another := pod("web", "first"), pod("web", "second"), pod("web", "another")
	another.UID = "another"
	for behaviour, test := range map[string]struct {
		happens func(cache.ResourceEventHandler)
		told    string
	}{
		"an object that appears is handed over":        {func(h cache.ResourceEventHandler) { h.OnAdd(first, false) }, "add first"},
		"an object of the first list is handed over":   {func(h cache.ResourceEventHandler) { h.OnAdd(first, true) }, "add first"},
		"a change is handed over with what was before": {func(h cache.ResourceEventHandler) { h.OnUpdate(first, second) }, "update first to second"},
		"what has another's name by now is handed over as deleted, and the other as new": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(first, another)
		}, "delete first, add another"},
		"a deletion is handed over with the last state": {func(h cache.ResourceEventHandler) { h.OnDelete(second) }, "delete second"},
		"a deletion that the informer has not seen is handed over": {func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/web", Obj: first})
		}, "delete first"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			var seen notes
			pods := &informer{}
			Handle(pods, seen.handlers())
			test.happens(pods.handler)
			assert.Equal(t, test.told, seen.String())
		})
	}
	t.Run("after a handler that panics the next change is handed over", func(t *testing.T) {
		t.Parallel()
		var seen notes
		pods, handlers := &informer{}, seen.handlers()
		handlers.Add = func(pod *corev1.Pod) { panic("a defect") }
		Handle(pods, handlers)
		assert.NotPanics(t, func() {
			pods.handler.OnAdd(first, false)
			pods.handler.OnUpdate(first, second)
		})
		assert.Equal(t, "update first to second", seen.String(), "the handler of additions panics")
	})
	t.Run("what the loop does not care for is passed over", func(t *testing.T) {
		t.Parallel()
		pods := &informer{}
		Handle(pods, Handlers[*corev1.Pod]{})
		assert.NotPanics(t, func() {
			pods.handler.OnAdd(first, false)
			pods.handler.OnUpdate(first, second)
			pods.handler.OnUpdate(second, another)
			pods.handler.OnDelete(another)
		}, "the loop has given no function")
	})
}

func TestAllIsHandedOver(t *testing.T) {
	t.Parallel()
	told := func(synced cache.InformerSynced) string { return fmt.Sprintf("all is handed over: %t", synced()) }
	t.Run("not all is handed over while a handler is still to be called", func(t *testing.T) {
		t.Parallel()
		synced := Handle(&informer{}, Handlers[*corev1.Pod]{})
		assert.Equal(t, "all is handed over: false", told(synced), "the cache is filled, and the handlers have not been called for each object of it")
	})
	t.Run("all is handed over when each object of the first list was", func(t *testing.T) {
		t.Parallel()
		pods := &informer{}
		synced := Handle(pods, Handlers[*corev1.Pod]{})
		pods.handed = true
		assert.Equal(t, "all is handed over: true", told(synced))
	})
}

// These are not parallel: they ask what is reported to the process.
func TestWhatIsNoObjectOfTheKind(t *testing.T) {
	for behaviour, obj := range map[string]any{
		"a tombstone without a state is reported and not handled": cache.DeletedFinalStateUnknown{Key: "ns/web"},
		"a tombstone of another kind is reported and not handled": cache.DeletedFinalStateUnknown{Key: "ns/web", Obj: &corev1.Secret{}},
		"an object of another kind is reported and not handled":   &corev1.Secret{},
	} {
		t.Run(behaviour, func(t *testing.T) {
			var seen notes
			reports.errors = nil
			deleted(obj, seen.handlers().Delete)
			assert.Equal(t, "no handler is called; 1 error is reported", fmt.Sprintf("%s; %d error is reported", seen.String(), len(reports.errors)))
		})
	}
	t.Run("an object of the kind is handled and not reported", func(t *testing.T) {
		var seen notes
		reports.errors = nil
		deleted(pod("web", "last"), seen.handlers().Delete)
		assert.Equal(t, "delete last; 0 errors are reported", fmt.Sprintf("%s; %d errors are reported", seen.String(), len(reports.errors)))
	})
	t.Run("an informer that has ended is reported, and never hands anything over", func(t *testing.T) {
		reports.errors = nil
		synced := Handle(&informer{stopped: true}, Handlers[*corev1.Pod]{})
		assert.Equal(t, "all is handed over: false; 1 error is reported", fmt.Sprintf("all is handed over: %t; %d error is reported", synced(), len(reports.errors)))
	})
}

// A real informer calls its handlers in a goroutine of their own.
func TestTheFirstListIsSyncedOnlyWhenTheHandlersHaveSeenIt(t *testing.T) {
	t.Parallel()
	source := cachetesting.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	source.Add(pod("a", ""))
	source.Add(pod("b", ""))
	called, goOn := make(chan string), make(chan struct{})
	pods := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, nil)
	synced := Handle(pods, Handlers[*corev1.Pod]{Add: func(pod *corev1.Pod) {
		called <- pod.Name
		<-goOn
	}})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { pods.RunWithContext(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for range 2 {
		select {
		case <-called:
		case <-time.After(time.Minute):
			require.Fail(t, "no handler was called for 30 s")
		}
		require.Eventually(t, pods.HasSynced, time.Minute, time.Millisecond)
		assert.False(t, synced(), "the cache is filled, and an object of it is being handled")
		goOn <- struct{}{}
	}
	assert.Eventually(t, synced, time.Minute, time.Millisecond)
}

func TestAnInformerBeginsWithTheNewestStateAndGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	for asked, sent := range map[string]string{"0": "", "": "", "17": "17"} {
		options := metav1.ListOptions{ResourceVersion: asked}
		Newest(&options)
		assert.Equal(t, sent, options.ResourceVersion, "the informer asks for %q", asked)
	}
}
