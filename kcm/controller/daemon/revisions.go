package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// currentRevision returns the revision that has the set's template, with its
// right number. It is created if there is none.
func (c *Controller) currentRevision(ctx context.Context, seen observed) (*appsv1.ControllerRevision, error) {
	patch, err := templatePatch(&seen.set.Spec.Template)
	if err != nil {
		return nil, err
	}
	h := sortOut(seen.revisions, patch)
	switch {
	case h.current == nil:
		return c.createRevision(ctx, seen.set, patch, h.number)
	case len(h.duplicates) > 0:
		return nil, c.mergeDuplicates(ctx, seen, h)
	case h.current.Revision < h.number:
		revision := h.current.DeepCopy()
		revision.Revision = h.number
		revision, err = c.client.AppsV1().ControllerRevisions(revision.Namespace).Update(ctx, revision, metav1.UpdateOptions{})
		if err != nil {
			return nil, fmt.Errorf("make revision %s number %d: %w", h.current.Name, h.number, err)
		}
		c.wroteRevision(seen.set, revision)
		return revision, nil
	default:
		return h.current, nil
	}
}

// createRevision writes the set's template down. The name is made from the
// template, so a second creation of the same revision is refused.
func (c *Controller) createRevision(
	ctx context.Context,
	set *appsv1.DaemonSet,
	patch []byte,
	number int64,
) (*appsv1.ControllerRevision, error) {
	hash := controller.PodTemplateHash(set.Spec.Template, set.Status.CollisionCount)
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			Name:            set.Name + "-" + hash,
			Labels:          controller.With(set.Spec.Template.Labels, hashLabel, hash),
			Annotations:     set.Annotations, // with kubernetes.io/change-cause
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
		},
		Data:     runtime.RawExtension{Raw: patch},
		Revision: number,
	}
	created, err := c.client.AppsV1().ControllerRevisions(set.Namespace).Create(ctx, revision, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.settleCollision(ctx, set, revision)
	case err != nil:
		return nil, fmt.Errorf("create revision %s: %w", revision.Name, err)
	}
	c.wroteRevision(set, created)
	return created, nil
}

// settleCollision deals with a revision's name that is taken. If the one there
// has the same template, it will do: most likely it was created by this loop,
// or it is left of a DaemonSet of this name and will be ours. Otherwise two
// templates have the same hash, and the next try gets another name. The DaemonSet
// is read anew, so that nothing is counted twice.
func (c *Controller) settleCollision(
	ctx context.Context,
	set *appsv1.DaemonSet,
	wanted *appsv1.ControllerRevision,
) (*appsv1.ControllerRevision, error) {
	existing, err := c.client.AppsV1().ControllerRevisions(set.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read revision %s, which is found to exist: %w", wanted.Name, err)
	}
	if holds(existing, wanted.Data.Raw) {
		return existing, nil
	}
	fresh, err := c.client.AppsV1().DaemonSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read DaemonSet anew: %w", err)
	}
	if fresh.UID != set.UID || !equality.Semantic.DeepEqual(fresh.Status.CollisionCount, set.Status.CollisionCount) {
		return nil, fmt.Errorf("%w: it does not show the collisions of DaemonSet %s", controller.ErrStaleCache, klog.KObj(set))
	}
	if fresh.Status.CollisionCount == nil {
		fresh.Status.CollisionCount = new(int32)
	}
	*fresh.Status.CollisionCount++
	if err := c.writeStatus(ctx, fresh); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: revision %s has another template, the next has another name", controller.ErrStaleCache, wanted.Name)
}

// mergeDuplicates gives all pods of superfluous revisions the current one's
// label, and deletes these revisions. The set has to wait until its cache shows
// that: by what the cache shows now, these pods are old and would be replaced.
func (c *Controller) mergeDuplicates(ctx context.Context, seen observed, h history) error {
	hash := revisionHash(h.current)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{hashLabel: hash}}})
	if err != nil {
		return err
	}
	for _, duplicate := range h.duplicates {
		for _, place := range seen.places {
			for _, pod := range place.pods {
				if pod.Labels[hashLabel] != revisionHash(duplicate) {
					continue
				}
				if err := c.patchPod(seen.set)(ctx, pod, patch); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("label pod %s: %w", klog.KObj(pod), err)
				}
			}
		}
		if err := c.deleteRevision(ctx, duplicate); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: it shows revisions that have been merged into %s", controller.ErrStaleCache, h.current.Name)
}

// deleteRevisions deletes what the history has too much of.
func (c *Controller) deleteRevisions(ctx context.Context, seen observed) error {
	old := make([]*appsv1.ControllerRevision, 0, len(seen.revisions))
	for _, revision := range seen.revisions {
		if revision.Name != seen.current.Name {
			old = append(old, revision)
		}
	}
	limit := int(*seen.set.Spec.RevisionHistoryLimit)
	for _, revision := range superfluous(sortOut(old, nil).old, limit, seen.inUse) {
		if err := c.deleteRevision(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) deleteRevision(ctx context.Context, revision *appsv1.ControllerRevision) error {
	err := c.client.AppsV1().ControllerRevisions(revision.Namespace).Delete(ctx, revision.Name,
		*metav1.NewPreconditionDeleteOptions(string(revision.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete revision %s: %w", revision.Name, err)
	}
	return nil
}

func (c *Controller) patchRevision(
	set *appsv1.DaemonSet,
) func(context.Context, *appsv1.ControllerRevision, []byte) error {
	return func(ctx context.Context, revision *appsv1.ControllerRevision, patch []byte) error {
		patched, err := c.client.AppsV1().ControllerRevisions(revision.Namespace).
			Patch(ctx, revision.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			c.wroteRevision(set, patched)
		}
		return err
	}
}

func (c *Controller) patchPod(set *appsv1.DaemonSet) func(context.Context, *corev1.Pod, []byte) error {
	return func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
		patched, err := c.podControl.Patch(ctx, pod, patch)
		if err == nil {
			c.podWrites.Wrote(cache.MetaObjectToName(set), patched.ResourceVersion)
		}
		return err
	}
}

func (c *Controller) wroteRevision(set *appsv1.DaemonSet, revision *appsv1.ControllerRevision) {
	c.revisionWrites.Wrote(cache.MetaObjectToName(set), revision.ResourceVersion)
}
