package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// IsNodeReady tells whether the node's kubelet says that it can work. Where
// nobody has said anything, it cannot.
func IsNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
