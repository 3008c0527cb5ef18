package nodelifecycle

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act writes what was decided about a node, if nothing of it has changed since it was seen. If
// something has, because its kubelet speaks again or by the last write of this loop, the cache will
// show that.
func (c *Controller) act(ctx context.Context, node *corev1.Node, p plan) error {
	var err error
	switch {
	case p.conditions != nil:
		fields := map[string]any{"conditions": p.conditions}
		err = controller.PatchNode(ctx, c.client, node, "status", fields, "status")
	case p.changesTaints:
		err = controller.PatchTaints(ctx, c.client, node, p.taints)
	default:
		return nil
	}
	switch {
	case controller.IsGone(err):
		return nil
	case err != nil:
		return fmt.Errorf("write the conditions or taints of node %s: %w", node.Name, controller.StaleIfChanged(err))
	}
	klog.FromContext(ctx).V(2).Info("Node was written", "node", klog.KObj(node), "plan", p)
	if p.conditions != nil && controller.IsNodeReady(node) {
		c.tell(node, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
	}
	if slices.ContainsFunc(p.taints, evicts) && !slices.ContainsFunc(node.Spec.Taints, evicts) {
		evictions.WithLabelValues(topology.GetZoneKey(node)).Inc()
	}
	return nil
}

// tell records an event of a node, which is found by the node's UID.
func (c *Controller) tell(node *corev1.Node, reason, format string, args ...any) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	c.events.Eventf(about, corev1.EventTypeNormal, reason, format, args...)
}
