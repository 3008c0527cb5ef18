package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var kind = batchv1.SchemeGroupVersion.WithKind("Job")

// Feature gates of Kubernetes that change what the loop does.
const (
	// staleControllerConsistencyJob keeps a Job from being synced before all that
	// it has written is in the cache of pods (https://kep.k8s.io/5647).
	staleControllerConsistencyJob featuregate.Feature = "StaleControllerConsistencyJob"
	// mutableSchedulingDirectives takes the start time from a Job that is
	// suspended, so that its template may be changed (https://kep.k8s.io/2926).
	mutableSchedulingDirectives featuregate.Feature = "MutableSchedulingDirectivesForSuspendedJobs"
)

// Reads is what the loop reads of pods.
var Reads = []*controller.Keep{controller.PodState, podConditions}

// Controller runs the pods of Jobs and counts how they end.
type Controller struct {
	client kubernetes.Interface
	clock  clock.PassiveClock
	events *controller.Events

	jobs       batchlisters.JobLister
	pods       corelisters.PodLister
	podIndex   controller.OwnerIndex[*corev1.Pod]
	podControl controller.PodControl
	synced     []cache.InformerSynced

	podWrites    controller.GatedOwnWrites
	expectations *controller.Expectations
	memories     *memories

	loop *controller.Loop[cache.ObjectName]
	// orphans syncs pods that no Job will count, so that they can go.
	orphans *controller.Loop[cache.ObjectName]
}

// NewController returns the loop for Jobs. It reads the two informers, which the
// caller starts, and writes through client.
func NewController(
	ctx context.Context,
	client kubernetes.Interface,
	podInformer coreinformers.PodInformer,
	jobInformer batchinformers.JobInformer,
) *Controller {
	return newController(ctx, client, clock.RealClock{}, podInformer, jobInformer)
}

func newController(
	ctx context.Context,
	client kubernetes.Interface,
	clock clock.PassiveClock,
	podInformer coreinformers.PodInformer,
	jobInformer batchinformers.JobInformer,
) *Controller {
	registerMetrics()
	events := controller.NewEvents(ctx, client, "job-controller")
	c := &Controller{
		client:     client,
		clock:      clock,
		events:     events,
		jobs:       jobInformer.Lister(),
		pods:       podInformer.Lister(),
		podIndex:   controller.NewOwnerIndex[*corev1.Pod](podInformer.Informer()),
		podControl: controller.NewPodControl(client, events),
		podWrites: controller.NewGatedOwnWrites(staleControllerConsistencyJob, podInformer.Informer().GetStore(),
			staleSyncSkips.WithLabelValues(corev1.GroupName, "pods")),
		expectations: controller.NewExpectations(clock),
		memories:     newMemories(),
	}
	c.loop = newLoop("job", c.sync)
	c.orphans = newLoop("job_orphan_pod", c.syncOrphan)
	c.watchJobs(jobInformer.Informer())
	c.watchPods(podInformer.Informer())
	return c
}

// newLoop returns a loop that tries again after a second, and then ever later, up
// to a minute.
func newLoop(queue string, sync func(context.Context, cache.ObjectName) error) *controller.Loop[cache.ObjectName] {
	return controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:        "job-controller",
		QueueName:   queue,
		Sync:        sync,
		MaxRetries:  controller.RetryForever,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, time.Minute),
	})
}

// Run syncs Jobs, and pods that no Job counts, with as many workers each as it is
// told. It returns when ctx has ended and the workers have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.orphans.Run(ctx, workers, c.synced...)
	}()
	c.loop.Run(ctx, workers, c.synced...)
	<-ended
}

// sync brings one Job closer to its end. The status is written also when pods
// could not be created or deleted: what has ended is to be counted.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if err != nil || seen.job == nil {
		return err
	}
	start := c.clock.Now()
	t := count(seen)
	p := decide(seen, t)
	if p.wait > 0 {
		c.loop.AddAfter(key, max(p.wait, newsPeriod))
	}
	d, failure := c.act(ctx, seen, t, p)
	if !c.expectations.Satisfied(seen.job) {
		c.loop.AddAfter(key, controller.ExpectationsTimeout) // nothing tells of that moment
	}
	if d.deleted < len(p.delete) || !seen.mayAct {
		p.verdict = nil // pods are left that it would not be about
	}
	if failure != nil {
		failure = fmt.Errorf("pods of job %s: %w", key, failure)
	}
	err = errors.Join(failure, c.track(ctx, seen, t, p, d))
	observeSync(seen, p, c.clock.Since(start), err)
	return err
}
