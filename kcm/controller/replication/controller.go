package replication

import (
	"context"
	"fmt"
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/trace"
)

// BurstReplicas is how many pods one sync creates or deletes at most. The rest
// follows when these have been observed.
const BurstReplicas = 500

// Feature gates of Kubernetes that change what the loops do.
const (
	// podDeletionCost lets users say which pods of a ReplicaSet are to go first
	// (https://kep.k8s.io/2255).
	podDeletionCost featuregate.Feature = "PodDeletionCost"
	// staleControllerConsistencyReplicaSet keeps a ReplicaSet from being synced
	// before its own last write is in the cache (https://kep.k8s.io/5647).
	staleControllerConsistencyReplicaSet featuregate.Feature = "StaleControllerConsistencyReplicaSet"
)

// Reads is what the loop reads of pods.
var Reads = []*controller.Keep{controller.PodState}

// Controller keeps the number of pods that the objects of one kind ask for.
type Controller struct {
	kind
	loop   *controller.Loop[cache.ObjectName]
	events *controller.Events
	clock  clock.PassiveClock

	sets       store
	setWrites  controller.GatedOwnWrites
	podIndex   controller.OwnerIndex[*corev1.Pod]
	podControl controller.PodControl
	podWrites  controller.GatedOwnWrites

	expectations  *controller.Expectations
	burstReplicas int
	synced        []cache.InformerSynced
}

// kind is what the two kinds differ in, apart from how they are read and
// written.
type kind struct {
	schema.GroupVersionKind
	// loop, queue and component are the names under which the loop is known in
	// flags, logs and metrics, in the queue's metrics and in its events.
	loop, queue, component string
	// resource is what the API server calls them.
	resource string
	// countsTerminating says that the status has terminatingReplicas.
	countsTerminating bool
}

// NewReplicaSetController returns the loop for ReplicaSets. It creates and
// deletes at most burstReplicas pods in one sync.
func NewReplicaSetController(
	ctx context.Context,
	rsInformer appsinformers.ReplicaSetInformer,
	podInformer coreinformers.PodInformer,
	client kubernetes.Interface,
	burstReplicas int,
) *Controller {
	c := newController(ctx, kind{
		GroupVersionKind:  appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		loop:              "replicaset-controller",
		queue:             "replicaset",
		component:         "replicaset-controller",
		resource:          "replicasets",
		countsTerminating: true,
	}, podInformer, client, burstReplicas)
	c.sets = replicaSets{
		lister: rsInformer.Lister(),
		index:  controller.NewOwnerIndex[*appsv1.ReplicaSet](rsInformer.Informer()),
		client: client.AppsV1(),
	}
	watchSets[*appsv1.ReplicaSet](c, rsInformer.Informer())
	c.watchPods(podInformer.Informer())
	return c
}

// NewReplicationManager returns the loop for ReplicationControllers. It
// creates and deletes at most burstReplicas pods in one sync.
func NewReplicationManager(
	ctx context.Context,
	podInformer coreinformers.PodInformer,
	rcInformer coreinformers.ReplicationControllerInformer,
	client kubernetes.Interface,
	burstReplicas int,
) *Controller {
	c := newController(ctx, kind{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		loop:             "replicationcontroller-controller",
		queue:            "replicationmanager",
		component:        "replication-controller",
		resource:         "replicationcontrollers",
	}, podInformer, client, burstReplicas)
	c.sets = replicationControllers{
		lister: rcInformer.Lister(),
		index:  controller.NewOwnerIndex[*corev1.ReplicationController](rcInformer.Informer()),
		client: client.CoreV1(),
	}
	watchSets[*corev1.ReplicationController](c, rcInformer.Informer())
	c.watchPods(podInformer.Informer())
	return c
}

// newOwnWrites returns what watches the cache of one resource.
func newOwnWrites(resource schema.GroupResource, cached controller.CachedVersion) controller.GatedOwnWrites {
	skips := staleSyncSkips.WithLabelValues(resource.Group, resource.Resource)
	return controller.NewGatedOwnWrites(staleControllerConsistencyReplicaSet, cached, skips)
}

// newController returns a loop that watches nothing yet.
func newController(
	ctx context.Context,
	kind kind,
	podInformer coreinformers.PodInformer,
	client kubernetes.Interface,
	burstReplicas int,
) *Controller {
	registerMetrics()
	events := controller.NewEvents(ctx, client, kind.component)
	c := &Controller{
		kind:          kind,
		events:        events,
		clock:         clock.RealClock{},
		podIndex:      controller.NewOwnerIndex[*corev1.Pod](podInformer.Informer()),
		podControl:    controller.NewPodControl(client, events),
		podWrites:     newOwnWrites(corev1.Resource("pods"), podInformer.Informer().GetStore()),
		expectations:  controller.NewExpectations(clock.RealClock{}),
		burstReplicas: burstReplicas,
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       kind.loop,
		QueueName:  kind.queue,
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	return c
}

// Run syncs sets with as many workers at a time as it is told. It returns when
// ctx has ended and the workers have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	c.loop.Run(ctx, workers, c.synced...)
}

// sync brings the number of pods of one set closer to what its spec says, and
// its status to what was seen. A set whose pods could not be created or
// deleted has its status written all the same: that is where the user reads
// why.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if err != nil || seen.set == nil {
		return err
	}
	trace.Sees(ctx, func() []slog.Attr { return c.facts(seen) })
	// Also when something fails: the next try may be later than that.
	if at, ok := nextAvailable(seen); ok {
		c.loop.AddAfter(key, at.Sub(c.clock.Now()))
	}
	plan := c.holdBack(seen, decide(seen, c.burstReplicas))
	trace.Decides(ctx, plan.facts)
	failure := c.act(ctx, seen, plan)
	if !c.expectations.Satisfied(seen.set) {
		c.loop.AddAfter(key, controller.ExpectationsTimeout) // nothing tells of that moment
	}
	if err := c.updateStatus(ctx, seen.set, decideStatus(seen, failure)); err != nil {
		return err
	}
	if failure != nil {
		return fmt.Errorf("replicas of %s %s: %w", c.Kind, key, failure)
	}
	return nil
}
