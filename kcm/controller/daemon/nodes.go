package daemon

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/feature"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// demands is what the pods of one DaemonSet ask of a node.
type demands struct {
	// node is the name of the only node that they may be on, or empty.
	node        string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func demandsOf(set *appsv1.DaemonSet) demands {
	spec := set.Spec.Template.Spec
	return demands{
		node:        spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}),
		tolerations: daemonTolerations(spec),
	}
}

// verdict is what a DaemonSet wants on a node.
type verdict struct {
	// run says that the node is to have a pod.
	run bool
	// stay says that a pod which is there may stay.
	stay bool
}

// verdictOn returns what the DaemonSet wants on a node, by the node's name, labels
// and taints alone. Where it wants a pod, these do not keep the scheduler from
// binding it. What concerns only pods to come is no reason for a pod to go. On a
// node that is nil, because it is not there, the DaemonSet wants nothing.
func (d demands) verdictOn(node *corev1.Node) verdict {
	if node == nil || (d.node != "" && d.node != node.Name) {
		return verdict{}
	}
	if fits, err := d.affinity.Match(node); err != nil || !fits {
		return verdict{} // an affinity that cannot be understood matches no node
	}
	return verdict{
		run:  d.tolerates(node, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule),
		stay: d.tolerates(node, corev1.TaintEffectNoExecute),
	}
}

// tolerates tells whether the pods tolerate all taints of the node with the
// given effects.
func (d demands) tolerates(node *corev1.Node, effects ...corev1.TaintEffect) bool {
	ofEffect := func(taint *corev1.Taint) bool { return slices.Contains(effects, taint.Effect) }
	compares := feature.DefaultFeatureGate.Enabled(controller.TaintTolerationComparisonOperators)
	_, found := schedulinghelper.FindMatchingUntoleratedTaint(
		klog.Background(), node.Spec.Taints, d.tolerations, ofEffect, compares)
	return !found
}

// daemonTolerations returns the tolerations of a template and those that every
// pod of a DaemonSet has: what hinders other pods on a node with a problem must
// not hinder those that may be there to solve it. One of the template's that is
// the same but for its time counts without a time.
func daemonTolerations(spec corev1.PodSpec) []corev1.Toleration {
	tolerations := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		added := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		same := func(t corev1.Toleration) bool { return added.MatchToleration(&t) }
		if i := slices.IndexFunc(tolerations, same); i >= 0 {
			tolerations[i] = added
		} else {
			tolerations = append(tolerations, added)
		}
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return tolerations
}
