package podgc

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act deletes pods, so many at the same time: of each namespace the first, then of
// each the second. So nobody waits for all pods of another namespace. Chance says
// which is the first, as it may be refused each time. It tells whether it has come
// to the end, for which it has as long as a round lasts.
func (c *Controller) act(ctx context.Context, seen situation, all []victim, workers int) bool {
	var deleting errgroup.Group
	deleting.SetLimit(workers)
	begin := time.Now()
	done := true
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, v := range controller.InTurns(all, func(v victim) string { return v.pod.Namespace }) {
		if done = time.Since(begin) < period; !done || ctx.Err() != nil {
			break
		}
		deleting.Go(controller.Recovered(ctx, func() error {
			if c.isStillDue(seen, v) {
				c.delete(ctx, v)
			}
			return nil
		}, "pod", klog.KObj(v.pod)))
	}
	_ = deleting.Wait() // each failure was told where it happened
	return done
}

// delete marks and deletes a pod, and counts and tells how that went. Pods that
// are gone meanwhile are none of its business any more, also where another one
// has taken over the name.
func (c *Controller) delete(ctx context.Context, v victim) {
	klog.FromContext(ctx).V(2).Info("Deleting pod by force", "pod", klog.KObj(v.pod), "reason", v.reason)
	deletions.WithLabelValues(v.pod.Namespace, v.reason).Inc()
	err := c.markFailed(ctx, v)
	if err == nil {
		err = c.client.CoreV1().Pods(v.pod.Namespace).Delete(ctx, v.pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)),
			Preconditions:      metav1.NewUIDPreconditions(string(v.pod.UID)),
		})
	}
	if err != nil && !controller.IsGone(err) {
		deletionErrors.WithLabelValues(v.pod.Namespace, v.reason).Inc()
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot delete pod", "pod", klog.KObj(v.pod), "reason", v.reason)
	}
}

// isStillDue looks at the node when a pod's turn has come: it may be back by then.
func (c *Controller) isStillDue(seen situation, v victim) bool {
	node, _ := c.nodes.Get(v.pod.Spec.NodeName) // nil if the cache has none
	switch v.reason {
	case orphaned:
		return node == nil && seen.gone[v.pod.Spec.NodeName]()
	case outOfService:
		return isOutOfService(node)
	}
	return true
}

// markFailed gives a pod that has not ended the phase Failed, because there is
// no kubelet to do it, and whoever counts pods that have ended may wait for it.
// It marks no other pod of the name.
func (c *Controller) markFailed(ctx context.Context, v victim) error {
	if hasEnded(v.pod) {
		return nil
	}
	status := corev1.PodStatus{Phase: corev1.PodFailed, ObservedGeneration: v.pod.Generation}
	if v.reason == orphaned {
		why := controller.DisruptionTarget(v.pod, "DeletionByPodGC", "PodGC: node no longer exists")
		status.Conditions = []corev1.PodCondition{why}
	}
	return controller.PatchPodStatus(ctx, c.client, v.pod, status)
}
