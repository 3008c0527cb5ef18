package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
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
