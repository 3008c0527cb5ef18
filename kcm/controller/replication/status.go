package replication

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// decideStatus returns the status that tells what was seen, and the failure of
// act if there was one. The pods are counted as they were before act: those
// that it created are counted when they are observed.
func decideStatus(seen observed, failure error) appsv1.ReplicaSetStatus {
	set := seen.set
	// A pod is fully labeled when it has all labels of the template. It need
	// not: the selector may ask for fewer.
	template := labels.SelectorFromValidatedSet(set.Spec.Template.Labels)
	status := appsv1.ReplicaSetStatus{
		Replicas:           int32(len(seen.active)),
		ObservedGeneration: set.Generation,
		Conditions:         decideConditions(seen, failure),
	}
	for _, pod := range seen.active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if controller.IsPodReady(pod) {
			status.ReadyReplicas++
		}
		if controller.IsPodAvailable(pod, set.Spec.MinReadySeconds, seen.now) {
			status.AvailableReplicas++
		}
	}
	if seen.countsTerminating {
		status.TerminatingReplicas = ptr.To(int32(len(seen.terminating)))
	}
	return status
}

// decideConditions adds the ReplicaFailure condition with the first failure and
// removes it with the first sync that does not fail, even one that only waits.
// While one failure follows another the condition stays as it is, so that its
// time says since when.
func decideConditions(seen observed, failure error) []appsv1.ReplicaSetCondition {
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	conditions := seen.set.Status.Conditions
	failed := slices.ContainsFunc(conditions, isFailure)
	switch {
	case failure != nil && !failed:
		reason := controller.FailedCreate
		if len(seen.active) > int(*seen.set.Spec.Replicas) {
			reason = controller.FailedDelete
		}
		return append(slices.Clone(conditions), appsv1.ReplicaSetCondition{
			Type:               appsv1.ReplicaSetReplicaFailure,
			Status:             corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(seen.now),
			Reason:             reason,
			Message:            failure.Error(),
		})
	case failure == nil && failed:
		return slices.DeleteFunc(slices.Clone(conditions), isFailure)
	default:
		return conditions
	}
}

// nextAvailable returns when the next ready pod has been ready for long enough
// to be available. Nothing will be notified then, so the set has to look.
func nextAvailable(seen observed) (time.Time, bool) {
	minReady := time.Duration(seen.set.Spec.MinReadySeconds) * time.Second
	var next time.Time
	for _, pod := range seen.active {
		since, ready := controller.PodReadySince(pod)
		at := since.Add(minReady)
		if ready && !since.IsZero() && at.After(seen.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, minReady > 0 && !next.IsZero()
}

// updateStatus writes the status unless it is there already. When the set has
// changed meanwhile, most likely because its user scaled it, it tries once
// more on the set as it now is. The status still says which generation it
// tells about, so nobody takes it for an answer to the change.
func (c *Controller) updateStatus(ctx context.Context, set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	key := cache.MetaObjectToName(set)
	updated, err := c.writeStatus(ctx, set, status)
	if apierrors.IsConflict(err) {
		fresh, getErr := c.sets.getFresh(ctx, key)
		if getErr != nil {
			return fmt.Errorf("read %s %s anew: %w", c.Kind, key, getErr)
		}
		if fresh.UID != set.UID {
			return nil // another set of the same name, which has a sync of its own
		}
		updated, err = c.writeStatus(ctx, fresh, status)
	}
	if err != nil {
		return fmt.Errorf("update status of %s %s: %w", c.Kind, key, err)
	}
	c.setWrites.Wrote(key, updated.ResourceVersion)
	return nil
}

func (c *Controller) writeStatus(
	ctx context.Context,
	set *appsv1.ReplicaSet,
	status appsv1.ReplicaSetStatus,
) (*appsv1.ReplicaSet, error) {
	klog.FromContext(ctx).V(4).Info("Updating status", "kind", c.Kind, "set", klog.KObj(set),
		"old", set.Status, "new", status)
	set = set.DeepCopy()
	set.Status = status
	return c.sets.updateStatus(ctx, set)
}
