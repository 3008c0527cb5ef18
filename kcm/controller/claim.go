package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Claimer finds out which objects of type T belong to one owner. An object
// belongs to the owner that its controller reference names; the selector says
// which objects the owner wants. The two are brought together: an object that
// matches and has no owner is adopted, one that has this owner and no longer
// matches is released.
type Claimer[T metav1.Object] struct {
	Owner    metav1.Object
	Kind     schema.GroupVersionKind
	Selector labels.Selector
	// CanAdopt is asked before the first adoption and not again. It has to
	// look at the owner on the API server rather than in a cache, because an
	// owner that is being deleted must not adopt
	// (https://github.com/kubernetes/kubernetes/issues/42639).
	CanAdopt func(ctx context.Context) error
	// Patch sends a strategic merge patch for one object, and returns what it has
	// become.
	Patch func(ctx context.Context, obj T, patch []byte) (T, error)

	adopted map[types.UID]T
}

// Claim adopts and releases, and returns the objects that belong to the owner
// afterwards, those that it has adopted as they are now. Objects of other owners are
// left alone. When some patches fail it returns the rest of the objects together
// with all errors.
func (c *Claimer[T]) Claim(ctx context.Context, objects []T) ([]T, error) {
	canAdopt := sync.OnceValue(func() error { return c.CanAdopt(ctx) })
	c.adopted = map[types.UID]T{}
	var claimed []T
	var errs []error
	for _, obj := range objects {
		ours, err := c.claim(ctx, obj, canAdopt)
		if err != nil {
			errs = append(errs, err)
		}
		if adopted, isNew := c.adopted[obj.GetUID()]; isNew {
			obj = adopted
		}
		if ours {
			claimed = append(claimed, obj)
		}
	}
	return claimed, errors.Join(errs...)
}

// claim tells whether one object is the owner's, once it has adopted or
// released it where that is due. adopt asks canAdopt.
func (c *Claimer[T]) claim(ctx context.Context, obj T, canAdopt func() error) (bool, error) {
	matches := c.Selector.Matches(labels.Set(obj.GetLabels()))
	ref := metav1.GetControllerOfNoCopy(obj)
	ownerGoes := c.Owner.GetDeletionTimestamp() != nil
	switch {
	case ref != nil && ref.UID != c.Owner.GetUID():
		return false, nil
	case ref != nil && matches:
		return true, nil
	case ref != nil:
		if ownerGoes {
			return false, nil // the garbage collector's business
		}
		return false, c.release(ctx, obj)
	case !matches || ownerGoes || obj.GetDeletionTimestamp() != nil:
		return false, nil
	default:
		return c.adopt(ctx, obj, canAdopt)
	}
}

// adopt writes the owner into the object's references. The UID in the patch
// makes the API server refuse it if the name now belongs to another object.
func (c *Claimer[T]) adopt(ctx context.Context, obj T, canAdopt func() error) (bool, error) {
	if err := canAdopt(); err != nil {
		return false, fmt.Errorf("adopt %s: %w", klog.KObj(obj), err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             obj.GetUID(),
		"ownerReferences": []*metav1.OwnerReference{metav1.NewControllerRef(c.Owner, c.Kind)},
	}})
	if err != nil {
		return false, fmt.Errorf("adopt %s: %w", klog.KObj(obj), err)
	}
	klog.FromContext(ctx).V(2).Info("Adopting", "object", klog.KObj(obj), "owner", klog.KObj(c.Owner))
	adopted, err := c.Patch(ctx, obj, patch)
	if err != nil {
		if IsGone(err) {
			return false, nil // it went before we could have it
		}
		return false, fmt.Errorf("adopt %s: %w", klog.KObj(obj), err)
	}
	c.adopted[obj.GetUID()] = adopted
	return true, nil
}

// release takes the owner out of the object's references and leaves all
// others.
func (c *Claimer[T]) release(ctx context.Context, obj T) error {
	patch, err := releasePatch(obj.GetUID(), c.Owner.GetUID())
	if err != nil {
		return fmt.Errorf("release %s: %w", klog.KObj(obj), err)
	}
	klog.FromContext(ctx).V(2).Info("Releasing", "object", klog.KObj(obj), "owner", klog.KObj(c.Owner))
	_, err = c.Patch(ctx, obj, patch)
	if err == nil || IsGone(err) {
		return nil
	}
	return fmt.Errorf("release %s: %w", klog.KObj(obj), err)
}

func releasePatch(object, owner types.UID) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             object,
		"ownerReferences": []map[string]any{{"$patch": "delete", "uid": owner}},
	}})
}

// CanAdopt returns a [Claimer.CanAdopt] that reads the owner with get and
// refuses when it is being deleted or is not the owner that was cached but
// another one of the same name.
func CanAdopt[T metav1.Object](cached T, get func(ctx context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		fresh, err := get(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read %s anew: %w", klog.KObj(cached), err)
		case fresh.GetUID() != cached.GetUID():
			return fmt.Errorf("%s is gone: the one there now has uid %s, not %s",
				klog.KObj(cached), fresh.GetUID(), cached.GetUID())
		case fresh.GetDeletionTimestamp() != nil:
			return fmt.Errorf("%s has been deleted at %s", klog.KObj(cached), fresh.GetDeletionTimestamp())
		}
		return nil
	}
}
