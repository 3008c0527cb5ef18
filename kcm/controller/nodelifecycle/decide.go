package nodelifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// situation is what one sync knows of a node.
type situation struct {
	node   *corev1.Node
	silent bool // for too long, and its conditions do not say so yet
	turn   turn
	now    metav1.Time
}

// plan is what is to be written of a node: conditions, or else taints. The taints that follow from the
// conditions come with the next sync, which sees these.
type plan struct {
	conditions    []corev1.NodeCondition // those that change
	taints        []corev1.Taint         // all that it is to have
	changesTaints bool
}

// decide returns what is to be written of a node for what is known of it.
func decide(s situation) plan {
	if s.silent {
		return plan{conditions: unknown(s.node, s.now)}
	}
	taints := wantedTaints(s.node, s.turn, s.now)
	return plan{taints: taints, changesTaints: !equality.Semantic.DeepEqual(taints, s.node.Spec.Taints)}
}

// unknown returns the conditions of a silent node that only its kubelet could know. That of the
// network is another's.
func unknown(node *corev1.Node, now metav1.Time) []corev1.NodeCondition {
	var unknown []corev1.NodeCondition
	for _, of := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		condition := corev1.NodeCondition{
			Type:              of,
			Reason:            "NodeStatusNeverUpdated",
			Message:           "Kubelet never posted node status.",
			LastHeartbeatTime: node.CreationTimestamp,
		}
		if _, said := nodeutil.GetNodeCondition(&node.Status, of); said != nil {
			condition = *said
			condition.Reason, condition.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		}
		if condition.Status != corev1.ConditionUnknown {
			condition.Status, condition.LastTransitionTime = corev1.ConditionUnknown, now
			unknown = append(unknown, condition)
		}
	}
	return unknown
}

// problem is what keeps pods from a node, with the key of the taint that it becomes.
type problem struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}

var problems = []problem{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// wantedTaints returns the taints that a node is to have. Those of others stay, and so does what is
// right already, with the time when it was added. A node comes with not-ready:NoSchedule, by the
// admission plugin TaintNodesByCondition. If it has no condition Ready, that goes at the first look.
func wantedTaints(node *corev1.Node, turn turn, now metav1.Time) []corev1.Taint {
	wanted := append(noSchedule(node), noExecute(node, turn)...)
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return isOurs(t) && !has(wanted, t)
	})
	for _, t := range wanted {
		if !has(taints, t) {
			t.TimeAdded = &now
			taints = append(taints, t)
		}
	}
	return taints
}

// noSchedule returns the taints that keep new pods away.
func noSchedule(node *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	for _, p := range problems {
		if statusOf(node, p.condition) == p.status {
			taints = append(taints, corev1.Taint{Key: p.taint, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return taints
}

// noExecute returns the taint that asks for the eviction of a lost node's pods. It comes in turn. Once
// there, it stays as long as the node is lost, and only changes its key. If the node has no condition
// Ready, it stays as it is.
func noExecute(node *corev1.Node, turn turn) []corev1.Taint {
	i := slices.IndexFunc(node.Spec.Taints, evicts)
	switch status := statusOf(node, corev1.NodeReady); {
	case turn == never || i < 0 && turn != granted:
		return nil
	case status == corev1.ConditionFalse:
		return []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}
	case status == corev1.ConditionUnknown:
		return []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	case status != corev1.ConditionTrue && i >= 0:
		return node.Spec.Taints[i : i+1]
	}
	return nil
}

// isOurs tells whether this loop may take a taint off.
func isOurs(t corev1.Taint) bool {
	if t.Effect != corev1.TaintEffectNoSchedule {
		return evicts(t)
	}
	return t.Key == corev1.TaintNodeUnschedulable ||
		slices.ContainsFunc(problems, func(p problem) bool { return t.Key == p.taint })
}

// evicts tells whether a taint asks for the eviction of a lost node's pods.
func evicts(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute &&
		(t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
}

func has(taints []corev1.Taint, t corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(other corev1.Taint) bool { return other.MatchTaint(&t) })
}

// statusOf returns the status of a condition, which is empty if nobody has said anything of it.
func statusOf(node *corev1.Node, of corev1.NodeConditionType) corev1.ConditionStatus {
	if _, condition := nodeutil.GetNodeCondition(&node.Status, of); condition != nil {
		return condition.Status
	}
	return ""
}
