package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
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

// act creates or deletes pods, and returns how many it has, and the first error.
func (c *Controller) act(ctx context.Context, seen observed, t tally, p plan) (done, error) {
	switch {
	case len(p.delete) > 0:
		return c.deletePods(ctx, seen, p)
	case len(p.create) > 0:
		control := counted{c.podControl, reasonToCreate(seen.job, t)}
		c.expectations.Expect(seen.job, len(p.create))
		created, err := controller.CreatePods(ctx, control, c.expectations, c.podWrites.OwnWrites, seen.job, p.create)
		return done{created: created}, err
	}
	return done{}, nil
}

// counted counts what comes of the creations of pods. One that is refused
// because the namespace is being deleted is no failure.
type counted struct {
	controller.PodControl
	reason string
}

func (c counted) Create(ctx context.Context, job runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	created, err := c.PodControl.Create(ctx, job, pod)
	switch {
	case err == nil:
		podsCreated.WithLabelValues(c.reason, "succeeded").Inc()
	case !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		podsCreated.WithLabelValues(c.reason, "failed").Inc()
	}
	return created, err
}

// deletePods deletes pods, many at the same time. Of those that nobody has to
// count the finalizer goes first. If the process ends between the two, such a pod
// is still active, and is deleted by the next sync.
//
// For a verdict no deletions are expected: the Job creates nothing any more.
func (c *Controller) deletePods(ctx context.Context, seen observed, p plan) (done, error) {
	if p.uncounted {
		uids := make([]types.UID, 0, len(p.delete))
		for _, pod := range p.delete {
			uids = append(uids, pod.UID)
		}
		c.expectations.Expect(seen.job, 0, uids...)
	}
	var d done
	var errs []error
	for i, err := range each(ctx, p.delete, func(pod *corev1.Pod) error { return c.deletePod(ctx, seen.job, pod, p.uncounted) }) {
		pod := p.delete[i]
		if err != nil {
			c.expectations.DeletionObserved(seen.job, pod.UID) // no notification will come of it
		}
		if err != nil && !controller.IsGone(err) {
			errs = append(errs, err)
			continue
		}
		d.deleted++
		if controller.IsPodReady(pod) {
			d.deletedReady++
		}
	}
	return d, errors.Join(errs...)
}

// deletePod deletes one pod in the version that was seen. If it has changed
// meanwhile, it may be that it has ended, and has to be counted: the Job is looked
// at again.
func (c *Controller) deletePod(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, uncounted bool) error {
	if uncounted && hasFinalizer(pod) {
		patched, err := c.takeFinalizer(ctx, job, pod, pod.ResourceVersion)
		if err != nil {
			return controller.StaleIfChanged(err)
		}
		pod = patched
	}
	return controller.StaleIfChanged(c.podControl.Delete(ctx, job, pod))
}

// track counts, in three writes of which each may be the last that this process
// makes. First the status says which pods have ended. Then their finalizers go.
// Last the status has them in its counters. That is left to the next sync, which
// may have more to write, unless that write ends the Job.
func (c *Controller) track(ctx context.Context, seen observed, t tally, p plan, d done) error {
	status := decideStatus(seen, t, p, d)
	release := account(seen, t, p.verdict, &status)
	left := tracked(seen.pods)
	if len(release) == 0 {
		finish(&status, p.verdict, len(left), seen.now)
		_, err := c.writeStatus(ctx, seen.job, status)
		return err
	}
	job, err := c.writeStatus(ctx, seen.job, status)
	if err != nil {
		return err
	}
	countJudgements(seen, release)
	if err := c.release(ctx, job, release); err != nil {
		return err
	}
	for _, pod := range release {
		left.Delete(pod.UID)
	}
	settle(&status, left)
	finish(&status, p.verdict, len(left), seen.now)
	if !isFinished(&batchv1.Job{Status: status}) {
		return nil
	}
	_, err = c.writeStatus(ctx, job, status)
	return err
}

// writeStatus writes the status unless it is there already, and tells the Job's
// user what has come about. It is refused for a Job that has changed since it was
// seen, so that nothing is ever added to counters that are not the newest.
func (c *Controller) writeStatus(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) (*batchv1.Job, error) {
	old := job.Status
	if old.UncountedTerminatedPods == nil {
		old.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	if equality.Semantic.DeepEqual(old, status) {
		return job, nil
	}
	changed := job.DeepCopy()
	changed.Status = status
	updated, err := c.client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update status of job %s: %w", klog.KObj(job), controller.StaleIfChanged(err))
	}
	c.memories.of(job).written = updated.ResourceVersion
	c.tell(updated, old)
	countFinished(updated, old)
	return updated, nil
}

// release takes the finalizers off pods that the status knows, many at the same
// time.
func (c *Controller) release(ctx context.Context, job *batchv1.Job, pods []*corev1.Pod) error {
	err := errors.Join(each(ctx, pods, func(pod *corev1.Pod) error {
		_, err := c.takeFinalizer(ctx, job, pod, "")
		if controller.IsGone(err) {
			return nil
		}
		return err
	})...)
	if err != nil {
		return fmt.Errorf("take finalizers off pods of job %s: %w", klog.KObj(job), err)
	}
	return nil
}

// takeFinalizer returns the pod without its finalizer. With a version it is taken
// off the pod in that version and no other.
func (c *Controller) takeFinalizer(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, version string) (*corev1.Pod, error) {
	patch, err := withoutFinalizer(pod, version)
	if err != nil {
		return nil, err
	}
	return c.patchPod(ctx, job, pod, patch)
}

// patchPod sends a patch of a pod, and notes that the cache has to show it before
// the Job is synced again.
func (c *Controller) patchPod(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	patched, err := c.podControl.Patch(ctx, pod, patch)
	if err == nil {
		c.podWrites.Wrote(cache.MetaObjectToName(job), patched.ResourceVersion)
	}
	return patched, err
}

// withoutFinalizer returns the patch that takes the finalizer off this pod, and
// off no other that may have its name by now.
func withoutFinalizer(pod *corev1.Pod, version string) ([]byte, error) {
	metadata := map[string]any{
		"uid":                                 pod.UID,
		"$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer},
	}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

// each calls do for all pods at the same time, and returns what it returned for
// each.
func each(ctx context.Context, pods []*corev1.Pod, do func(*corev1.Pod) error) []error {
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	for i, pod := range pods {
		all.Go(func() {
			errs[i] = controller.Recovered(ctx, func() error { return do(pod) }, "pod", klog.KObj(pod))()
		})
	}
	all.Wait()
	return errs
}
