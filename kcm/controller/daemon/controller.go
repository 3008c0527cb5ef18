package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// burstReplicas is how many pods one sync creates at most, and how many it
// deletes. The rest follows when these have been observed.
const burstReplicas = 250

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// staleControllerConsistencyDaemonSet keeps a DaemonSet from being synced before its
// own last write is in the cache (https://kep.k8s.io/5647).
const staleControllerConsistencyDaemonSet featuregate.Feature = "StaleControllerConsistencyDaemonSet"

// Reads is what the loop reads of pods.
var Reads = []*controller.Keep{controller.PodState, podPlace}

// Controller keeps the pods of all DaemonSets.
type Controller struct {
	client kubernetes.Interface
	loop   *controller.Loop[cache.ObjectName]
	events *controller.Events
	clock  clock.PassiveClock

	sets          appslisters.DaemonSetLister
	setIndex      setIndex
	nodes         corelisters.NodeLister
	podIndex      controller.OwnerIndex[*corev1.Pod]
	revisionIndex controller.OwnerIndex[*appsv1.ControllerRevision]
	podControl    controller.PodControl

	setWrites, podWrites, revisionWrites controller.GatedOwnWrites

	expectations *controller.Expectations
	failures     *flowcontrol.Backoff
	// shuffle brings things into any order, as [rand.Shuffle] does.
	shuffle func(n int, swap func(i, j int))
	synced  []cache.InformerSynced
}

// New returns the loop for DaemonSets. How long it waits before it replaces a
// pod that has failed on a node is failures' to say, which has to have the
// real clock.
func New(
	ctx context.Context,
	setInformer appsinformers.DaemonSetInformer,
	revisionInformer appsinformers.ControllerRevisionInformer,
	podInformer coreinformers.PodInformer,
	nodeInformer coreinformers.NodeInformer,
	client kubernetes.Interface,
	failures *flowcontrol.Backoff,
) *Controller {
	registerMetrics()
	events := controller.NewEvents(ctx, client, "daemonset-controller")
	c := &Controller{
		client:         client,
		events:         events,
		clock:          clock.RealClock{},
		sets:           setInformer.Lister(),
		setIndex:       newSetIndex(setInformer.Informer()),
		nodes:          nodeInformer.Lister(),
		podIndex:       controller.NewOwnerIndex[*corev1.Pod](podInformer.Informer()),
		revisionIndex:  controller.NewOwnerIndex[*appsv1.ControllerRevision](revisionInformer.Informer()),
		podControl:     controller.NewPodControl(client, events),
		setWrites:      newOwnWrites("apps", "daemonsets", setInformer.Informer().GetStore()),
		podWrites:      newOwnWrites("", "pods", podInformer.Informer().GetStore()),
		revisionWrites: newOwnWrites("apps", "controllerrevisions", revisionInformer.Informer().GetStore()),
		expectations:   controller.NewExpectations(clock.RealClock{}),
		failures:       failures,
		shuffle:        rand.Shuffle,
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "daemonset-controller",
		QueueName:  "daemonset",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.watchSets(setInformer.Informer())
	c.watchOwned(podInformer.Informer(), revisionInformer.Informer())
	c.watchNodes(nodeInformer.Informer(), podInformer.Informer())
	return c
}

// newOwnWrites returns what watches the cache of one resource.
func newOwnWrites(group, resource string, cached controller.CachedVersion) controller.GatedOwnWrites {
	skips := staleSyncSkips.WithLabelValues(group, resource)
	return controller.NewGatedOwnWrites(staleControllerConsistencyDaemonSet, cached, skips)
}

// Run syncs DaemonSets with as many workers at a time as it is told. It returns
// when ctx has ended and the workers have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	var forgetting sync.WaitGroup
	forgetting.Go(func() { c.forgetFailures(ctx) })
	defer forgetting.Wait()
	c.loop.Run(ctx, workers, c.synced...)
}

// sync brings the pods of one DaemonSet closer to what its spec says, its
// history to what it has been, and its status to what was seen. The history
// comes first: what tells a new pod from an old one is the revision.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if err != nil || seen.set == nil || seen.set.DeletionTimestamp != nil {
		return err // the pods of one that is being deleted are the garbage collector's
	}
	if at, ok := nextLook(seen); ok {
		c.loop.AddAfter(key, at.Sub(seen.now))
	}
	if seen.history, err = c.settleHistory(ctx, seen); err != nil {
		return fmt.Errorf("history of DaemonSet %s: %w", key, err)
	}
	err = c.act(ctx, seen, decide(seen.inTurn(c.shuffle), burstReplicas))
	if !c.expectations.Satisfied(seen.set) {
		c.loop.AddAfter(key, controller.ExpectationsTimeout) // nothing tells of that moment
	}
	if seen.mayAct {
		err = errors.Join(err, c.mergeDuplicates(ctx, seen), c.deleteRevisions(ctx, seen))
	}
	if err = errors.Join(err, c.updateStatus(ctx, seen)); err != nil {
		return fmt.Errorf("DaemonSet %s: %w", key, err)
	}
	return nil
}

// nextLook returns when there may be something to do though nothing will be
// notified: a ready pod becomes available, or a failed one may be replaced.
func nextLook(seen observed) (time.Time, bool) {
	var next time.Time
	sooner := func(at time.Time) {
		if at.After(seen.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	minReady := time.Duration(seen.set.Spec.MinReadySeconds) * time.Second
	for _, place := range seen.places {
		if place.pause > 0 {
			sooner(seen.now.Add(place.pause))
		}
		for _, pod := range place.pods {
			if since, ready := controller.PodReadySince(pod); ready {
				sooner(since.Add(minReady))
			}
		}
	}
	return next, !next.IsZero()
}
