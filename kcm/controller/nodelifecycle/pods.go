package nodelifecycle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// syncPod says of a pod whose node is silent that it is not ready, so that Services leave it out. It
// does that once for as long as the node is silent: a kubelet that speaks again may say so of its
// pods before it does of the node, and has the last word. (It has it, too, where it says that the
// node is not ready, and it would be contradicted every ten seconds: issue 125618.)
func (c *Controller) syncPod(ctx context.Context, key cache.ObjectName) error {
	pod, _ := c.pods.Pods(key.Namespace).Get(key.Name) // nil if the cache has none
	if pod == nil || !c.isOnSilentNode(pod) {
		c.marked.Delete(key)
		return nil
	}
	ready := mayBeReady(pod)
	if uid, _ := c.marked.Load(key); ready == nil || uid == pod.UID {
		return nil
	}
	not := *ready
	not.Status, not.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
	err := controller.PatchPodStatus(ctx, c.client, pod, corev1.PodStatus{Conditions: []corev1.PodCondition{not}})
	if controller.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark pod %s of a silent node as not ready: %w", key, err)
	}
	c.marked.Store(key, pod.UID)
	c.events.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	return nil
}

// isOnSilentNode tells whether the node of a pod is Unknown.
func (c *Controller) isOnSilentNode(pod *corev1.Pod) bool {
	node, _ := c.nodes.Get(pod.Spec.NodeName)
	return node != nil && isUnknown(node)
}

// mayBeReady returns the condition of a pod that says something else than that it is not ready, or nil.
func mayBeReady(pod *corev1.Pod) *corev1.PodCondition {
	for i, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionFalse {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
