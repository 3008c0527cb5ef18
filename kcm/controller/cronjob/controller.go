package cronjob

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Reads is what the loop reads of CronJobs, besides what stays of all objects.
var Reads = []*controller.Keep{writers}

// Controller creates Jobs when the schedules of CronJobs say so, and deletes old
// ones.
type Controller struct {
	client   kubernetes.Interface
	clock    clock.PassiveClock
	events   *controller.Events
	cronJobs batchlisters.CronJobLister
	jobIndex controller.OwnerIndex[*batchv1.Job]
	// cronJobWrites and jobWrites are what earlier syncs have written.
	cronJobWrites, jobWrites *controller.OwnWrites
	sightings                sync.Map // of the schedule, by the key
	synced                   []cache.InformerSynced
	loop                     *controller.Loop[cache.ObjectName]
}

// NewController returns the loop for CronJobs. It reads the two informers, which
// the caller starts, and writes through client.
func NewController(
	ctx context.Context,
	jobInformer batchinformers.JobInformer,
	cronJobInformer batchinformers.CronJobInformer,
	client kubernetes.Interface,
) *Controller {
	registerMetrics()
	c := &Controller{
		client:        client,
		clock:         clock.RealClock{},
		events:        controller.NewEvents(ctx, client, "cronjob-controller"),
		cronJobs:      cronJobInformer.Lister(),
		jobIndex:      controller.NewOwnerIndex[*batchv1.Job](jobInformer.Informer()),
		cronJobWrites: controller.NewOwnWrites(cronJobInformer.Informer().GetStore()),
		jobWrites:     controller.NewOwnWrites(jobInformer.Informer().GetStore()),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "cronjob-controller",
		QueueName:  "cronjob",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	wake := func(cj *batchv1.CronJob) { c.loop.Add(cache.MetaObjectToName(cj)) }
	wakeOwner := func(job *batchv1.Job) {
		if owner, ok := controller.OwnerOf(job, kind.Kind, c.cronJob); ok {
			wake(owner)
		}
	}
	c.synced = append(c.synced,
		controller.Handle(cronJobInformer.Informer(), controller.Handlers[*batchv1.CronJob]{
			Add: wake, Update: func(_, cj *batchv1.CronJob) { wake(cj) }, Delete: wake,
		}),
		controller.Handle(jobInformer.Informer(), controller.Handlers[*batchv1.Job]{
			Add: wakeOwner, Update: func(old, job *batchv1.Job) { wakeOwner(old); wakeOwner(job) }, Delete: wakeOwner,
		}))
	return c
}

func (c *Controller) cronJob(key cache.ObjectName) (*batchv1.CronJob, error) {
	return c.cronJobs.CronJobs(key.Namespace).Get(key.Name)
}

// allowance is how much later than the moment a CronJob is looked at, so that a
// clock that is a bit behind does not find it too early.
const allowance = 100 * time.Millisecond

// sleep has a CronJob looked at again at that moment.
func (c *Controller) sleep(cj *batchv1.CronJob, until time.Time) {
	c.loop.AddAfter(cache.MetaObjectToName(cj), until.Add(allowance).Sub(c.clock.Now()))
}

// Run syncs CronJobs with as many workers as it is told. It returns when ctx has
// ended and the workers have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	c.loop.Run(ctx, workers, c.synced...)
}

// sync creates and deletes Jobs of one CronJob, and writes its status once, also
// when something could not be done.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if err != nil || seen.cronJob == nil {
		return err
	}
	p := decide(seen)
	for _, e := range p.events {
		c.events.Event(seen.cronJob, e.kind, e.reason, e.message)
	}
	if !p.next.IsZero() {
		c.sleep(seen.cronJob, p.next)
	}
	failure := c.act(ctx, seen.cronJob, &p)
	if err := c.writeStatus(ctx, seen.cronJob, p.status); err != nil {
		return err
	}
	return failure
}

// observe reads the CronJob and its Jobs. That a Job is not in the cache is not
// enough to take it for gone: under the policy Forbid another would be started
// beside it.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (observed, error) {
	for _, writes := range []*controller.OwnWrites{c.cronJobWrites, c.jobWrites} {
		if err := writes.Observed(key); err != nil {
			return observed{}, err
		}
	}
	cj, err := c.cronJob(key)
	if apierrors.IsNotFound(err) {
		c.cronJobWrites.Forget(key)
		c.jobWrites.Forget(key)
		c.sightings.Delete(key)
		return observed{}, nil
	}
	if err != nil {
		return observed{}, fmt.Errorf("read cron job %s: %w", key, err)
	}
	seen := observed{cronJob: cj, now: c.clock.Now()}
	before, _ := c.sightings.Load(key)
	known, _ := before.(sighting)
	known = look(known, cj, seen.now)
	c.sightings.Store(key, known)
	seen.changed = known.since
	if seen.jobs, err = c.jobIndex.OwnedBy(cj); err != nil {
		return observed{}, err
	}
	there := map[string]bool{}
	for _, job := range seen.jobs {
		there[string(job.UID)] = true
	}
	for _, ref := range cj.Status.Active {
		if there[string(ref.UID)] {
			continue
		}
		if !controller.CanBeName(ref.Name) {
			seen.gone = append(seen.gone, ref)
			continue
		}
		job, err := c.client.BatchV1().Jobs(key.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case controller.IsGone(err) || err == nil && job.UID != ref.UID:
			seen.gone = append(seen.gone, ref)
		case err != nil:
			return observed{}, fmt.Errorf("read job %s of cron job %s: %w", ref.Name, key, err)
		}
	}
	return seen, nil
}

var creationSkew = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem:      "cronjob_controller",
	Name:           "job_creation_skew_duration_seconds",
	Help:           "How long after its moment a Job was created, in seconds.",
	StabilityLevel: metrics.STABLE,
	Buckets:        metrics.ExponentialBuckets(1, 2, 10),
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(creationSkew) })

// writeStatus writes the status unless it is there already.
func (c *Controller) writeStatus(ctx context.Context, cj *batchv1.CronJob, status batchv1.CronJobStatus) error {
	if equality.Semantic.DeepEqual(cj.Status, status) {
		return nil
	}
	changed := cj.DeepCopy()
	changed.Status = status
	updated, err := c.client.BatchV1().CronJobs(cj.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update status of cron job %s/%s: %w", cj.Namespace, cj.Name, err)
	}
	c.cronJobWrites.Wrote(cache.MetaObjectToName(cj), updated.ResourceVersion)
	return nil
}
