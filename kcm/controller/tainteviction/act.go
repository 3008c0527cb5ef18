package tainteviction

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// evict marks and deletes a pod whose deadline has come, if the API server says the same of its
// node. The cache may not show yet that a taint is off, while it shows a pod that was bound after
// that (https://issues.k8s.io/139992).
func (c *Controller) evict(ctx context.Context, pod *corev1.Pod, due []deadline) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live := c.deadlinesOn(node, pod, due); len(live) == 0 || time.Until(live[0].at) > 0 {
		return fmt.Errorf("%w: the node has other taints by now", controller.ErrStaleCache)
	}
	why := controller.DisruptionTarget(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	err = controller.PatchPodStatus(ctx, c.client, pod, corev1.PodStatus{Conditions: []corev1.PodCondition{why}})
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Deleting pod, its node has a taint", "pod", klog.KObj(pod), "taint", due[0].taint.Key)
	err = c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil {
		return err
	}
	c.tell(pod, "Marking for deletion Pod")
	podDeletions.Inc()
	podDeletionDuration.Observe(time.Since(due[0].at).Seconds())
	return nil
}

// tell records an event of the pod.
func (c *Controller) tell(pod *corev1.Pod, what string) {
	c.events.Eventf(pod, corev1.EventTypeNormal, "TaintManagerEviction", "%s %s", what, klog.KObj(pod))
}
