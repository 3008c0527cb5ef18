package faults

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// using is how much of what a quota limits is there, if there is such a kind. A pod
// that has ended uses nothing, and one that is on its way out does.
func (w *World) using(name corev1.ResourceName) (n int64, exists bool) {
	switch name {
	case corev1.ResourcePods:
		return int64(len(sorted(w.Pods, func(pod *corev1.Pod) bool { return !hasEnded(pod) }))), true
	case "count/configmaps":
		return int64(len(w.Others["configmaps"])), true
	}
	return 0, false
}

// usage says what a quota's status does.
func usage(quota *corev1.ResourceQuota) string {
	var all []string
	for name, hard := range quota.Status.Hard {
		used := quota.Status.Used[name]
		all = append(all, fmt.Sprintf("%s %s of %s", name, used.String(), hard.String()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// aboveQuota looks at what is there. No user lowers the limits.
func aboveQuota(m *moment) string {
	for _, quota := range m.Quotas {
		for name, hard := range quota.Spec.Hard {
			if n, _ := m.using(name); n > hard.Value() {
				return fmt.Sprintf("%s of %s is %d; %d are allowed", name, quota.Name, n, hard.Value())
			}
		}
	}
	return ""
}
