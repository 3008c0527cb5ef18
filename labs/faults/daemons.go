package faults

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// pair looks at a pod of a DaemonSet that is new. A pod that is on its way out still uses its node's ports and files,
// so it counts until it has ended.
func pair(j *Judge) string {
	pod, set := newPod[*appsv1.DaemonSet](j)
	if set == nil {
		return ""
	}
	may := int32(1)
	if surge, _ := daemonBounds(set); surge > 0 {
		may = 2
	}
	there := count(j.podsOf(set), func(other *corev1.Pod) bool {
		return nodeOf(other) == nodeOf(pod) && !hasEnded(other) && (may == 1 || stays(other))
	})
	if there > may {
		return fmt.Sprintf("%s was made, and node %s has %d pods of %s; %d may be there",
			pod.Name, nodeOf(pod), there, set.Name, may)
	}
	return ""
}

// second looks at a pod of a DaemonSet that is new, and comes beside an old one that is available.
func second(j *Judge) string {
	pod, set := newPod[*appsv1.DaemonSet](j)
	if set == nil {
		return ""
	}
	most, _ := daemonBounds(set)
	nodes := map[string]int{}
	available := map[string]bool{}
	for _, other := range j.podsOf(set) {
		if isActive(other) {
			nodes[nodeOf(other)]++
			available[nodeOf(other)] = available[nodeOf(other)] || isAvailable(other)
		}
	}
	pairs := int32(0)
	for node, pods := range nodes {
		if pods > 1 && available[node] {
			pairs++
		}
	}
	if nodes[nodeOf(pod)] > 1 && available[nodeOf(pod)] && pairs > most {
		return fmt.Sprintf("%s was made, and %s has a second pod on %d nodes; %d are allowed",
			pod.Name, set.Name, pairs, most)
	}
	return ""
}

// bare looks at an available pod of a DaemonSet that is being deleted now. It counts who goes below the bound, as
// available does.
func bare(j *Judge) string {
	pod, set := deletedPod[*appsv1.DaemonSet](j)
	if set == nil || !isAvailable(pod) || !stays(set) {
		return ""
	}
	nodes := map[string]bool{}
	for _, other := range j.podsOf(set) {
		if isAvailable(other) {
			nodes[nodeOf(other)] = true
		}
	}
	_, unavailable := daemonBounds(set)
	least := set.Status.DesiredNumberScheduled - unavailable
	if left := int32(len(nodes)); !nodes[nodeOf(pod)] && left == least-1 {
		return fmt.Sprintf("available pod %s was deleted, and %s has an available pod on %d nodes; %d are the least",
			pod.Name, set.Name, left, least)
	}
	return ""
}

// nodeOf returns the name of the node that a pod of a DaemonSet is for.
func nodeOf(pod *corev1.Pod) string {
	affinity := ptr.Deref(ptr.Deref(pod.Spec.Affinity, corev1.Affinity{}).NodeAffinity, corev1.NodeAffinity{})
	required := ptr.Deref(affinity.RequiredDuringSchedulingIgnoredDuringExecution, corev1.NodeSelector{})
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// daemonBounds are how many nodes of a DaemonSet may have a second pod beside an available one, and how many may be
// without an available one for the sake of an update. With OnDelete the loop takes no pod away.
func daemonBounds(set *appsv1.DaemonSet) (surge, unavailable int32) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || rolling == nil {
		return 0, 0
	}
	return scaled(set.Status.DesiredNumberScheduled, rolling.MaxSurge, rolling.MaxUnavailable, true)
}
