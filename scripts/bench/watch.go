package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// patience is how long anything may take before bench gives up. At its own rate limit the original
// needs more than eight minutes for the orphans.
const patience = 15 * time.Minute

// watch counts what is on the cluster, by namespace, and tells when a count is reached.
type watch struct {
	informers.SharedInformerFactory
	synced []cache.InformerSynced

	mu      sync.Mutex
	objects map[types.UID]counted
	counts  map[string]tally
	waiting []*moment
}

// tally counts several things, each under its name.
type tally map[string]int

// counted is an object with what it counts for.
type counted struct {
	metav1.Object
	tally
}

// observe returns a watch that has seen all there is of some kinds. It ends when stop is called.
func (t *trial) observe(kinds ...func(*watch)) (w *watch, stop func()) {
	ctx, cancel := context.WithCancel(t.ctx)
	w = &watch{SharedInformerFactory: informers.NewSharedInformerFactory(t.client, 0),
		objects: map[types.UID]counted{}, counts: map[string]tally{}}
	for _, kind := range kinds {
		kind(w)
	}
	w.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), w.synced...) {
		cancel()
		must(fmt.Errorf("start to watch the cluster: %w", context.Cause(ctx)))
	}
	return w, func() {
		cancel()
		w.Shutdown()
	}
}

// count counts the objects of an informer: each for what it is as long as it is there, and each write
// of one for good, if asked to.
func count[T metav1.Object](w *watch, informer cache.SharedIndexInformer, is func(T) tally,
	written ...func(old, new T) tally) {
	put := func(old, new T) {
		w.change(func() {
			w.forget(new)
			w.objects[new.GetUID()] = counted{new, is(new)}
			w.add(new.GetNamespace(), is(new), 1)
			for _, counts := range written {
				w.add(new.GetNamespace(), counts(old, new), 1)
			}
		})
	}
	w.synced = append(w.synced, controller.Handle(informer, controller.Handlers[T]{
		Add:    func(obj T) { put(*new(T), obj) },
		Update: put,
		Delete: func(obj T) {
			w.change(func() {
				w.forget(obj)
				w.add(obj.GetNamespace(), tally{gone: 1}, 1)
			})
		},
	}))
}

// forget takes away what an object has counted for so far.
func (w *watch) forget(obj metav1.Object) {
	w.add(obj.GetNamespace(), w.objects[obj.GetUID()].tally, -1)
	delete(w.objects, obj.GetUID())
}

func (w *watch) add(namespace string, counts tally, times int) {
	if w.counts[namespace] == nil {
		w.counts[namespace] = tally{}
	}
	for name, n := range counts {
		if w.counts[namespace][name] += times * n; w.counts[namespace][name] == 0 {
			delete(w.counts[namespace], name)
		}
	}
}

// now returns a count as it is now.
func (w *watch) now(namespace, name string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.counts[namespace][name])
}

// moment is when a namespace has the counts that are wanted and all else is true.
type moment struct {
	watch     *watch
	namespace string
	want      tally
	also      []func() bool
	reached   chan time.Time
}

// when returns the moment of the change that brings these counts, or now if they are there already.
func (w *watch) when(namespace string, want tally, also ...func() bool) *moment {
	m := &moment{w, namespace, want, also, make(chan time.Time, 1)}
	w.change(func() { w.waiting = append(w.waiting, m) })
	return m
}

// change changes what is counted, and tells those whose moment has come.
func (w *watch) change(change func()) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	w.waiting = slices.DeleteFunc(w.waiting, func(m *moment) bool {
		for name, n := range m.want {
			if w.counts[m.namespace][name] != n {
				return false
			}
		}
		if slices.ContainsFunc(m.also, func(holds func() bool) bool { return !holds() }) {
			return false
		}
		m.reached <- now
		return true
	})
}

// await waits for the moment. When that takes too long, the error tells what was seen instead.
func (m *moment) await(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("given up after %s", patience))
	defer cancel()
	select {
	case at := <-m.reached:
		return at, nil
	case <-ctx.Done():
		m.watch.mu.Lock()
		defer m.watch.mu.Unlock()
		return time.Time{}, fmt.Errorf("waiting for %v in namespace %q, with %v: %w",
			m.want, m.namespace, m.watch.counts[m.namespace], context.Cause(ctx))
	}
}
