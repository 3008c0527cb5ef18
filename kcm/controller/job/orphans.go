package job

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// orphanPods looks at all pods of a Job that counts none of them any more.
func (c *Controller) orphanPods(job *batchv1.Job) {
	pods, err := c.podIndex.OwnedBy(job)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	for _, pod := range pods {
		c.orphanPod(pod)
	}
}

// orphanPod has a pod's finalizer taken off if no Job will count it. That can
// wait: when a Job ends, its loop has just taken the finalizers off, and the cache
// of pods may not show it yet.
func (c *Controller) orphanPod(pod *corev1.Pod) {
	if c.isOrphan(pod) {
		c.orphans.AddAfter(cache.MetaObjectToName(pod), newsPeriod)
	}
}

// isOrphan tells whether a pod has the finalizer, and no Job that will take it
// off: it has no controller, or its Job is over, or is gone and the pod is to
// follow it. That a Job is not in the cache is not enough, because the cache of
// pods may be ahead. A Job that is another controller's counts in its own way.
func (c *Controller) isOrphan(pod *corev1.Pod) bool {
	if !hasFinalizer(pod) {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if ref.Kind != kind.Kind || ref.APIVersion != kind.GroupVersion().String() {
		return false
	}
	job, ok := controller.OwnerOf(pod, kind.Kind, c.job)
	if !ok {
		return pod.DeletionTimestamp != nil
	}
	return isFinished(job) && !isManagedElsewhere(job)
}

// syncOrphan takes the finalizer off a pod that is an orphan now, too. A pod that
// is gone by then needs nothing.
func (c *Controller) syncOrphan(ctx context.Context, key cache.ObjectName) error {
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || !c.isOrphan(pod) {
		return err
	}
	patch, err := withoutFinalizer(pod, "")
	if err != nil {
		return err
	}
	_, err = c.podControl.Patch(ctx, pod, patch)
	if controller.IsGone(err) {
		return nil
	}
	return err
}
