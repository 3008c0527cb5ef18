package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// observed is what one sync knows. Everything in it is the cache's and must not
// be changed.
type observed struct {
	// job is nil when there is nothing to do about it.
	job *batchv1.Job
	// pods are all that the Job has, whatever has become of them.
	pods []*corev1.Pod
	// failures are those since the last success.
	failures failures
	// mayAct says that the cache shows all that earlier syncs have created and
	// deleted, or that this was waited for long enough.
	mayAct bool
	// resetsStart says that a Job that is suspended has no start time.
	resetsStart bool
	now         time.Time
}

// observe reads the Job and its pods, and claims the pods that are its own. A Job
// that is over, or another controller's, is not looked at any further.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (observed, error) {
	if err := c.podWrites.Observed(key); err != nil {
		return observed{}, err
	}
	job, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return observed{}, fmt.Errorf("read job %s: %w", key, err)
	}
	if err != nil || isFinished(job) {
		c.forget(key)
		return observed{}, nil
	}
	if isManagedElsewhere(job) {
		return observed{}, nil
	}
	memory := c.memories.of(job)
	if memory.isAhead(job) {
		staleSyncSkips.WithLabelValues(batchv1.GroupName, "jobs").Inc()
		return observed{}, fmt.Errorf("%w: it shows job %s at version %s, and %s was written", controller.ErrStaleCache, key, job.ResourceVersion, memory.written)
	}
	// Expectations are asked before the pods are read, so that a pod whose
	// notification was the last expected is among those read.
	seen := observed{
		job:         job,
		mayAct:      c.expectations.Satisfied(job),
		resetsStart: feature.DefaultFeatureGate.Enabled(mutableSchedulingDirectives),
	}
	if seen.pods, err = c.claim(ctx, job); err != nil {
		return observed{}, fmt.Errorf("pods of job %s: %w", key, err)
	}
	memory.failures = memory.failures.note(job, seen.pods)
	seen.failures = memory.failures
	seen.now = c.clock.Now()
	return seen, nil
}

// forget drops what is known of a Job that is gone or over.
func (c *Controller) forget(key cache.ObjectName) {
	c.expectations.Forget(key)
	c.podWrites.Forget(key)
	c.memories.forget(key)
}

// claim adopts and releases pods, and returns those that are the Job's. One that
// was adopted just now is returned with its finalizer, which the cache does not
// show yet.
func (c *Controller) claim(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, err
	}
	pods, err := c.podIndex.OwnedByOrOrphans(job)
	if err != nil {
		return nil, err
	}
	claimer := controller.Claimer[*corev1.Pod]{
		Owner:    job,
		Kind:     kind,
		Selector: selector,
		CanAdopt: controller.CanAdopt(job, func(ctx context.Context) (*batchv1.Job, error) {
			return c.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		}),
		Patch: func(ctx context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
			return c.patchClaim(ctx, job, pod, patch)
		},
	}
	return claimer.Claim(ctx, pods)
}

// patchClaim sends the Claimer's patch. The finalizer comes and goes in the same
// write as the owner: a pod that is adopted is to be counted, and one that is
// released is no longer the Job's. One that the Job itself has made, and that has
// ended and lost its finalizer, may have been counted, and is not counted again.
func (c *Controller) patchClaim(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	var claim struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &claim); err != nil {
		return nil, err
	}
	field := "finalizers"
	ended := !hasFinalizer(pod) && !controller.IsPodActive(pod) && pod.Labels[batchv1.ControllerUidLabel] == string(job.UID)
	if ended || metav1.GetControllerOfNoCopy(pod) != nil {
		field = "$deleteFromPrimitiveList/finalizers"
	}
	claim.Metadata[field] = []string{batchv1.JobTrackingFinalizer}
	patch, err := json.Marshal(claim)
	if err != nil {
		return nil, err
	}
	return c.patchPod(ctx, job, pod, patch)
}
