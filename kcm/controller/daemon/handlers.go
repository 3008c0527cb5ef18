package daemon

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchSets has every change of a DaemonSet wake it.
func (c *Controller) watchSets(informer cache.SharedIndexInformer) {
	wake := func(set *appsv1.DaemonSet) { c.loop.Add(cache.MetaObjectToName(set)) }
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*appsv1.DaemonSet]{
		Add:    wake,
		Update: func(_, set *appsv1.DaemonSet) { wake(set) },
		Delete: wake, // the sync that finds it gone forgets what it expected
	}))
}

// newsPeriod is how long news of a DaemonSet's pods is collected before it is
// synced: each sync looks at all nodes and all of its pods.
const newsPeriod = 100 * time.Millisecond

// watchOwned has changes of pods and revisions wake the DaemonSets that they
// concern, and takes observed creations and deletions of pods off what these
// expect.
func (c *Controller) watchOwned(pods, revisions cache.SharedIndexInformer) {
	list := func(namespace string) ([]*appsv1.DaemonSet, error) {
		return c.sets.DaemonSets(namespace).List(labels.Everything())
	}
	selector := func(set *appsv1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector }
	podWaker := &controller.Waker[*appsv1.DaemonSet, *corev1.Pod]{
		Loop: c.loop, Kind: kind.Kind, Get: c.set, List: list, Selector: selector,
		NewsPeriod: newsPeriod, Expectations: c.expectations,
	}
	revisionWaker := &controller.Waker[*appsv1.DaemonSet, *appsv1.ControllerRevision]{
		Loop: c.loop, Kind: kind.Kind, Get: c.set, List: list, Selector: selector,
		NewsPeriod: newsPeriod,
	}
	c.synced = append(c.synced,
		controller.Handle(pods, podWaker.Handlers()),
		controller.Handle(revisions, revisionWaker.Handlers()))
}

// set reads the cache.
func (c *Controller) set(key cache.ObjectName) (*appsv1.DaemonSet, error) {
	return c.sets.DaemonSets(key.Namespace).Get(key.Name)
}

// watchNodes has a node that comes, changes or goes wake the DaemonSets whose
// verdict on it that changes. (The original asks what pods are on the node, and
// overlooks some changes that only the status has to tell of: it has a
// DaemonSet's nodes counted as they were until something else happens.)
// Where pods are bound to a node that comes, it was away, and they were left alone:
// their DaemonSets are woken, too.
func (c *Controller) watchNodes(nodes, pods cache.SharedIndexInformer) {
	podsOn := controller.PodsOn(pods)
	c.synced = append(c.synced, controller.Handle(nodes, controller.Handlers[*corev1.Node]{
		Add: func(node *corev1.Node) {
			c.wakeForNode(nil, node)
			for _, pod := range podsOn(node.Name) {
				if set, ok := controller.OwnerOf(pod.(*corev1.Pod), kind.Kind, c.set); ok {
					c.loop.AddAfter(cache.MetaObjectToName(set), newsPeriod)
				}
			}
		},
		Update: func(old, node *corev1.Node) {
			if !equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
				!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
				c.wakeForNode(old, node)
			}
		},
		Delete: func(node *corev1.Node) { c.wakeForNode(node, nil) },
	}))
}

// wakeForNode wakes those whose verdict on the new state of a node is another
// than on the old one. A node that is not there has no pod, and is to have none.
// Those that can select it in neither state are not asked: see setIndex. A
// DaemonSet that changes at the same time is woken by its own change.
func (c *Controller) wakeForNode(old, node *corev1.Node) {
	sets, err := c.setIndex.concerned(old, node)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	for _, set := range sets {
		if d := demandsOf(set); d.verdictOn(old) != d.verdictOn(node) {
			c.loop.AddAfter(cache.MetaObjectToName(set), newsPeriod)
		}
	}
}
