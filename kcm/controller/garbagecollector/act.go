package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// looks is how often a write is tried again with what the object is now.
const looks = 4

// act carries a plan out.
func (gc *GarbageCollector) act(ctx context.Context, seen observed, plan plan) error {
	logger := klog.FromContext(ctx).WithValues("object", referenceTo(seen.object))
	if len(plan.drop) > 0 {
		logger.V(2).Info("Dropping references, as another owner keeps the object", "count", len(plan.drop))
		return gc.dropOwners(ctx, seen.object, plan.drop)
	}
	if plan.unblock {
		logger.V(2).Info("The object may be part of a circle, so that no owner is to wait for it any more")
		if err := gc.setOwners(ctx, seen.object, unblocked); err != nil {
			return err
		}
	}
	if plan.deletion != "" {
		logger.V(2).Info("Deleting", "propagationPolicy", plan.deletion)
		return gc.deleteObject(ctx, seen.object, plan.deletion)
	}
	if plan.release {
		logger.V(2).Info("No dependent blocks the object any more")
		return gc.removeFinalizer(ctx, seen.object, metav1.FinalizerDeleteDependents)
	}
	return nil
}

// deleteObject deletes an object, but only in a state in which it has the owners
// and finalizers with which it was judged. If it has others by now, the error
// wraps ErrStaleCache. An object that is being deleted already is left alone.
func (gc *GarbageCollector) deleteObject(ctx context.Context, judged *object, policy metav1.DeletionPropagation) error {
	return gc.write(ctx, judged, func(client metadata.ResourceInterface, latest *object) error {
		switch {
		case latest.DeletionTimestamp != nil:
			return nil // somebody was faster
		case !equality.Semantic.DeepEqual(latest.OwnerReferences, judged.OwnerReferences),
			!equality.Semantic.DeepEqual(latest.Finalizers, judged.Finalizers):
			return fmt.Errorf("%w: %s has other owners or finalizers by now", controller.ErrStaleCache, referenceTo(judged))
		}
		return client.Delete(ctx, latest.Name, metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &latest.UID, ResourceVersion: &latest.ResourceVersion},
			PropagationPolicy: &policy,
		})
	})
}

// write calls request with the object as the cache has it, and after each conflict
// with the object as it is by then, at most looks times more. It returns the API
// server's error. An object that is gone, or whose name is another one's by now,
// counts as written.
func (gc *GarbageCollector) write(ctx context.Context, obj *object,
	request func(client metadata.ResourceInterface, latest *object) error) error {
	mapping, err := gc.mapping(obj.APIVersion, obj.Kind)
	if err != nil {
		return err
	}
	client := gc.metadata.Resource(mapping.Resource).Namespace(obj.Namespace)
	err = request(client, obj)
	for range looks {
		if !apierrors.IsConflict(err) {
			break
		}
		latest, missing := client.Get(ctx, obj.Name, metav1.GetOptions{})
		switch {
		case missing != nil:
			err = missing
		case latest.UID != obj.UID:
			return nil
		default:
			err = request(client, latest)
		}
	}
	if controller.IsGone(err) {
		return nil
	}
	return err
}

// dropOwners takes references out of an object that was judged. If it has other
// references by now, the error wraps ErrStaleCache: it may have lost the owner that
// was to keep it. A UID is not enough to tell them apart: one reference to it may
// be true, and another one wrong.
func (gc *GarbageCollector) dropOwners(ctx context.Context, judged *object, owners []metav1.OwnerReference) error {
	dropped := sets.New[reference]()
	for _, owner := range owners {
		dropped.Insert(claim(judged, owner))
	}
	left := slices.DeleteFunc(slices.Clone(judged.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return dropped.Has(claim(judged, ref))
	})
	return gc.write(ctx, judged, func(client metadata.ResourceInterface, latest *object) error {
		if !equality.Semantic.DeepEqual(latest.OwnerReferences, judged.OwnerReferences) {
			return fmt.Errorf("%w: %s has other owners by now", controller.ErrStaleCache, referenceTo(judged))
		}
		return patch(ctx, client, latest, "ownerReferences", left)
	})
}

// setOwners changes an object's owner references.
func (gc *GarbageCollector) setOwners(ctx context.Context, obj *object,
	change func([]metav1.OwnerReference) []metav1.OwnerReference) error {
	return gc.write(ctx, obj, func(client metadata.ResourceInterface, latest *object) error {
		owners := change(latest.OwnerReferences)
		if equality.Semantic.DeepEqual(owners, latest.OwnerReferences) {
			return nil
		}
		return patch(ctx, client, latest, "ownerReferences", owners)
	})
}

// without returns the references to all owners but that one.
func without(owner types.UID) func([]metav1.OwnerReference) []metav1.OwnerReference {
	return func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
	}
}

// unblocked returns the references with no owner being asked to wait.
func unblocked(refs []metav1.OwnerReference) []metav1.OwnerReference {
	refs = slices.Clone(refs)
	for i := range refs {
		refs[i].BlockOwnerDeletion = ptr.To(false)
	}
	return refs
}

func (gc *GarbageCollector) removeFinalizer(ctx context.Context, obj *object, finalizer string) error {
	return gc.write(ctx, obj, func(client metadata.ResourceInterface, latest *object) error {
		if !slices.Contains(latest.Finalizers, finalizer) {
			return nil
		}
		left := slices.DeleteFunc(slices.Clone(latest.Finalizers), func(f string) bool { return f == finalizer })
		return patch(ctx, client, latest, "finalizers", left)
	})
}

// patch sets one field of the metadata, if the object is still the one and in
// the version that was read. A merge patch replaces lists, and all kinds know it.
func patch(ctx context.Context, client metadata.ResourceInterface, obj *object, field string, value any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.UID, "resourceVersion": obj.ResourceVersion, field: value,
	}})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, obj.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}
