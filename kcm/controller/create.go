package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// PodOwner is an object that owns pods.
type PodOwner interface {
	metav1.Object
	runtime.Object
}

// CreatePods creates pods in [SlowStart] for an owner that expects them already,
// and returns how many and the first error. In the end the owner expects those
// that were created and no others, and they are among its own writes.
//
// That the namespace is being deleted is no failure: the owner is about to go,
// too. What was expected stays expected, so that the owner sleeps and does not
// try again each time that one of its pods goes.
func CreatePods(ctx context.Context, control PodControl, expectations *Expectations, writes *OwnWrites, owner PodOwner,
	pods []*corev1.Pod) (created int, failure error) {
	created, failure = SlowStart(len(pods), func(i int) error {
		pod, err := control.Create(ctx, owner, pods[i])
		switch {
		case err == nil:
			writes.Wrote(cache.MetaObjectToName(owner), pod.ResourceVersion)
			return nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil
		default:
			return err
		}
	})
	for range len(pods) - created {
		expectations.CreationObserved(owner) // no notification will come of it
	}
	return created, failure
}
