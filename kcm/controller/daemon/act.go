package daemon

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
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
	c.expectations.Expect(seen.set, len(plan.create), uids...)
	return errors.Join(c.createPods(ctx, seen, plan.create), c.deletePods(ctx, seen, plan.delete))
}

// createPods creates a pod for each node, slowly at first, and returns the
// first error.
func (c *Controller) createPods(ctx context.Context, seen observed, nodes []string) error {
	next := make(chan string, len(nodes))
	for _, node := range nodes {
		next <- node
	}
	created, err := controller.SlowStart(len(nodes), func() error {
		return c.createPod(ctx, seen.set, newPod(seen.set, revisionHash(seen.current), <-next))
	})
	for range len(nodes) - created {
		c.expectations.CreationObserved(seen.set) // no notification will come of it
	}
	return err
}

// createPod creates one pod. That the namespace is being deleted is no failure:
// the set is about to go, too, and sleeps until then, because what was expected
// stays expected.
func (c *Controller) createPod(ctx context.Context, set *appsv1.DaemonSet, pod *corev1.Pod) error {
	created, err := c.podControl.Create(ctx, set, pod)
	switch {
	case err == nil:
		c.podWrites.Wrote(cache.MetaObjectToName(set), created.ResourceVersion)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	default:
		return err
	}
}

// deletePods deletes all pods, many at the same time, and returns the first
// error.
func (c *Controller) deletePods(ctx context.Context, seen observed, pods []*corev1.Pod) error {
	var deletions errgroup.Group
	for _, pod := range pods {
		deletions.Go(func() error {
			c.noteEnded(seen, pod)
			return c.deletePod(ctx, seen.set, pod)
		})
	}
	return deletions.Wait()
}

// deletePod deletes one pod, in the version in which it was judged: one that has
// become available since is not to go for having been broken. That it is gone
// already, or has changed, is no failure: the change wakes the set. No
// notification is waited for of a deletion that was not done.
func (c *Controller) deletePod(ctx context.Context, set *appsv1.DaemonSet, pod *corev1.Pod) error {
	err := c.podControl.Delete(ctx, set, pod)
	if err != nil {
		c.expectations.DeletionObserved(set, pod.UID)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
