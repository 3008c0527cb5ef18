package replication

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// observed is what one sync knows. Everything in it is the cache's and must
// not be changed.
type observed struct {
	// set is nil when it is gone.
	set *appsv1.ReplicaSet
	// active are the set's pods that count as replicas.
	active []*corev1.Pod
	// terminating are its pods that are being deleted and may still run.
	terminating []*corev1.Pod
	// failed are its pods that have ended with phase Failed.
	failed []*corev1.Pod
	// related are the pods of all sets with the same owner, such as those of
	// one Deployment, this set's included. Only read when some of this set's
	// pods have to go.
	related []*corev1.Pod
	// mayAct says that the cache shows all that earlier syncs have created and
	// deleted, or that the loop has waited for that for long enough.
	mayAct bool
	// countsTerminating says that the status has terminatingReplicas, and
	// honoursCost that the pods' deletion cost counts. Each has a feature gate.
	countsTerminating bool
	honoursCost       bool
	now               time.Time
}

// observe reads the set and its pods, and claims the pods that are its own.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (observed, error) {
	for _, writes := range []controller.GatedOwnWrites{c.setWrites, c.podWrites} {
		if err := writes.Observed(key); err != nil {
			return observed{}, err
		}
	}
	set, err := c.sets.get(key)
	if apierrors.IsNotFound(err) {
		c.expectations.Forget(key)
		c.setWrites.Forget(key)
		c.podWrites.Forget(key)
		return observed{}, nil
	}
	if err != nil {
		return observed{}, fmt.Errorf("read %s %s: %w", c.Kind, key, err)
	}
	enabled := feature.DefaultFeatureGate.Enabled
	// Expectations are asked before the pods are read, so that a pod whose
	// notification was the last expected is among those read.
	seen := observed{
		set:               set,
		mayAct:            c.expectations.Satisfied(set),
		countsTerminating: c.countsTerminating && enabled(controller.DeploymentReplicaSetTerminatingReplicas),
		honoursCost:       enabled(podDeletionCost),
	}
	if err := c.observePods(ctx, &seen); err != nil {
		return observed{}, fmt.Errorf("pods of %s %s: %w", c.Kind, key, err)
	}
	seen.now = c.clock.Now()
	return seen, nil
}

// observePods reads the pods into seen.
func (c *Controller) observePods(ctx context.Context, seen *observed) error {
	selector, err := metav1.LabelSelectorAsSelector(seen.set.Spec.Selector)
	if err != nil {
		return err
	}
	owned, err := c.podIndex.OwnedBy(seen.set)
	if err != nil {
		return err
	}
	orphans, err := c.podIndex.Orphans(seen.set.Namespace)
	if err != nil {
		return err
	}
	seen.active, err = c.claim(ctx, seen.set, selector, filter(slices.Concat(owned, orphans), controller.IsPodActive))
	if err != nil {
		return err
	}
	seen.failed = filter(slices.Clone(owned), func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	seen.terminating = filter(owned, func(pod *corev1.Pod) bool {
		return controller.IsPodTerminating(pod) && selector.Matches(labels.Set(pod.Labels))
	})
	if len(seen.active) > int(*seen.set.Spec.Replicas) {
		seen.related, err = c.relatedPods(seen.set)
	}
	return err
}

// claim adopts and releases pods, and returns those that are the set's. Only
// active pods are claimed: one that has finished keeps its owner, whatever its
// labels, so that it goes when its owner goes.
func (c *Controller) claim(
	ctx context.Context,
	set *appsv1.ReplicaSet,
	selector labels.Selector,
	pods []*corev1.Pod,
) ([]*corev1.Pod, error) {
	key := cache.MetaObjectToName(set)
	claimer := controller.Claimer[*corev1.Pod]{
		Owner:    set,
		Kind:     c.GroupVersionKind,
		Selector: selector,
		CanAdopt: controller.CanAdopt(set, func(ctx context.Context) (*appsv1.ReplicaSet, error) {
			return c.sets.getFresh(ctx, key)
		}),
		Patch: func(ctx context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
			patched, err := c.podControl.Patch(ctx, pod, patch)
			if err == nil {
				c.podWrites.Wrote(key, patched.ResourceVersion)
			}
			return patched, err
		},
	}
	return claimer.Claim(ctx, pods)
}

// relatedPods returns the pods of all sets that have the same owner as this
// one. A set without owner has no relatives, not even itself.
func (c *Controller) relatedPods(set *appsv1.ReplicaSet) ([]*corev1.Pod, error) {
	siblings, err := c.sets.siblings(set)
	if err != nil {
		return nil, err
	}
	var related []*corev1.Pod
	for _, sibling := range siblings {
		pods, err := c.podIndex.OwnedBy(sibling)
		if err != nil {
			return nil, err
		}
		related = append(related, pods...)
	}
	return related, nil
}

// filter keeps the pods that keep says, in place.
func filter(pods []*corev1.Pod, keep func(*corev1.Pod) bool) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !keep(pod) })
}
