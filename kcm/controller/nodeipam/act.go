package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// assign writes a node's ranges, the same each time: if they were written already, and only
// the answer was lost, nothing changes. Whatever becomes of the request, they stay the node's
// own until the cluster says that it has others, or is gone. The UID in the patch keeps it from
// another node of the name, and the API server refuses it for one that has got other ranges.
// An answer without ranges is a refusal.
func (c *Controller) assign(ctx context.Context, node *corev1.Node, ranges []netip.Prefix) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"spec":     map[string]any{"podCIDR": ranges[0], "podCIDRs": ranges},
	})
	if err != nil {
		return err
	}
	answer, err := c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil && len(answer.Spec.PodCIDRs) == 0 {
		err = apierrors.NewInternalError(errors.New("admission leaves them out"))
	}
	switch {
	case err == nil:
		c.mu.Lock()
		c.ledger.wrote(node)
		c.mu.Unlock()
		klog.FromContext(ctx).V(2).Info("Gave node its ranges", "node", klog.KObj(node), "podCIDRs", ranges)
		return nil
	case controller.IsGone(err):
		return nil
	case errors.As(err, new(apierrors.APIStatus)): // an answer
		c.tell(node, "CIDRAssignmentFailed")
	}
	return fmt.Errorf("write ranges %v of node %s: %w", ranges, node.Name, err)
}

// tell records an event that says what became of a node. About something without a namespace
// it is found by the UID.
func (c *Controller) tell(node *corev1.Node, status string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	c.events.Eventf(about, corev1.EventTypeNormal, status, "Node %s status is now: %s", node.Name, status)
}
