package cloudnodelifecycle

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act does what was decided about a node as it was seen. That it is gone is no failure.
func (c *Controller) act(ctx context.Context, node *corev1.Node, what action) error {
	var err error
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), isShutdownTaint)
	switch what {
	case remove:
		err = c.delete(ctx, node)
	case taint:
		err = controller.PatchTaints(ctx, c.client, node, append(taints, shutdownTaint))
	case untaint:
		err = controller.PatchTaints(ctx, c.client, node, taints)
	}
	if err == nil || controller.IsGone(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// delete deletes a node, and no other that has its name by now.
func (c *Controller) delete(ctx context.Context, node *corev1.Node) error {
	klog.FromContext(ctx).V(2).Info("Deleting node, its machine is gone", "node", klog.KObj(node))
	// An event about something without a namespace finds it by its UID.
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	c.events.Eventf(about, corev1.EventTypeNormal, "DeletingNode", "Deleting node %s because it does not exist in the cloud provider", node.Name)
	err := c.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))})
	if err != nil && !controller.IsGone(err) {
		c.events.Eventf(about, corev1.EventTypeWarning, "DeletingNodeFailed", "Failed deleting node %s: %v", node.Name, err)
	}
	return err
}
