package daemon

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rollOut plans the next step of a rolling update. It finds at most one living
// pod on each node, or two of which one is current: decide has seen to that.
func rollOut(seen observed) plan {
	maxSurge, maxUnavailable := limits(seen)
	if maxSurge > 0 {
		return surge(seen, maxSurge)
	}
	return plan{delete: replace(seen, maxUnavailable)}
}

// limits returns how many nodes may have a second pod, and how many may be
// without an available one. Shares are of the nodes that are to have a pod, and
// are rounded up. If both come to nothing, one node may be without: the update
// has to go on. Where no node is to have a pod it has nowhere to go, and what
// is available may stay.
func limits(seen observed) (maxSurge, maxUnavailable int) {
	rolling := seen.set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		rolling = &appsv1.RollingUpdateDaemonSet{}
	}
	desired := 0
	for _, place := range seen.places {
		if place.run {
			desired++
		}
	}
	maxSurge, maxUnavailable = scaled(rolling.MaxSurge, desired), scaled(rolling.MaxUnavailable, desired)
	if desired > 0 && maxSurge == 0 && maxUnavailable == 0 {
		maxUnavailable = 1
	}
	return maxSurge, maxUnavailable
}

// scaled returns a number or a share of total, and zero for what is neither:
// the API server lets no such thing in.
func scaled(value *intstr.IntOrString, total int) int {
	if value == nil {
		return 0
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil {
		return 0
	}
	return number
}

// surges tells whether a node of the set may have two pods.
func surges(set *appsv1.DaemonSet) bool {
	strategy := set.Spec.UpdateStrategy
	return strategy.Type == appsv1.RollingUpdateDaemonSetStrategyType && strategy.RollingUpdate != nil &&
		scaled(strategy.RollingUpdate.MaxSurge, 1) > 0
}

// versions returns the first living pod of the current revision and the first
// of any other, or nil.
func (seen observed) versions(place place) (current, old *corev1.Pod) {
	for _, pod := range place.pods {
		switch {
		case pod.DeletionTimestamp != nil || hasEnded(pod):
		case seen.isCurrent(pod) && current == nil:
			current = pod
		case !seen.isCurrent(pod) && old == nil:
			old = pod
		}
	}
	return current, old
}

// replace returns the old pods that go now, for a set that does not surge. Of those
// that are available the ones of the first places go.
func replace(seen observed, maxUnavailable int) []*corev1.Pod {
	var broken, working []*corev1.Pod
	unavailable := 0
	for _, place := range seen.places {
		current, old := seen.versions(place)
		switch {
		case old != nil && seen.isAvailable(old):
			working = append(working, old)
			continue
		case old != nil:
			broken = append(broken, old)
		case current != nil && seen.isAvailable(current):
			continue
		}
		if place.run {
			unavailable++
		}
	}
	room := max(maxUnavailable-unavailable, 0)
	return slices.Concat(broken, working[:min(room, len(working))])
}

// surge plans the next step for a set whose nodes may have two pods for a time.
// Where not all nodes can have their turn, those of the first places have it.
func surge(seen observed, maxSurge int) plan {
	var p plan
	var candidates []string
	var leaving []*corev1.Pod
	surging, available, desired := 0, 0, 0
	for _, place := range seen.places {
		current, old := seen.versions(place)
		if place.run {
			desired++
		}
		if seen.hasAvailable(current, old) {
			available++
		}
		switch {
		case old == nil:
		case current != nil && seen.isAvailable(current), !place.run && !seen.isAvailable(old):
			p.delete = append(p.delete, old)
		case current != nil:
			surging++
		case !place.run:
			leaving = append(leaving, old)
		case seen.isAvailable(old):
			candidates = append(candidates, place.node)
		default:
			p.create = append(p.create, place.node)
		}
	}
	p.create = append(p.create, candidates[:min(max(maxSurge-surging, 0), len(candidates))]...)
	p.delete = append(p.delete, leaving[:min(max(available-desired, 0), len(leaving))]...)
	return p
}

// hasAvailable tells whether one of the pods, some of which may be nil, is
// available.
func (seen observed) hasAvailable(pods ...*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod != nil && seen.isAvailable(pod) })
}
