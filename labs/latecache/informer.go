package latecache

import (
	"strconv"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// Informer is an informer whose watch runs when it is told. Give it to a factory with InformerFor before anybody asks
// the factory for the informer of that type. An error of its cache, which keeps every object that has a name, stops the
// test.
type Informer[T Object[T]] struct {
	cache.SharedIndexInformer // never run: it holds the cache and its indices
	store                     *Store[T]
	shown                     int // how much of the store's log is in the cache
	handlers                  []cache.ResourceEventHandler
	untold                    []func(cache.ResourceEventHandler)
	trim                      cache.TransformFunc
}

// NewInformer returns an informer that has just listed the store.
func NewInformer[T Object[T]](store *Store[T]) *Informer[T] { return NewLateInformer(store, 0) }

// NewLateInformer returns an informer that has listed the store as it was that many changes ago. A manager that starts
// anew may well list from an API server that is behind the one which the former manager watched.
func NewLateInformer[T Object[T]](store *Store[T], behind int) *Informer[T] {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	i := &Informer[T]{SharedIndexInformer: cache.NewSharedIndexInformer(nil, *new(T), 0, indexers), store: store}
	i.Show(len(store.log) - behind)
	i.untold = nil // a list is told to each handler as it comes
	i.listed()
	return i
}

// listed tells the cache of which version it is, which it does not hear by a deletion.
func (i *Informer[T]) listed() {
	utilruntime.Must(i.GetStore().Replace(i.GetStore().List(), strconv.Itoa(firstVersion+i.shown)))
}

// SetTransform is called by a factory that has a transform. What is in the cache already, and what comes, is as it
// leaves it.
func (i *Informer[T]) SetTransform(trim cache.TransformFunc) error {
	i.trim = trim
	for _, obj := range i.Cached() {
		utilruntime.Must(i.GetStore().Update(i.trimmed(obj)))
	}
	return nil
}

// trimmed returns what the cache is to have of an object of the store.
func (i *Informer[T]) trimmed(obj T) T {
	if i.trim == nil {
		return obj
	}
	left, err := i.trim(obj.DeepCopy())
	utilruntime.Must(err)
	return left.(T)
}

// AddEventHandler tells the handler at once of all that is in the cache: no loop starts before it has heard of that.
func (i *Informer[T]) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	for _, obj := range i.GetStore().List() {
		handler.OnAdd(obj, true)
	}
	return synced{}, nil
}

type synced struct {
	cache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

// Show puts the next n changes into the cache, or as many as there are. Handlers are not told yet.
func (i *Informer[T]) Show(n int) {
	for range min(n, len(i.store.log)-i.shown) {
		i.show(i.store.log[i.shown])
		i.shown++
	}
}

func (i *Informer[T]) show(c change[T]) {
	obj := i.trimmed(c.obj)
	old, exists := i.cached(obj)
	switch {
	case c.gone && exists:
		utilruntime.Must(i.GetStore().Delete(obj))
		i.tell(func(h cache.ResourceEventHandler) { h.OnDelete(obj) })
	case c.gone:
	case exists:
		utilruntime.Must(i.GetStore().Update(obj))
		i.tell(func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
	default:
		utilruntime.Must(i.GetStore().Add(obj))
		i.tell(func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
	}
}

// Tell tells the handlers of the next n changes in the cache, or of as many as there are.
func (i *Informer[T]) Tell(n int) {
	for range min(n, len(i.untold)) {
		notify := i.untold[0]
		i.untold = i.untold[1:]
		for _, handler := range i.handlers {
			notify(handler)
		}
	}
}

// CatchUp shows and tells everything.
func (i *Informer[T]) CatchUp() {
	i.Show(len(i.store.log))
	i.Tell(len(i.untold))
}

// Behind returns how many changes the cache does not show, and of how many more the handlers have not been told.
func (i *Informer[T]) Behind() (unshown, untold int) {
	return len(i.store.log) - i.shown, len(i.untold)
}

// Relist is what happens after a broken watch: the cache shows what the store has now, and the handlers are to be told
// the difference. Of what is gone they are given the state that the cache last had, as a tombstone. Relist returns what
// was created and went again unseen: no handler will ever hear of it.
func (i *Informer[T]) Relist() (missed []T) {
	for _, c := range i.store.log[i.shown:] {
		if _, exists := i.cached(c.obj); !exists && c.gone {
			missed = append(missed, c.obj)
		}
	}
	i.shown = len(i.store.log)
	for _, obj := range i.store.List() {
		i.show(change[T]{obj, false})
	}
	for _, old := range i.Cached() {
		if _, err := i.store.Get(old.GetName()); err != nil {
			utilruntime.Must(i.GetStore().Delete(old))
			gone := cache.DeletedFinalStateUnknown{Key: cache.MetaObjectToName(old).String(), Obj: old}
			i.tell(func(h cache.ResourceEventHandler) { h.OnDelete(gone) })
		}
	}
	i.listed()
	return missed
}

// Cached returns what the cache shows, in no order. It is the cache's own.
func (i *Informer[T]) Cached() []T {
	var objects []T
	for _, obj := range i.GetStore().List() {
		objects = append(objects, obj.(T))
	}
	return objects
}

// cached is what the cache has in place of an object.
func (i *Informer[T]) cached(obj T) (old any, exists bool) {
	old, exists, err := i.GetStore().Get(obj)
	utilruntime.Must(err)
	return old, exists
}

func (i *Informer[T]) tell(notify func(cache.ResourceEventHandler)) {
	i.untold = append(i.untold, notify)
}
