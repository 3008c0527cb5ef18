// Package ttlafterfinished deletes Jobs that are over, when as much time has
// passed as they say in spec.ttlSecondsAfterFinished (KEP-592).
package ttlafterfinished

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Controller deletes each Job, with all that it owns, as many seconds after its
// end as it says.
type Controller struct {
	client kubernetes.Interface
	cached batchlisters.JobLister
	synced cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
}

// New returns a controller that watches Jobs with the informer, which the
// caller starts, and reads and deletes them through client. It sends no request
// yet, and may be called several times in one process.
func New(jobInformer batchinformers.JobInformer, client kubernetes.Interface) *Controller {
	registerMetrics()
	c := &Controller{client: client, cached: jobInformer.Lister()}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "ttl-after-finished-controller",
		QueueName:  "ttl_jobs_to_delete",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.synced = controller.Handle(jobInformer.Informer(), controller.Handlers[*batchv1.Job]{
		Add:    c.changed,
		Update: func(_, job *batchv1.Job) { c.changed(job) },
	})
	return c
}

// changed asks for a Job to be looked at that has an end to its time.
func (c *Controller) changed(job *batchv1.Job) {
	if _, ok := deadline(job); ok {
		c.loop.Add(cache.MetaObjectToName(job))
	}
}

// deadline returns when a Job is to be deleted. It is not ok for one that does
// not say so, is not over, or is being deleted already. A Job that is over
// without saying since when is left alone, too: waiting would not change that.
func deadline(job *batchv1.Job) (at time.Time, ok bool) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || job.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	for _, c := range job.Status.Conditions {
		over := c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed
		if over && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
		}
	}
	return time.Time{}, false
}

// Run waits until the cache is filled and then works, as many Jobs at a time as
// there are workers, until ctx ends and the last worker has finished. What fails
// is tried again, ever less often. That a Job is gone, or that another has its
// name by now, is no failure. How long after its time had come each Job was
// deleted is measured in the histogram
// ttl_after_finished_controller_job_deletion_duration_seconds.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced)
}

// sync looks twice before it deletes a Job: at the cache, and, since that may be
// behind, at the API server.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	job, err := c.cached.Jobs(key.Namespace).Get(key.Name)
	if err == nil && c.isDue(job) {
		job, err = c.client.BatchV1().Jobs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err == nil && c.isDue(job) {
			err = c.delete(ctx, job)
		}
	}
	if controller.IsGone(err) {
		return nil
	}
	return err
}

// isDue tells whether the time of a Job has come. One whose time will come is
// looked at again then.
func (c *Controller) isDue(job *batchv1.Job) bool {
	at, ok := deadline(job)
	if left := time.Until(at); ok && left > 0 {
		c.loop.AddAfter(cache.MetaObjectToName(job), left)
		return false
	}
	return ok
}

// delete asks the Job to go as it was looked at: no other of its name, and none
// that was written since. In the foreground it stays until its pods are gone, so
// that whoever waits for the Job's end waits for theirs.
func (c *Controller) delete(ctx context.Context, job *batchv1.Job) error {
	err := c.client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
		PropagationPolicy: new(metav1.DeletePropagationForeground),
	})
	if err != nil {
		return fmt.Errorf("delete job %s: %w", klog.KObj(job), err)
	}
	at, _ := deadline(job)
	jobDeletionDuration.Observe(time.Since(at).Seconds())
	klog.FromContext(ctx).V(4).Info("Job's time had come, and it was deleted", "job", klog.KObj(job), "since", at)
	return nil
}

var jobDeletionDuration = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem:      "ttl_after_finished_controller",
	Name:           "job_deletion_duration_seconds",
	Help:           "How long after its time had come a Job was deleted, in seconds.",
	Buckets:        metrics.ExponentialBuckets(0.1, 2, 14),
	StabilityLevel: metrics.ALPHA,
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(jobDeletionDuration) })
