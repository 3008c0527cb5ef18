package replication

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchSets has every change of a set wake that set. That includes changes of
// the status, which the loop itself writes, and the periodic resync, when a
// set is handed over unchanged: a sync that finds nothing to do costs little.
//
// A set that was deleted and created anew may have been synced as neither in
// between: a key is only a name. Expectations and pods are told apart by the
// owner's UID, so nothing of the old set is mistaken for the new one's.
func watchSets[T metav1.Object](c *Controller, informer cache.SharedIndexInformer) {
	c.setWrites = newOwnWrites(schema.GroupResource{Group: c.Group, Resource: c.resource}, informer.GetStore())
	wake := func(set T) { c.loop.Add(cache.MetaObjectToName(set)) }
	synced := controller.Handle(informer, controller.Handlers[T]{
		Add:    wake,
		Update: func(_, set T) { wake(set) },
		Delete: wake, // the sync that finds it gone forgets what it expected
	})
	c.synced = append(c.synced, synced)
}

// newsPeriod is how long news of a set's pods is collected before the set is
// synced. The pods of a large set bring news all the time, and each sync looks
// at all of them and may write a status, which wakes the Deployment in turn.
const newsPeriod = 100 * time.Millisecond

// watchPods has changes of pods wake the sets that they concern, and takes
// observed creations and deletions off what the sets expect.
func (c *Controller) watchPods(informer cache.SharedIndexInformer) {
	waker := &controller.Waker[*appsv1.ReplicaSet, *corev1.Pod]{
		Loop:         c.loop,
		Kind:         c.Kind,
		Get:          c.sets.get,
		List:         c.sets.list,
		Selector:     func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector },
		NewsPeriod:   newsPeriod,
		Expectations: c.expectations,
	}
	c.synced = append(c.synced, controller.Handle(informer, waker.Handlers()))
}
