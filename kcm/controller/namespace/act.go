package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// act writes the status and takes the finalizer away, as planned. A namespace
// that somebody has changed meanwhile is looked at anew: it is a failure, and
// one that is gone is none. That the status is refused is a failure, too, but the
// namespace need not be told of to go.
func (c *NamespaceController) act(ctx context.Context, p plan) error {
	ns, failure := p.namespace, p.failure
	if p.status {
		updated, err := c.namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
		switch {
		case err == nil:
			ns = updated
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return unlessGone(ns, "update the status of", err)
		default:
			failure = errors.Join(failure, fmt.Errorf("update the status of namespace %s: %w", ns.Name, err))
		}
	}
	if p.finalize {
		return errors.Join(failure, c.finalize(ctx, ns))
	}
	if failure == nil && p.again > 0 {
		klog.FromContext(ctx).V(4).Info("Content is left in the namespace", "namespace", ns.Name, "again", p.again)
		c.loop.AddAfter(ns.Name, p.again)
	}
	return failure
}

// finalize takes the finalizer away. Where it was the last, the namespace is
// gone after that. Otherwise it is looked at again in a while, as long as
// somebody else holds it.
func (c *NamespaceController) finalize(ctx context.Context, ns *corev1.Namespace) error {
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == c.finalizer })
	if _, err := c.namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
		return unlessGone(ns, "finalize", err)
	}
	klog.FromContext(ctx).Info("Namespace is empty and has been let go", "namespace", ns.Name)
	if len(ns.Spec.Finalizers) > 0 && c.resyncPeriod > 0 {
		c.loop.AddAfter(ns.Name, c.resyncPeriod)
	}
	return nil
}

// unlessGone returns the error, wrapped, unless it says that the namespace is
// gone.
func unlessGone(ns *corev1.Namespace, doing string, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s namespace %s: %w", doing, ns.Name, err)
}
