package controller

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// NodeConditions keeps whether a node works.
var NodeConditions = KeepOf(func(kept, whole *corev1.Node) { kept.Status.Conditions = whole.Status.Conditions })

// IsNodeReady tells whether the node's kubelet says that it can work. Where
// nobody has said anything, it cannot.
func IsNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// PatchNode writes fields of a part of a node, its spec or its status, if nothing of the node has
// changed since it was seen: a list, like that of the taints, has no other way to keep what somebody
// else has added. If something has, the error is a conflict.
func PatchNode(
	ctx context.Context, client kubernetes.Interface, node *corev1.Node,
	part string, fields map[string]any, subresources ...string,
) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		part:       fields,
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, subresources...)
	return err
}

// PatchTaints replaces the taints of a node as [PatchNode] does.
func PatchTaints(ctx context.Context, client kubernetes.Interface, node *corev1.Node, taints []corev1.Taint) error {
	return PatchNode(ctx, client, node, "spec", map[string]any{"taints": taints})
}
