package tainteviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchNodes has a node whose taints change wake its pods.
func (c *Controller) watchNodes(informer cache.SharedIndexInformer, podsOn func(node string) []any) {
	wake := func(node *corev1.Node) {
		for _, pod := range podsOn(node.Name) {
			c.loop.Add(cache.MetaObjectToName(pod.(*corev1.Pod)))
		}
	}
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*corev1.Node]{
		Add: func(node *corev1.Node) {
			if hasNoExecute(node) {
				wake(node)
			}
		},
		Update: func(old, node *corev1.Node) {
			changed := !equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints)
			if changed && (hasNoExecute(old) || hasNoExecute(node)) {
				wake(node)
			}
		},
	}))
}

func hasNoExecute(node *corev1.Node) bool {
	evicts := func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }
	return slices.ContainsFunc(node.Spec.Taints, evicts)
}

// watchPods has a pod looked at that comes to a node with such a taint, or tolerates something else
// than before. If the cache shows the taint later than the pod, the node wakes the pod.
func (c *Controller) watchPods(informer cache.SharedIndexInformer) {
	wake := func(pod *corev1.Pod) {
		if node, err := c.nodes.Get(pod.Spec.NodeName); err == nil && hasNoExecute(node) {
			c.loop.Add(cache.MetaObjectToName(pod))
		}
	}
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*corev1.Pod]{
		Add: wake,
		Update: func(old, pod *corev1.Pod) {
			if old.Spec.NodeName != pod.Spec.NodeName ||
				!equality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations) {
				wake(pod)
			}
		},
	}))
}
