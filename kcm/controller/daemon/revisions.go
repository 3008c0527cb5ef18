package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// settleHistory sorts the set's revisions out. There is one with the set's template
// then, with its right number: it is created if there is none.
func (c *Controller) settleHistory(ctx context.Context, seen observed) (history, error) {
	patch, err := templatePatch(&seen.set.Spec.Template)
	if err != nil {
		return history{}, err
	}
	h := sortOut(seen.revisions, patch)
	switch {
	case h.current == nil:
		h.current, err = c.createRevision(ctx, seen.set, patch, h.number)
	case h.current.Revision < h.number:
		revision := h.current.DeepCopy()
		revision.Revision = h.number
		h.current, err = c.client.AppsV1().ControllerRevisions(revision.Namespace).Update(ctx, revision, metav1.UpdateOptions{})
		if err != nil {
			return history{}, fmt.Errorf("make revision %s number %d: %w", revision.Name, h.number, err)
		}
		c.wroteRevision(seen.set, h.current)
	}
	return h, err
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

// mergeDuplicates gives all pods of superfluous revisions the current one's label.
// Until the cache shows that none has theirs, these revisions are in use.
func (c *Controller) mergeDuplicates(ctx context.Context, seen observed) error {
	hash := revisionHash(seen.current)
	for _, place := range seen.places {
		for _, pod := range place.pods {
			if !seen.isCurrent(pod) || pod.Labels[hashLabel] == hash {
				continue
			}
			labels := map[string]string{hashLabel: hash}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": labels}})
			if err == nil {
				_, err = c.patchPod(seen.set)(ctx, pod, patch)
			}
			if err != nil && !controller.IsGone(err) {
				return fmt.Errorf("label pod %s: %w", klog.KObj(pod), err)
			}
		}
	}
	return nil
}

// deleteRevisions deletes what the history has too much of. A finalizer may hold
// what is being deleted: it is not deleted again.
func (c *Controller) deleteRevisions(ctx context.Context, seen observed) error {
	limit, others := int(*seen.set.Spec.RevisionHistoryLimit), seen.inUse.Difference(sets.New(revisionHash(seen.current)))
	surplus := slices.Concat(superfluous(seen.duplicates, 0, others), superfluous(seen.old, limit, seen.inUse))
	for _, revision := range surplus {
		if revision.DeletionTimestamp != nil {
			continue
		}
		if err := c.deleteRevision(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) deleteRevision(ctx context.Context, revision *appsv1.ControllerRevision) error {
	err := c.client.AppsV1().ControllerRevisions(revision.Namespace).Delete(ctx, revision.Name,
		*metav1.NewPreconditionDeleteOptions(string(revision.UID)))
	if err != nil && !controller.IsGone(err) {
		return fmt.Errorf("delete revision %s: %w", revision.Name, err)
	}
	return nil
}

func (c *Controller) patchRevision(
	set *appsv1.DaemonSet,
) func(context.Context, *appsv1.ControllerRevision, []byte) (*appsv1.ControllerRevision, error) {
	return func(ctx context.Context, revision *appsv1.ControllerRevision, patch []byte) (*appsv1.ControllerRevision, error) {
		patched, err := c.client.AppsV1().ControllerRevisions(revision.Namespace).
			Patch(ctx, revision.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			c.wroteRevision(set, patched)
		}
		return patched, err
	}
}

func (c *Controller) patchPod(set *appsv1.DaemonSet) func(context.Context, *corev1.Pod, []byte) (*corev1.Pod, error) {
	return func(ctx context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
		patched, err := c.podControl.Patch(ctx, pod, patch)
		if err == nil {
			c.podWrites.Wrote(cache.MetaObjectToName(set), patched.ResourceVersion)
		}
		return patched, err
	}
}

func (c *Controller) wroteRevision(set *appsv1.DaemonSet, revision *appsv1.ControllerRevision) {
	c.revisionWrites.Wrote(cache.MetaObjectToName(set), revision.ResourceVersion)
}
