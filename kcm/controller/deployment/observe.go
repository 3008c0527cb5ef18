package deployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// observed is what one round starts from. The objects are the caches' own:
// whoever wants to change one changes a copy.
type observed struct {
	// deployment is nil when it is gone.
	deployment *appsv1.Deployment
	// newRS has the deployment's template. It is nil before it was created.
	newRS *appsv1.ReplicaSet
	// oldRSs are all the others that belong to the deployment, oldest first.
	oldRSs []*appsv1.ReplicaSet
	// oldPods are the pods of oldRSs. They are looked up only for the strategy
	// that waits for them, Recreate.
	oldPods []*corev1.Pod
	// countsTerminating says that the status has terminatingReplicas.
	countsTerminating bool
	now               time.Time
}

// all returns the old ReplicaSets and the new one, if there is one.
func (seen observed) all() []*appsv1.ReplicaSet {
	if seen.newRS == nil {
		return seen.oldRSs
	}
	return append(slices.Clone(seen.oldRSs), seen.newRS)
}

// observe reads the caches, unless they lack what earlier rounds have written.
// On the way it adopts the ReplicaSets that match the selector and have no
// owner, and releases those that no longer match.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (observed, error) {
	if err := cmp.Or(c.deploymentWrites.Observed(key), c.replicaSetWrites.Observed(key)); err != nil {
		return observed{}, err
	}
	d, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.deploymentWrites.Forget(key)
		c.replicaSetWrites.Forget(key)
		return observed{}, nil
	}
	if err != nil {
		return observed{}, fmt.Errorf("get deployment %s: %w", key, err)
	}
	seen := observed{
		deployment:        d,
		countsTerminating: feature.DefaultFeatureGate.Enabled(controller.DeploymentReplicaSetTerminatingReplicas),
		now:               time.Now(),
	}
	if selectsEverything(d) {
		return seen, nil
	}
	replicaSets, err := c.claimReplicaSets(ctx, d)
	if err != nil {
		return observed{}, err
	}
	seen.newRS, seen.oldRSs = tellApart(d, replicaSets)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		seen.oldPods, err = c.podsOf(seen.oldRSs)
	}
	return seen, err
}

// selectsEverything tells whether the selector is there and empty. Today's API
// refuses such a deployment; one made with an older API may still exist.
func selectsEverything(d *appsv1.Deployment) bool {
	selector := d.Spec.Selector
	return selector != nil && len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}

func (c *Controller) claimReplicaSets(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of deployment %s: %w", klog.KObj(d), err)
	}
	// Not only those that match: one that stopped matching has to be released.
	claimable, err := c.rsIndex.OwnedByOrOrphans(d)
	if err != nil {
		return nil, fmt.Errorf("ReplicaSets for %s: %w", klog.KObj(d), err)
	}
	replicaSets := c.client.AppsV1().ReplicaSets(d.Namespace)
	claimer := controller.Claimer[*appsv1.ReplicaSet]{
		Owner:    d,
		Kind:     kind,
		Selector: selector,
		CanAdopt: controller.CanAdopt(d, func(ctx context.Context) (*appsv1.Deployment, error) {
			return c.client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		}),
		Patch: func(ctx context.Context, rs *appsv1.ReplicaSet, patch []byte) (*appsv1.ReplicaSet, error) {
			patched, err := replicaSets.Patch(ctx, rs.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			if err == nil {
				c.replicaSetWrites.Wrote(cache.MetaObjectToName(d), patched.ResourceVersion)
			}
			return patched, err
		},
	}
	claimed, err := claimer.Claim(ctx, claimable)
	if err != nil {
		return nil, fmt.Errorf("claim ReplicaSets for %s: %w", klog.KObj(d), err)
	}
	return claimed, nil
}

// podsOf returns all pods of the ReplicaSets that still exist, also those that
// are being deleted.
func (c *Controller) podsOf(replicaSets []*appsv1.ReplicaSet) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, rs := range replicaSets {
		owned, err := c.pods.OwnedBy(rs)
		if err != nil {
			return nil, fmt.Errorf("list pods of %s: %w", klog.KObj(rs), err)
		}
		pods = append(pods, owned...)
	}
	return pods, nil
}
