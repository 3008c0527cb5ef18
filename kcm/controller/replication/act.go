package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act carries the plan out. The error is the API server's answer to the first
// request that failed, as it was: it goes into the set's ReplicaFailure
// condition.
func (c *Controller) act(ctx context.Context, seen observed, plan plan) error {
	logger := klog.FromContext(ctx).WithValues("kind", c.Kind, "set", klog.KObj(seen.set), "want", *seen.set.Spec.Replicas)
	switch {
	case plan.create > 0:
		logger.V(2).Info("Too few replicas", "creating", plan.create)
		return c.createPods(ctx, seen.set, plan.create)
	case len(plan.delete) > 0:
		logger.V(2).Info("Too many replicas", "deleting", len(plan.delete))
		for _, ratio := range ageRatios(seen, plan.delete) {
			deletionAgeRatio.Observe(ratio)
		}
		return c.deletePods(ctx, seen.set, plan.delete)
	}
	return nil
}

// createPods asks for count more pods, slowly at first, and returns the first
// error. In the end the set expects those that were created and no others.
func (c *Controller) createPods(ctx context.Context, set *appsv1.ReplicaSet, count int) error {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = controller.PodFromTemplate(&set.Spec.Template, set, c.GroupVersionKind)
	}
	c.expectations.Expect(set, count)
	_, err := controller.CreatePods(ctx, c.podControl, c.expectations, c.podWrites.OwnWrites, set, pods)
	return err
}

// deletePods deletes all pods, many at the same time, and returns the first
// error. What makes one deletion fail, unlike a quota, need not make the next
// one fail.
func (c *Controller) deletePods(ctx context.Context, set *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	uids := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	c.expectations.Expect(set, 0, uids...)

	var deletions errgroup.Group
	for _, pod := range pods {
		deletions.Go(func() error { return c.deletePod(ctx, set, pod) })
	}
	return deletions.Wait()
}

// deletePod deletes one pod. That it is gone or going already, or no longer the
// set's, is no failure: the change that the cache does not show yet wakes the
// set. No notification of a deletion is waited for that was not done, or was done
// by somebody else: that one may have come before it was expected.
func (c *Controller) deletePod(ctx context.Context, set *appsv1.ReplicaSet, pod *corev1.Pod) error {
	err := controller.Recovered(ctx, func() error { return c.deleteCounted(ctx, set, pod) }, "pod", klog.KObj(pod))()
	if err != nil {
		c.expectations.DeletionObserved(set, pod.UID)
	}
	if controller.IsGone(err) || errors.Is(err, controller.ErrStaleCache) {
		return nil
	}
	return err
}

// looks is how often a deletion is tried again with what the pod is now.
const looks = 4

// deleteCounted deletes a pod in the version in which it was counted, or in a
// newer one that has the same labels and is the set's. If it is not, or is going
// already, the error wraps ErrStaleCache, and the next sync waits until the cache
// shows what was read: the pod that it counted in vain it would count again.
func (c *Controller) deleteCounted(ctx context.Context, set *appsv1.ReplicaSet, counted *corev1.Pod) error {
	err := c.podControl.Delete(ctx, set, counted)
	for looked := 0; looked < looks && apierrors.IsConflict(err); looked++ {
		latest, missing := c.podControl.Read(ctx, counted)
		if missing != nil {
			return missing
		}
		if latest.DeletionTimestamp != nil || !metav1.IsControlledBy(latest, set) || !maps.Equal(latest.Labels, counted.Labels) {
			c.podWrites.Wrote(cache.MetaObjectToName(set), latest.ResourceVersion)
			return fmt.Errorf("%w: %s is going, or has another owner or other labels by now", controller.ErrStaleCache, klog.KObj(counted))
		}
		err = c.podControl.Delete(ctx, set, latest)
	}
	return err
}
