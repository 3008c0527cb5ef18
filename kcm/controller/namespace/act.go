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

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act writes the status and takes the finalizer away, as planned. A namespace
// that somebody has changed meanwhile is a failure, and is looked at anew. One that
// is gone is none. Where the status is refused, the namespace is let go all the
// same, and the refusal is a failure.
func (c *NamespaceController) act(ctx context.Context, p plan) error {
	ns, failure := p.namespace, p.failure
	if p.status {
		updated, err := c.namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
		switch {
		case err == nil:
			ns = updated
		case controller.IsGone(err):
			return nil
		default:
			failure = errors.Join(failure, fmt.Errorf("update the status of namespace %s: %w", ns.Name, err))
		}
		p.finalize = p.finalize && !apierrors.IsConflict(err)
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
	_, err := c.namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
	switch {
	case controller.IsGone(err):
		return nil
	case err != nil:
		return fmt.Errorf("finalize namespace %s: %w", ns.Name, err)
	}
	klog.FromContext(ctx).Info("Namespace is empty and has been let go", "namespace", ns.Name)
	if len(ns.Spec.Finalizers) > 0 && c.resyncPeriod > 0 {
		c.loop.AddAfter(ns.Name, c.resyncPeriod)
	}
	return nil
}
