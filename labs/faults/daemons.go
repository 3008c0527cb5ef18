package faults

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pair looks at a pod of a DaemonSet that is new. A pod that is on its way out
// still uses its node's ports and files, so it counts until it has ended.
func pair(m *moment) string {
	pod, set := m.newDaemon()
	if set == nil {
		return ""
	}
	may := int32(1)
	if surge, _ := daemonBounds(set); surge > 0 {
		may = 2
	}
	there := count(m.daemonsOn(set, nodeOf(pod)), func(pod *corev1.Pod) bool { return !hasEnded(pod) && (may == 1 || stays(pod)) })
	if there > may {
		return fmt.Sprintf("%s was made, and node %s has %d pods of %s; %d may be there", pod.Name, nodeOf(pod), there, set.Name, may)
	}
	return ""
}

// second looks at a pod of a DaemonSet that is new, and comes beside an old one
// that is available.
func second(m *moment) string {
	pod, set := m.newDaemon()
	if set == nil {
		return ""
	}
	most, _ := daemonBounds(set)
	nodes := map[string]int{}
	available := map[string]bool{}
	for _, other := range m.daemonsOf(set) {
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
		return fmt.Sprintf("%s was made, and %s has a second pod on %d nodes; %d are allowed", pod.Name, set.Name, pairs, most)
	}
	return ""
}

// bare looks at an available pod of a DaemonSet that is being deleted now. It
// counts who goes below the bound, as available does.
func bare(m *moment) string {
	pod := m.deletedNow()
	if pod == nil || !isAvailable(pod) || m.daemonSetOf(pod) == nil || !stays(m.daemonSetOf(pod)) {
		return ""
	}
	set := m.daemonSetOf(pod)
	nodes := map[string]bool{}
	for _, other := range m.daemonsOf(set) {
		if isAvailable(other) {
			nodes[nodeOf(other)] = true
		}
	}
	_, unavailable := daemonBounds(set)
	least := set.Status.DesiredNumberScheduled - unavailable
	if left := int32(len(nodes)); !nodes[nodeOf(pod)] && left == least-1 {
		return fmt.Sprintf("available pod %s was deleted, and %s has an available pod on %d nodes; %d are the least", pod.Name, set.Name, left, least)
	}
	return ""
}

// newDaemon returns the pod that the change makes, and its DaemonSet, or nil.
func (m *moment) newDaemon() (*corev1.Pod, *appsv1.DaemonSet) {
	pod, is := m.is.(*corev1.Pod)
	if !is || m.was != nil {
		return nil, nil
	}
	return pod, m.daemonSetOf(pod)
}

// daemonSetOf returns the DaemonSet that owns a pod, or nil.
func (w *World) daemonSetOf(pod *corev1.Pod) *appsv1.DaemonSet {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return w.DaemonSets[owner.UID]
	}
	return nil
}

// daemonsOf returns the pods that a DaemonSet owns, by name.
func (w *World) daemonsOf(set *appsv1.DaemonSet) []*corev1.Pod {
	return sorted(w.Pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, set) })
}

// daemonsOn returns those of them that are for a node.
func (w *World) daemonsOn(set *appsv1.DaemonSet, node string) []*corev1.Pod {
	return sorted(w.Pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, set) && nodeOf(pod) == node })
}

// nodeOf returns the name of the node that a pod of a DaemonSet is on, or is for.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// daemonBounds are how many nodes of a DaemonSet may have a second pod beside an
// available one, and how many may be without an available one for the sake of an
// update. Both are rounded up, and if both are 0 one may be without. With
// OnDelete the loop takes no pod away.
func daemonBounds(set *appsv1.DaemonSet) (surge, unavailable int32) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || rolling == nil {
		return 0, 0
	}
	scaled := func(value *intstr.IntOrString) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(value, int(set.Status.DesiredNumberScheduled), true)
		if value == nil || err != nil {
			return 0
		}
		return int32(n)
	}
	surge, unavailable = scaled(rolling.MaxSurge), scaled(rolling.MaxUnavailable)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}
