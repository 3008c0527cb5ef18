package podgc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/kcm/controller"
	corev1 "k8s.io/api/core/v1"
)

// situation is what one round goes by.
type situation struct {
	pods  []*corev1.Pod
	nodes map[string]*corev1.Node
	// gone has a function for each node that has been missing for the whole
	// quarantine. It asks the API server, once, whether the node is gone.
	gone map[string]func() bool
}

// victim is a pod that is to be deleted. The reason is as the metrics have it.
type victim struct {
	pod    *corev1.Pod
	reason string
}

const (
	terminated   = "terminated"
	orphaned     = "orphaned"
	outOfService = "out-of-service"
	unscheduled  = "unscheduled"
)

// decide returns the pods that are to be deleted, if their nodes are gone. Of those
// that have ended and would otherwise stay, as many are kept as the threshold says,
// or all with zero or less; which go first is said by [byWorth]. (The original also
// counts those that go for another reason, and may delete some more.)
func decide(seen situation, threshold int) []victim {
	var all []victim
	var ended []*corev1.Pod
	for _, pod := range seen.pods {
		switch reason := seen.reason(pod); {
		case isHeld(pod):
		case reason != "":
			all = append(all, victim{pod, reason})
		case hasEnded(pod):
			ended = append(ended, pod)
		}
	}
	if threshold <= 0 || len(ended) <= threshold {
		return all
	}
	slices.SortFunc(ended, byWorth)
	for _, pod := range ended[:len(ended)-threshold] {
		all = append(all, victim{pod, terminated})
	}
	return all
}

// reason says why a pod is to be deleted however many there are, or is empty.
func (s situation) reason(pod *corev1.Pod) string {
	node, isGoing := s.nodes[pod.Spec.NodeName], pod.DeletionTimestamp != nil
	switch {
	case s.gone[pod.Spec.NodeName] != nil:
		return orphaned
	case isGoing && pod.Spec.NodeName == "":
		return unscheduled
	case isGoing && isOutOfService(node):
		return outOfService
	}
	return ""
}

// hasEnded tells whether all containers have ended, never to start again.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isHeld tells whether a pod that has ended was deleted without any time to end, so
// that it goes when somebody takes its last finalizer away.
func isHeld(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return hasEnded(pod) && len(pod.Finalizers) > 0 && grace != nil && *grace == 0
}

// isOutOfService tells whether there is a node of which somebody vouches that
// nothing runs on it any more (https://kep.k8s.io/2268), and no kubelet objects.
func isOutOfService(node *corev1.Node) bool {
	return node != nil && !controller.IsNodeReady(node) &&
		slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeOutOfService })
}

// byWorth orders pods that have ended: those that were evicted first, for their
// controllers replace them at once and may do so without end; then the older
// ones; then by name.
func byWorth(a, b *corev1.Pod) int {
	return cmp.Or(rank(a)-rank(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// rank is lower for a pod that a kubelet has ended because its node ran short
// of something.
func rank(pod *corev1.Pod) int {
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted" {
		return 0
	}
	return 1
}
