package replication

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// leastMissed returns the n active pods whose deletion does least harm.
func leastMissed(seen observed, n int) []*corev1.Pod {
	if n == 0 {
		return nil
	}
	onNode := map[string]int{}
	for _, pod := range seen.related {
		if controller.IsPodActive(pod) {
			onNode[pod.Spec.NodeName]++
		}
	}
	ranks := make([]rank, 0, len(seen.active))
	for _, pod := range seen.active {
		rank := rankOf(pod, onNode[pod.Spec.NodeName], seen.now)
		if seen.honoursCost {
			rank.deletionCost = deletionCost(pod)
		}
		ranks = append(ranks, rank)
	}
	slices.SortFunc(ranks, rank.compare)
	pods := make([]*corev1.Pod, 0, n)
	for _, r := range ranks[:n] {
		pods = append(pods, r.pod)
	}
	return pods
}

// rank is what the choice of the pods to delete depends on. Its times are
// magnitudes.
type rank struct {
	pod             *corev1.Pod
	assigned        bool
	phase           int
	ready           bool
	deletionCost    int32
	neighbours      int
	readyFor        int
	restarts        int32
	sidecarRestarts int32
	age             int
}

func rankOf(pod *corev1.Pod, neighbours int, now time.Time) rank {
	since, ready := controller.PodReadySince(pod)
	restarts, sidecarRestarts := maxRestarts(pod)
	r := rank{
		pod:             pod,
		assigned:        pod.Spec.NodeName != "",
		phase:           phaseOrder[pod.Status.Phase],
		ready:           ready,
		neighbours:      neighbours,
		restarts:        restarts,
		sidecarRestarts: sidecarRestarts,
		age:             magnitude(pod.CreationTimestamp.Time, now),
	}
	if ready {
		r.readyFor = magnitude(since, now)
	}
	return r
}

var phaseOrder = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

// compare is negative if r is missed less than other and goes first, and positive
// if it goes later. It is a total order, and of two pods never zero. What works
// comes before what the user says (the pod-deletion-cost annotation,
// https://kep.k8s.io/2255), and times are compared by magnitude only
// (https://kep.k8s.io/2185).
func (r rank) compare(other rank) int {
	return cmp.Or(
		falseFirst(r.assigned, other.assigned),
		cmp.Compare(r.phase, other.phase),
		falseFirst(r.ready, other.ready),
		cmp.Compare(r.deletionCost, other.deletionCost),
		cmp.Compare(other.neighbours, r.neighbours),
		cmp.Compare(r.readyFor, other.readyFor),
		cmp.Compare(other.restarts, r.restarts),
		cmp.Compare(other.sidecarRestarts, r.sidecarRestarts),
		cmp.Compare(r.age, other.age),
		cmp.Compare(r.pod.UID, other.pod.UID),
	)
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// magnitude returns how long ago t is, as a power of two nanoseconds. What is
// unknown counts as newest, and the future as newer than all of the past.
func magnitude(t, now time.Time) int {
	switch age := now.Sub(t); {
	case t.IsZero():
		return -2
	case age <= 0:
		return -1
	default:
		return int(math.Log2(float64(age)))
	}
}

// deletionCost reads the pod-deletion-cost annotation. The API server refuses
// a value that is no int32. What is there all the same counts as zero, and so
// does a number written with a plus sign or leading zeros.
func deletionCost(pod *corev1.Pod) int32 {
	value := pod.Annotations[corev1.PodDeletionCost]
	cost, err := strconv.ParseInt(value, 10, 32)
	if err != nil || value[0] == '+' || value[0] == '0' {
		return 0
	}
	return int32(cost)
}

// maxRestarts returns how often the pod's containers have restarted, counting
// only the one that did most often, and the same for its sidecars: init
// containers that are always restarted.
func maxRestarts(pod *corev1.Pod) (containers, sidecars int32) {
	for _, status := range pod.Status.ContainerStatuses {
		containers = max(containers, status.RestartCount)
	}
	isSidecar := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		isSidecar[c.Name] = ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if isSidecar[status.Name] {
			sidecars = max(sidecars, status.RestartCount)
		}
	}
	return containers, sidecars
}
