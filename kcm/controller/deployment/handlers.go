package deployment

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchDeployments wakes a deployment when it appears and when anything about
// it changes, its status included. One that is gone needs nothing: what it
// leaves behind is the garbage collector's.
func (c *Controller) watchDeployments(informer cache.SharedIndexInformer) cache.InformerSynced {
	return controller.Handle(informer, controller.Handlers[*appsv1.Deployment]{
		Add:    c.enqueue,
		Update: func(_, d *appsv1.Deployment) { c.enqueue(d) },
	})
}

func (c *Controller) enqueue(d *appsv1.Deployment) {
	c.loop.Add(cache.MetaObjectToName(d))
}

func (c *Controller) watchReplicaSets(informer cache.SharedIndexInformer) cache.InformerSynced {
	return controller.Handle(informer, controller.Handlers[*appsv1.ReplicaSet]{
		Add:    c.replicaSetAdded,
		Update: c.replicaSetUpdated,
		Delete: c.enqueueOwner,
	})
}

// replicaSetAdded wakes the owner, or all who may want to adopt an orphan.
func (c *Controller) replicaSetAdded(rs *appsv1.ReplicaSet) {
	switch {
	case metav1.GetControllerOf(rs) != nil:
		c.enqueueOwner(rs)
	case rs.DeletionTimestamp == nil:
		c.enqueueMatching(rs)
	}
}

// replicaSetUpdated wakes the owner, and the former owner if there was
// another. An orphan concerns those who match it, once it has become one or
// its labels have changed.
func (c *Controller) replicaSetUpdated(old, rs *appsv1.ReplicaSet) {
	if old.ResourceVersion == rs.ResourceVersion {
		return // a resync of the informer
	}
	ref := metav1.GetControllerOf(rs)
	ownerChanged := !apiequality.Semantic.DeepEqual(metav1.GetControllerOf(old), ref)
	if ownerChanged {
		c.enqueueOwner(old)
	}
	switch {
	case ref != nil:
		c.enqueueOwner(rs)
	case ownerChanged || !maps.Equal(old.Labels, rs.Labels):
		c.enqueueMatching(rs)
	}
}

func (c *Controller) watchPods(informer cache.SharedIndexInformer) cache.InformerSynced {
	return controller.Handle(informer, controller.Handlers[*corev1.Pod]{Delete: c.podDeleted})
}

// podDeleted wakes a deployment that may have waited for its old pods to go.
// With other strategies the ReplicaSets' status says enough about pods.
func (c *Controller) podDeleted(pod *corev1.Pod) {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return
	}
	rs, err := c.replicaSets.ReplicaSets(pod.Namespace).Get(ref.Name)
	if err != nil || rs.UID != ref.UID {
		return // the ReplicaSet went too, and its deletion woke the owner
	}
	if d := c.ownerOf(rs); d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		c.enqueue(d)
	}
}

func (c *Controller) enqueueOwner(rs *appsv1.ReplicaSet) {
	if d := c.ownerOf(rs); d != nil {
		c.enqueue(d)
	}
}

// ownerOf returns the deployment that the controller reference names, or nil
// if there is none or the name belongs to another object by now.
func (c *Controller) ownerOf(rs *appsv1.ReplicaSet) *appsv1.Deployment {
	ref := metav1.GetControllerOf(rs)
	if ref == nil || ref.Kind != kind.Kind {
		return nil
	}
	d, err := c.deployments.Deployments(rs.Namespace).Get(ref.Name)
	if err != nil || d.UID != ref.UID {
		return nil
	}
	return d
}

// enqueueMatching wakes all deployments that would adopt the ReplicaSet. Two
// that do are a user's mistake; the first to write its reference wins.
func (c *Controller) enqueueMatching(rs *appsv1.ReplicaSet) {
	all, err := c.deployments.Deployments(rs.Namespace).List(labels.Everything())
	if err != nil {
		return // the cache never fails
	}
	for _, d := range all {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(rs.Labels)) {
			c.enqueue(d)
		}
	}
}
