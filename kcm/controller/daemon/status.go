package daemon

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// decideStatus returns the status that tells what was seen. It counts nodes and
// not pods: of a node with two pods the first alone counts. A pod where none is
// to be is misscheduled, also if it may stay. The generation is observed when
// the set might act on it.
func decideStatus(seen observed) appsv1.DaemonSetStatus {
	status := appsv1.DaemonSetStatus{
		ObservedGeneration: seen.set.Status.ObservedGeneration,
		CollisionCount:     seen.set.Status.CollisionCount,
		Conditions:         seen.set.Status.Conditions,
	}
	if seen.mayAct {
		status.ObservedGeneration = seen.set.Generation
	}
	for _, place := range seen.places {
		if place.run {
			status.DesiredNumberScheduled++
		}
		if len(place.pods) == 0 {
			continue
		}
		if !place.run {
			status.NumberMisscheduled++
			continue
		}
		pod := place.pods[0]
		status.CurrentNumberScheduled++
		if controller.IsPodReady(pod) {
			status.NumberReady++
		}
		if seen.isAvailable(pod) {
			status.NumberAvailable++
		}
		if seen.isCurrent(pod) {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	return status
}

// updateStatus writes the status unless it is there already.
func (c *Controller) updateStatus(ctx context.Context, seen observed) error {
	status := decideStatus(seen)
	if equality.Semantic.DeepEqual(seen.set.Status, status) {
		return nil
	}
	set := seen.set.DeepCopy()
	set.Status = status
	return c.writeStatus(ctx, set)
}

// writeStatus writes the status that set has. If the set has changed since, the next
// sync counts anew.
func (c *Controller) writeStatus(ctx context.Context, set *appsv1.DaemonSet) error {
	klog.FromContext(ctx).V(4).Info("Updating status", "daemonSet", klog.KObj(set), "status", set.Status)
	updated, err := c.client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	c.setWrites.Wrote(cache.MetaObjectToName(set), updated.ResourceVersion)
	return nil
}
