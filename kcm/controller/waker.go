package controller

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// Waker has a loop sync the owners of type O that a change of an object of
// type T concerns. One that has an owner concerns this owner. An orphan
// concerns every owner that wants it: the API server decides which of them
// gets it, for it takes one controller reference per object.
type Waker[O, T metav1.Object] struct {
	Loop *Loop[cache.ObjectName]
	// Kind is what a reference to an owner calls it.
	Kind string
	// Get and List read the owners' cache. What they return is not changed.
	Get  func(key cache.ObjectName) (O, error)
	List func(namespace string) ([]O, error)
	// Selector says which objects an owner wants.
	Selector func(owner O) *metav1.LabelSelector
	// NewsPeriod is how long news of an owner's objects is collected before
	// the owner is synced. Owners that want an orphan do not wait.
	NewsPeriod time.Duration
	// Expectations are told of creations and deletions before the owner is
	// woken. They are nil for a loop that keeps none.
	Expectations *Expectations
}

// Handlers returns what the informer of the objects is to call.
func (w *Waker[O, T]) Handlers() Handlers[T] {
	return Handlers[T]{
		Add:    w.added,
		Update: w.updated,
		Delete: func(obj T) { w.wakeOwner(obj, true) },
	}
}

// added takes a new object for one that its owner has created. After a broken
// watch the first that is seen of it may be that it is going already. It was
// created all the same, and an owner that went on waiting for that would wait
// in vain. (The original does, until its expectation runs out.)
func (w *Waker[O, T]) added(obj T) {
	if owner, ok := w.OwnerOf(obj); ok && w.Expectations != nil {
		w.Expectations.CreationObserved(owner)
	}
	w.wakeOwner(obj, isGoing(obj))
	w.wakeAdopters(obj)
}

// updated wakes the former owner as well if there was another. An orphan is
// news to those who want it when it has become one or its labels have changed.
func (w *Waker[O, T]) updated(old, obj T) {
	if old.GetResourceVersion() == obj.GetResourceVersion() {
		return // the periodic resync
	}
	ref, oldRef := metav1.GetControllerOfNoCopy(obj), metav1.GetControllerOfNoCopy(old)
	ownerChanged := !equality.Semantic.DeepEqual(ref, oldRef)
	if ownerChanged {
		w.wakeOwner(old, isGoing(obj))
	}
	w.wakeOwner(obj, isGoing(obj))
	if ownerChanged || !maps.Equal(obj.GetLabels(), old.GetLabels()) {
		w.wakeAdopters(obj)
	}
}

// isGoing tells whether an object's deletion was asked for. For its owner it
// no longer counts from then on, which may be long before it is gone.
func isGoing(obj metav1.Object) bool { return obj.GetDeletionTimestamp() != nil }

// wakeOwner wakes the owner of an object, if it has one.
func (w *Waker[O, T]) wakeOwner(obj T, going bool) {
	owner, ok := w.OwnerOf(obj)
	if !ok {
		return
	}
	if going && w.Expectations != nil {
		w.Expectations.DeletionObserved(owner, obj.GetUID())
	}
	w.Loop.AddAfter(cache.MetaObjectToName(owner), w.NewsPeriod)
}

// wakeAdopters wakes every owner that wants an object, if it may be adopted.
func (w *Waker[O, T]) wakeAdopters(obj T) {
	if metav1.GetControllerOfNoCopy(obj) != nil || isGoing(obj) {
		return
	}
	owners, err := w.List(obj.GetNamespace())
	if err != nil {
		return // the cache never fails
	}
	for _, owner := range owners {
		if isLong(w.Selector(owner)) {
			w.Loop.Add(cache.MetaObjectToName(owner))
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(w.Selector(owner))
		// An empty selector would match everything. The API server does not
		// let one in.
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(obj.GetLabels())) {
			w.Loop.Add(cache.MetaObjectToName(owner))
		}
	}
}

// isLong tells whether it takes so long to read a selector that the owner had
// better find out by itself what it wants, in its own sync. The API server takes
// selectors with thousands of labels, and handlers are called for one object after
// another, of all namespaces.
func isLong(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return false
	}
	n := len(selector.MatchLabels)
	for _, expression := range selector.MatchExpressions {
		n += 1 + len(expression.Values)
	}
	return n > 20
}

// OwnerOf returns the owner of an object, as [OwnerOf] does.
func (w *Waker[O, T]) OwnerOf(obj T) (owner O, ok bool) { return OwnerOf(obj, w.Kind, w.Get) }

// OwnerOf returns the object of a kind that obj's controller reference names,
// read with get. It is not ok if there is none, if the reference names another
// kind, or if the name belongs to another object by now.
func OwnerOf[O metav1.Object](
	obj metav1.Object,
	kind string,
	get func(cache.ObjectName) (O, error),
) (owner O, ok bool) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kind {
		return owner, false
	}
	owner, err := get(cache.NewObjectName(obj.GetNamespace(), ref.Name))
	return owner, err == nil && owner.GetUID() == ref.UID
}
