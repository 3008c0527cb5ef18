package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// pause returns how long pods of the set that have failed on a node are left
// alone, or zero when they may be replaced. It is twice as long each time: a
// kubelet that has no room for a pod rejects it at once, and so the next one.
func (c *Controller) pause(set *appsv1.DaemonSet, node string, now time.Time) time.Duration {
	key := failureKey(set, node)
	if !c.failures.IsInBackOffSinceUpdate(key, now) {
		return 0
	}
	return c.failures.Get(key)
}

// noteEnded tells the set's user of a pod that was deleted because it had ended,
// and lengthens the pause of a node on which it has failed. One that goes because
// none may stay where it is says nothing of the node.
func (c *Controller) noteEnded(seen observed, pod *corev1.Pod) {
	switch {
	case !seen.mayStay(pod):
	case hasFailed(pod):
		c.failures.Next(failureKey(seen.set, nodeOf(pod)), seen.now)
		c.events.Eventf(seen.set, corev1.EventTypeWarning, "FailedDaemonPod",
			"Found failed daemon pod %s on node %s, will try to kill it", klog.KObj(pod), nodeOf(pod))
	case hasEnded(pod):
		c.events.Eventf(seen.set, corev1.EventTypeNormal, "SucceededDaemonPod",
			"Found succeeded daemon pod %s on node %s, will try to delete it", klog.KObj(pod), nodeOf(pod))
	}
}

// mayStay tells whether a pod of the set may stay on the pod's node.
func (seen observed) mayStay(pod *corev1.Pod) bool {
	i, found := slices.BinarySearchFunc(seen.places, nodeOf(pod), func(place place, node string) int {
		return cmp.Compare(place.node, node)
	})
	return found && seen.places[i].stay
}

// failureKey has the generation in it: a changed DaemonSet begins anew.
func failureKey(set *appsv1.DaemonSet, node string) string {
	return fmt.Sprintf("%s/%d/%s", set.UID, set.Status.ObservedGeneration, node)
}

// refusalKey is what keeps apart pods that were not created from those that failed.
func refusalKey(set *appsv1.DaemonSet, node string) string { return failureKey(set, node) + "/refused" }

// forgetFailures drops what nobody has asked about for long, until ctx ends.
func (c *Controller) forgetFailures(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { c.failures.GC() }, time.Minute)
}
