package replication

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchSets has every change of a set wake that set. That includes changes of
// the status, which the loop itself writes, and the periodic resync, when a
// set is handed over unchanged: a sync that finds nothing to do costs little.
//
// A set that was deleted and created anew may be notified as one update with
// another UID. Expectations and pods are told apart by the owner's UID, so
// nothing of the old set is mistaken for the new one's.
func watchSets[T metav1.Object](c *Controller, informer cache.SharedIndexInformer) {
	c.setWrites = newOwnWrites(informer.GetStore())
	add := func(set T) { c.loop.Add(cache.MetaObjectToName(set)) }
	synced := controller.Handle(informer, controller.Handlers[T]{
		Add:    add,
		Update: func(_, set T) { add(set) },
		Delete: add, // the sync that finds it gone forgets what it expected
	})
	c.synced = append(c.synced, synced)
}

// watchPods has changes of pods wake the sets that they concern, and takes
// observed creations and deletions off what the sets expect.
func (c *Controller) watchPods(informer cache.SharedIndexInformer) {
	synced := controller.Handle(informer, controller.Handlers[*corev1.Pod]{
		Add:    c.podAdded,
		Update: c.podUpdated,
		Delete: c.podDeleted,
	})
	c.synced = append(c.synced, synced)
}

// podAdded takes a new pod for one that its set has created. After a broken
// watch the first that is seen of a pod may be that it is going already. It was
// created all the same, and a set that went on waiting for that would wait in
// vain. (The original does, until its expectation runs out.)
func (c *Controller) podAdded(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	switch {
	case ref != nil:
		if set := c.setOf(pod.Namespace, ref); set != nil {
			c.expectations.CreationObserved(set)
			if pod.DeletionTimestamp != nil {
				c.expectations.DeletionObserved(set, pod.UID)
			}
			c.wake(set)
		}
	case pod.DeletionTimestamp == nil:
		c.wakeAdopters(pod)
	}
}

func (c *Controller) podUpdated(old, pod *corev1.Pod) {
	if pod.ResourceVersion == old.ResourceVersion {
		return // the periodic resync
	}
	if pod.DeletionTimestamp != nil {
		// The pod no longer counts from the moment when its deletion was asked
		// for, which may be long before it is gone.
		c.podDeleted(pod)
		if !maps.Equal(pod.Labels, old.Labels) {
			c.podDeleted(old)
		}
		return
	}
	ref, oldRef := metav1.GetControllerOfNoCopy(pod), metav1.GetControllerOfNoCopy(old)
	refChanged := !equality.Semantic.DeepEqual(ref, oldRef)
	if refChanged {
		c.wakeOwner(pod.Namespace, oldRef)
	}
	switch {
	case ref != nil:
		c.wakeOwner(pod.Namespace, ref)
	case refChanged || !maps.Equal(pod.Labels, old.Labels):
		c.wakeAdopters(pod)
	}
}

// podDeleted is called when a pod's deletion was asked for, and again when the
// pod is gone. Both wake the set: the first makes room for another pod, the
// second changes how many are terminating.
func (c *Controller) podDeleted(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return // nobody misses an orphan
	}
	if set := c.setOf(pod.Namespace, ref); set != nil {
		c.expectations.DeletionObserved(set, pod.UID)
		c.wake(set)
	}
}

// wakeOwner wakes the set that ref names, if it names one.
func (c *Controller) wakeOwner(namespace string, ref *metav1.OwnerReference) {
	if ref == nil {
		return
	}
	if set := c.setOf(namespace, ref); set != nil {
		c.wake(set)
	}
}

// newsPeriod is how long news of a set's pods is collected before the set is
// synced. The pods of a large set bring news all the time, and each sync looks
// at all of them and may write a status, which wakes the Deployment in turn.
const newsPeriod = 100 * time.Millisecond

// wake has a set synced soon, because there is news of its pods.
func (c *Controller) wake(set *appsv1.ReplicaSet) {
	c.loop.AddAfter(cache.MetaObjectToName(set), newsPeriod)
}

// setOf returns the set that ref names, or nil when it names another kind of
// object or a set that is not in the cache any more.
func (c *Controller) setOf(namespace string, ref *metav1.OwnerReference) *appsv1.ReplicaSet {
	if ref.Kind != c.Kind {
		return nil
	}
	set, err := c.sets.get(cache.ObjectName{Namespace: namespace, Name: ref.Name})
	if err != nil || set.UID != ref.UID {
		return nil
	}
	return set
}

// wakeAdopters wakes every set that an orphan matches. Which of them gets it
// is settled by the API server: it takes one controller reference per pod.
func (c *Controller) wakeAdopters(pod *corev1.Pod) {
	if len(pod.Labels) == 0 {
		return
	}
	sets, err := c.sets.list(pod.Namespace)
	if err != nil {
		return
	}
	for _, set := range sets {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		// An empty selector would match everything. The API server does not
		// let one in.
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			c.loop.Add(cache.MetaObjectToName(set))
		}
	}
}
