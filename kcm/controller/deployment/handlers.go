package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
		Add:    c.wake,
		Update: func(_, d *appsv1.Deployment) { c.wake(d) },
	})
}

func (c *Controller) wake(d *appsv1.Deployment) { c.loop.Add(cache.MetaObjectToName(d)) }

// newWaker returns what wakes the deployments that a ReplicaSet concerns.
func (c *Controller) newWaker() *controller.Waker[*appsv1.Deployment, *appsv1.ReplicaSet] {
	return &controller.Waker[*appsv1.Deployment, *appsv1.ReplicaSet]{
		Loop: c.loop,
		Kind: kind.Kind,
		Get: func(key cache.ObjectName) (*appsv1.Deployment, error) {
			return c.deployments.Deployments(key.Namespace).Get(key.Name)
		},
		List: func(namespace string) ([]*appsv1.Deployment, error) {
			return c.deployments.Deployments(namespace).List(labels.Everything())
		},
		Selector: func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector },
	}
}

// podChanged takes note of a pod that has ended and that a finalizer keeps: not
// every ReplicaSet's status tells of that. (The original does not notice.)
func (c *Controller) podChanged(old, pod *corev1.Pod) {
	if old.Status.Phase != pod.Status.Phase {
		c.podEnded(pod)
	}
}

// podEnded wakes a deployment that may have waited for the end of its old pods.
// With other strategies the ReplicaSets' status says enough about pods.
func (c *Controller) podEnded(pod *corev1.Pod) {
	rs, ok := controller.OwnerOf(pod, "ReplicaSet", func(key cache.ObjectName) (*appsv1.ReplicaSet, error) {
		return c.replicaSets.ReplicaSets(key.Namespace).Get(key.Name)
	})
	if !ok {
		return // the ReplicaSet went too, and its deletion woke the owner
	}
	d, ok := c.waker.OwnerOf(rs)
	if ok && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		c.wake(d)
	}
}
