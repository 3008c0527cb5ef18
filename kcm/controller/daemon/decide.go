package daemon

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// plan is what one sync does about the pods.
type plan struct {
	// create are the names of the nodes that get a pod.
	create []string
	delete []*corev1.Pod
}

func (p plan) isEmpty() bool { return len(p.create) == 0 && len(p.delete) == 0 }

// decide plans which nodes get a pod and which pods go. Nodes that have too
// few, too many or the wrong ones come first; only where that leaves nothing
// to do does a rolling update go on. It plans nothing before the set may act,
// and at most burst creations and burst deletions, for the first places.
func decide(seen observed, burst int) plan {
	if !seen.mayAct {
		return plan{}
	}
	p := plan{delete: slices.Clone(seen.lost)}
	for _, place := range seen.places {
		create, remove := tidy(seen, place)
		if create {
			p.create = append(p.create, place.node)
		}
		p.delete = append(p.delete, remove...)
	}
	if p.isEmpty() && seen.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		p = rollOut(seen)
	}
	return plan{create: p.create[:min(len(p.create), burst)], delete: p.delete[:min(len(p.delete), burst)]}
}

// inTurn returns what was seen with the places where least was refused first, and
// among these in another order each time. The API server may refuse what is asked for
// some nodes, and the first refusals can end a try: these nodes must not be the first
// in all of them.
func (seen observed) inTurn(shuffle func(n int, swap func(i, j int))) observed {
	seen.places = slices.Clone(seen.places)
	shuffle(len(seen.places), func(i, j int) { seen.places[i], seen.places[j] = seen.places[j], seen.places[i] })
	slices.SortStableFunc(seen.places, func(a, b place) int { return cmp.Compare(a.refused, b.refused) })
	return seen
}

// tidy decides about one node, before any rolling update: whether the node gets a
// pod, and which of its pods go. It brings the node to one living pod, or to none if
// none may stay. Without surge two pods never run there because of tidy. With surge
// two may, one of each version: see excess. During the node's pause a pod that has
// failed stays if one may stay; with surge none is created. A pod that is going is
// not deleted again.
func tidy(seen observed, place place) (create bool, remove []*corev1.Pod) {
	var living []*corev1.Pod
	for _, pod := range place.pods {
		switch {
		case pod.DeletionTimestamp != nil:
		case !place.stay:
			remove = append(remove, pod)
		case hasFailed(pod) && place.pause > 0:
		case hasEnded(pod):
			remove = append(remove, pod)
		default:
			living = append(living, pod)
		}
	}
	if !surges(seen.set) {
		return place.run && len(place.pods) == 0, append(remove, living[min(1, len(living)):]...)
	}
	create = place.run && len(living) == 0 && place.pause == 0
	return create, append(remove, excess(seen, living)...)
}

// excess returns which living pods of a node go when the set surges. It leaves at
// most one pod of the current revision and one of any other, the first in each
// case, and both only while the old one is of use and the new one cannot replace it.
func excess(seen observed, living []*corev1.Pod) []*corev1.Pod {
	var current, old, excess []*corev1.Pod
	for _, pod := range living {
		if seen.isCurrent(pod) {
			current = append(current, pod)
		} else {
			old = append(old, pod)
		}
	}
	if len(current) > 0 && len(old) > 0 && (!controller.IsPodReady(old[0]) || seen.isAvailable(current[0])) {
		excess = append(excess, old[0])
	}
	return slices.Concat(excess, current[min(1, len(current)):], old[min(1, len(old)):])
}

// isCurrent tells whether a pod has the set's present template.
func (seen observed) isCurrent(pod *corev1.Pod) bool {
	hash, ok := pod.Labels[hashLabel]
	if !ok {
		generation, known := templateGeneration(seen.set)
		return known && pod.Labels[generationLabel] == generation && !pod.CreationTimestamp.Before(&seen.set.CreationTimestamp)
	}
	isOf := func(revision *appsv1.ControllerRevision) bool { return revisionHash(revision) == hash }
	return isOf(seen.current) || slices.ContainsFunc(seen.duplicates, isOf)
}

func (seen observed) isAvailable(pod *corev1.Pod) bool {
	return controller.IsPodAvailable(pod, seen.set.Spec.MinReadySeconds, seen.now)
}

func hasFailed(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed }

func hasEnded(pod *corev1.Pod) bool { return hasFailed(pod) || pod.Status.Phase == corev1.PodSucceeded }
