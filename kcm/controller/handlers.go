package controller

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Newest has informers begin with the newest state. By themselves they take what
// the API server has in its cache, however old, where that cannot stream lists
// yet, and a manager that begins with an older state does again what the one
// before it has done.
func Newest(options *metav1.ListOptions) {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
}

// Handlers are called when an object of type T appears, changes or goes.
// A nil function means that the loop does not care.
type Handlers[T any] struct {
	Add    func(obj T)
	Update func(old, new T)
	// Delete is given the last state that was seen. When the informer missed
	// the deletion itself, that state may be some time old.
	Delete func(obj T)
	// MustNotPanic has a panic end the process, as one that leaves something half
	// changed that nobody would put right.
	MustNotPanic bool
}

// Handle has the informer call the handlers. The returned function tells
// whether every object of the first list has been handed to them.
func Handle[T metav1.Object](informer cache.SharedIndexInformer, h Handlers[T]) cache.InformerSynced {
	registration, err := informer.AddEventHandler(eventsFor(h))
	if err != nil {
		// Only an informer that was stopped refuses a handler.
		utilruntime.HandleError(fmt.Errorf("watch %T: %w", *new(T), err))
		return func() bool { return false }
	}
	return registration.HasSynced
}

// eventsFor has the handlers told of what has happened to each object, whatever
// an informer that has missed some of it makes of that.
func eventsFor[T metav1.Object](h Handlers[T]) (funcs cache.ResourceEventHandlerFuncs) {
	h = recovering(h)
	funcs = cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if h.Add != nil {
				h.Add(obj.(T))
			}
		},
		UpdateFunc: func(old, new any) {
			switch was, is := old.(T), new.(T); {
			case was.GetUID() != is.GetUID():
				funcs.DeleteFunc(was)
				funcs.AddFunc(is)
			case h.Update != nil:
				h.Update(was, is)
			}
		},
		DeleteFunc: func(obj any) {
			if h.Delete != nil {
				deleted(obj, h.Delete)
			}
		},
	}
	return funcs
}

// recovering returns handlers that let no panic out: it is logged, and the next
// notification comes.
func recovering[T metav1.Object](h Handlers[T]) Handlers[T] {
	if h.MustNotPanic {
		return h
	}
	call := func(obj T, handle func()) {
		handled := func() error { handle(); return nil }
		_ = Recovered(context.Background(), handled, "object", klog.KObj(obj))()
	}
	if add := h.Add; add != nil {
		h.Add = func(obj T) { call(obj, func() { add(obj) }) }
	}
	if update := h.Update; update != nil {
		h.Update = func(old, new T) { call(new, func() { update(old, new) }) }
	}
	if remove := h.Delete; remove != nil {
		h.Delete = func(obj T) { call(obj, func() { remove(obj) }) }
	}
	return h
}

// deleted has handle told of an object that is gone. obj is what an informer
// gives a handler of deletions.
func deleted[T any](obj any, handle func(T)) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if typed, ok := obj.(T); ok {
		handle(typed)
		return
	}
	utilruntime.HandleError(fmt.Errorf("deleted object is a %T, want a %T", obj, *new(T)))
}
