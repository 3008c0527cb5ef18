package daemon

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act carries the plan out. What it asks for is expected from before the first
// request on.
func (c *Controller) act(ctx context.Context, seen observed, plan plan) error {
	if plan.isEmpty() {
		return nil
	}
	klog.FromContext(ctx).V(2).Info("Changing pods", "daemonSet", klog.KObj(seen.set),
		"creating", len(plan.create), "deleting", len(plan.delete))
	uids := make([]types.UID, 0, len(plan.delete))
	for _, pod := range plan.delete {
		uids = append(uids, pod.UID)
	}
	pods := make([]*corev1.Pod, 0, len(plan.create))
	for _, node := range plan.create {
		pods = append(pods, newPod(seen.set, revisionHash(seen.current), node))
	}
	c.expectations.Expect(seen.set, len(pods), uids...)
	created, err := controller.CreatePods(ctx, c.podControl, c.expectations, c.podWrites.OwnWrites, seen.set, pods)
	if err != nil {
		// One more has failed than have succeeded, at most.
		for _, node := range plan.create[:min(2*created+1, len(pods))] {
			c.failures.Next(refusalKey(seen.set, node), seen.now)
		}
	}
	return errors.Join(err, c.deletePods(ctx, seen, plan.delete))
}

// deletePods deletes all pods, many at the same time, and returns the first
// error.
func (c *Controller) deletePods(ctx context.Context, seen observed, pods []*corev1.Pod) error {
	var deletions errgroup.Group
	for _, pod := range pods {
		deletions.Go(func() error { return c.deletePod(ctx, seen, pod) })
	}
	return deletions.Wait()
}

// deletePod deletes one pod, in the version in which it was judged: one that has
// become available since is not to go for having been broken. That it is gone
// already is no failure. What was refused has not been done: no notification is
// waited for, and no pause begins.
func (c *Controller) deletePod(ctx context.Context, seen observed, pod *corev1.Pod) error {
	err := controller.Recovered(ctx, func() error { return c.podControl.Delete(ctx, seen.set, pod) }, "pod", klog.KObj(pod))()
	if err != nil {
		c.expectations.DeletionObserved(seen.set, pod.UID)
	}
	if err != nil && !controller.IsGone(err) {
		return err
	}
	c.noteEnded(seen, pod)
	return nil
}
