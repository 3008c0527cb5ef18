// Package nodeipam gives each node a range of addresses for its pods: it cuts the cluster's
// ranges into pieces, and writes one of each family into spec.podCIDRs of every node that has
// none.
//
// No two nodes get the same piece from it, whatever is late, lost or refused. One case stays
// open. The field is set once and never changes, and which pieces are in use is written nowhere
// else. So a process does not know what the one before it was still writing, and may deal that
// to another node: see how the ledger begins. It logs when two nodes have the same addresses,
// or one has addresses from elsewhere, and leaves them as they are.
package nodeipam

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// tellAgain is how often an event says that nothing is left for a node: events are kept for an
// hour. It is also the longest pause of the queue between two tries of a write. (The original tries
// at each change of the node, too, and a kubelet causes one every five minutes.)
const tellAgain = 5 * time.Minute

// Controller has its handlers set ranges aside, for one node after the other, and its workers
// write them.
type Controller struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	synced cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
	logger klog.Logger
	events record.EventRecorder

	mu     sync.Mutex
	ledger *ledger
	begun  bool
}

// New returns a controller that watches nodes with the informer, which the caller starts, and
// gives them pieces of ranges through client. It takes four bytes of memory for each piece.
func New(
	ctx context.Context, nodes coreinformers.NodeInformer, client kubernetes.Interface, ranges Ranges,
) *Controller {
	registerMetrics()
	c := &Controller{client: client, nodes: nodes.Lister(), logger: klog.FromContext(ctx), ledger: newLedger(ranges)}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "node-ipam-controller",
		QueueName:  "cidrallocator_node",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](
			5*time.Millisecond, tellAgain),
	})
	c.synced = controller.Handle(nodes.Informer(), controller.Handlers[*corev1.Node]{
		Add:          c.seen,
		Update:       c.updated,
		Delete:       c.gone,
		MustNotPanic: true, // half of a change in the ledger would stay for ever
	})
	return c
}

// Run waits until all nodes are known, and then writes to as many at a time as there are
// workers, until ctx ends and the last worker has finished. What fails is tried again, ever
// less often. That a node is gone is no failure.
func (c *Controller) Run(ctx context.Context, workers int) {
	events := controller.NewEvents(ctx, c.client, "cidrAllocator")
	defer events.Start()()
	c.events = events
	if cache.WaitForNamedCacheSyncWithContext(ctx, c.synced) {
		c.begin()
	}
	c.loop.Run(ctx, workers)
}

// begin takes over the nodes that the cache has. Until then handlers have nothing to do: of what
// the cache does not have yet, they will be told.
func (c *Controller) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes, _ := c.nodes.List(labels.Everything()) // the cache never fails
	c.ledger.begin(nodes)
	for _, node := range nodes {
		c.look(node)
	}
	c.begun = true
}

// updated passes over what most changes are, the heartbeats of kubelets.
func (c *Controller) updated(old, node *corev1.Node) {
	isGoing := old.DeletionTimestamp == nil && node.DeletionTimestamp != nil
	if isGoing || !slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs) {
		c.seen(node)
	}
}

func (c *Controller) seen(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		c.ledger.saw(node)
		c.look(node)
		c.serve()
	}
}

func (c *Controller) gone(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.gone(node)
	c.serve()
}

// serve has workers write to those who have waited, if something is free now.
func (c *Controller) serve() {
	for _, node := range c.ledger.deal() {
		c.loop.Add(cache.MetaObjectToName(node))
	}
}

// look has a worker see to a node without ranges, and says what is wrong with those of others.
func (c *Controller) look(node *corev1.Node) {
	if len(node.Spec.PodCIDRs) == 0 {
		c.loop.Add(cache.MetaObjectToName(node))
	} else if err := c.ledger.check(node); err != nil {
		c.logger.Error(err, "Node has ranges that it should not have", "node", klog.KObj(node))
	}
}

// sync writes what the ledger has set aside for a node, or says that this is nothing.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	node, err := c.nodes.Get(key.Name)
	if controller.IsGone(err) {
		return nil
	}
	if err != nil || len(node.Spec.PodCIDRs) > 0 || node.DeletionTimestamp != nil {
		return err
	}
	c.mu.Lock()
	holds, known := c.ledger.held[node.UID]
	c.mu.Unlock()
	switch {
	case !known || holds.written: // the cache, or what it tells the handlers, is behind
		return nil
	case len(holds.ranges) == 0:
		c.tell(node, "CIDRNotAvailable")
		c.loop.AddAfter(key, tellAgain)
		return nil
	}
	return c.assign(ctx, node, holds.ranges)
}
