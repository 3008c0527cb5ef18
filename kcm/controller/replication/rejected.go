package replication

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// How long the pause before rejected pods are replaced is at least, and at most.
const (
	shortestPause = time.Second
	longestPause  = 5 * time.Minute
)

// holdBack takes the creations out of a plan while pods are rejected before they
// run, say by a node that is full. Otherwise there would be thousands
// (https://github.com/kubernetes/kubernetes/issues/72593; the original makes
// them). The user is told, and the set looks again when the pause is over.
func (c *Controller) holdBack(seen observed, p plan) plan {
	if p.create == 0 {
		return p
	}
	last, pause := rejection(seen)
	if last == nil {
		return p
	}
	wait := last.CreationTimestamp.Add(pause).Sub(seen.now)
	if wait <= 0 {
		return p
	}
	c.events.Eventf(seen.set, corev1.EventTypeWarning, "PodRejected",
		"Pod %s was rejected before it could run (%s: %s); the next one is created %v after it",
		last.Name, last.Status.Reason, last.Status.Message, pause)
	c.loop.AddAfter(cache.MetaObjectToName(seen.set), min(wait, pause))
	p.create = 0
	return p
}

// rejection returns the last of the pods that were rejected since one has run,
// or nil, and the pause that is due after it: as long as this has been going on,
// so that it doubles each time. All of it can be read from the pods, and a
// manager that takes over goes on from there. What lies further back than two of
// the longest pauses is another story, whatever ran in between and is gone.
func rejection(seen observed) (last *corev1.Pod, pause time.Duration) {
	var lived time.Time
	for _, pod := range slices.Concat(seen.active, seen.failed) {
		if created := pod.CreationTimestamp.Time; hasRun(pod) && created.After(lived) {
			lived = created
		}
	}
	rejected := filter(slices.Clone(seen.failed), func(pod *corev1.Pod) bool {
		return !hasRun(pod) && pod.CreationTimestamp.After(lived)
	})
	if len(rejected) == 0 {
		return nil, 0
	}
	slices.SortFunc(rejected, func(a, b *corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	first := rejected[0]
	for _, pod := range rejected {
		if first.CreationTimestamp.Sub(pod.CreationTimestamp.Time) > 2*longestPause {
			break
		}
		first = pod
	}
	pause = rejected[0].CreationTimestamp.Sub(first.CreationTimestamp.Time)
	return rejected[0], min(max(pause, shortestPause), longestPause)
}

// hasRun tells whether any container of the pod has begun. A kubelet that
// rejects a pod begins none.
func hasRun(pod *corev1.Pod) bool {
	began := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	return pod.Status.Phase == corev1.PodRunning ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, began) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, began)
}
