package nodelifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop reads of pods and nodes.
var Reads = []*controller.Keep{controller.PodState, controller.NodeConditions}

// Controller keeps conditions and taints of nodes, and what is said of the pods of silent ones.
type Controller struct {
	client   kubernetes.Interface
	live     coordinationclient.LeaseInterface
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	loop     *controller.Loop[cache.ObjectName] // of nodes
	podLoop  *controller.Loop[cache.ObjectName]
	events   *controller.Events
	synced   []cache.InformerSynced
	patience patience
	zones    *zones

	heard  sync.Map // when a heartbeat of each node came in last, by name
	lease  newest
	told   *controller.OwnWrites // of Leases: which have not come in yet
	marked sync.Map              // the UIDs of pods that were said to be not ready, by name
}

// NewNodeLifecycleController returns the loop, which watches Leases, pods and nodes with the
// informers, which the caller starts, and writes through client. It has no use for DaemonSets.
//
// A node is silent when it has not been heard for grace, or, if its kubelet has not said yet how it
// is, when it has neither been created nor heard for startup, but not sooner than period. Of each zone
// rate nodes a second are evicted; none if more than the share of unhealthyZone is not ready, or
// secondaryRate if it has more than largeCluster nodes.
func NewNodeLifecycleController(
	ctx context.Context,
	leaseInformer coordinationinformers.LeaseInformer,
	podInformer coreinformers.PodInformer,
	nodeInformer coreinformers.NodeInformer,
	_ appsinformers.DaemonSetInformer,
	client kubernetes.Interface,
	period, startup, grace time.Duration,
	rate, secondaryRate float32,
	largeCluster int32,
	unhealthyZone float32,
) (*Controller, error) {
	registerMetrics()
	c := &Controller{
		client:   client,
		pods:     podInformer.Lister(),
		nodes:    nodeInformer.Lister(),
		events:   controller.NewEvents(ctx, client, "node-controller"),
		patience: patience{grace: max(grace, period), startup: max(startup, period)},
		zones:    newZones(rates{rate, secondaryRate, int(largeCluster), unhealthyZone}),
	}
	c.told = controller.NewOwnWrites(&c.lease)
	c.newLoops(period)
	c.watchLeases(leaseInformer.Informer())
	c.watchNodes(nodeInformer.Informer(), controller.PodsOn(podInformer.Informer()))
	c.watchPods(podInformer.Informer())
	return c, nil
}

// newLoops gives the controller its loops. What fails of a node is tried again after a period at the
// latest: an API server that was away for an hour may have a node to hear of that has died meanwhile.
func (c *Controller) newLoops(period time.Duration) {
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "node-lifecycle-controller",
		QueueName:  "node_lifecycle_controller",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](
			5*time.Millisecond, max(period, time.Second)),
	})
	c.podLoop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "node-lifecycle-controller-pods",
		QueueName:  "node_lifecycle_controller_pods",
		Sync:       c.syncPod,
		MaxRetries: controller.RetryForever,
	})
}

// Confirm has the loop look at the Lease of a node before it calls the node silent: the cache may be
// behind. It is not the constructor's, as the account of the loop may not read Leases. Call it before
// Run, with those of the namespace kube-node-lease.
func (c *Controller) Confirm(live coordinationclient.LeaseInterface) { c.live = live }

// Run works on so many nodes, and as many pods, at a time, until ctx ends and the last worker has
// finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.podLoop.Run(ctx, workers, c.synced...) })
	c.loop.Run(ctx, workers, c.synced...)
}

// sync brings one node closer to what is known of it. A write is followed by the next sync when the
// cache shows it. That nobody can tell whether the node is silent keeps no taint from it. However late
// a watch is, the node is looked at again within a grace period.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if seen.node == nil {
		return nil
	}
	err = errors.Join(err, c.act(ctx, seen.node, decide(seen)))
	if errors.Is(err, controller.ErrStaleCache) {
		c.loop.AddAfter(key, max(c.patience.grace, time.Second))
	}
	return err
}

// observe returns what is known of a node, without one if it is gone. With an error the node may be
// silent, and is not taken for it.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (situation, error) {
	node, _ := c.nodes.Get(key.Name) // nil if the cache has none
	if node == nil {
		return situation{}, nil
	}
	silent, err := c.isSilent(ctx, node)
	turn, next, wait := c.zones.turn(key.Name, time.Now())
	if next != "" {
		c.loop.AddAfter(cache.ObjectName{Name: next}, wait)
	}
	return situation{node: node, silent: silent, turn: turn, now: metav1.Now()}, err
}
