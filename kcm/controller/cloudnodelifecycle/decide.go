package cloudnodelifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// machine is what the cloud says of the machine behind a node.
type machine string

const (
	unknown  machine = "unknown" // it was not asked, or has not answered
	running  machine = "running"
	shutDown machine = "shut down"
	gone     machine = "gone"
)

// action is what becomes of a node.
type action string

const (
	leave   action = "leave it alone"
	remove  action = "delete it"
	taint   action = "taint it"
	untaint action = "take the taint off"
)

// shutdownTaint keeps new pods from a node whose machine is shut down. What
// runs there stays, whatever it tolerates.
var shutdownTaint = corev1.Taint{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}

// decide returns what becomes of a node, given what is known of its machine.
func decide(node *corev1.Node, machine machine) action {
	tainted := slices.ContainsFunc(node.Spec.Taints, isShutdownTaint)
	switch {
	case controller.IsNodeReady(node) && tainted:
		return untaint
	case controller.IsNodeReady(node):
		return leave
	case machine == gone && node.DeletionTimestamp == nil:
		return remove
	case machine == shutDown && !tainted:
		return taint
	}
	return leave
}

func isShutdownTaint(t corev1.Taint) bool { return t.MatchTaint(&shutdownTaint) }
