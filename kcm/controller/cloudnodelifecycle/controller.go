// Package cloudnodelifecycle has the nodes of a cluster follow the machines of
// its cloud: a node whose machine is gone is deleted, and one whose machine is
// shut down gets a taint, until it is back.
package cloudnodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// name is that of the loop, and of the source of its events.
const name = "cloud-node-lifecycle-controller"

// Reads is what the loop, and a cloud to which it shows a node, read of nodes.
var Reads = []*controller.Keep{
	controller.NodeConditions,
	controller.KeepOf(func(kept, whole *corev1.Node) { kept.Status.Addresses = whole.Status.Addresses }),
}

// Controller asks the cloud again and again about the nodes that are not Ready.
type Controller struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	synced cache.InformerSynced
	cloud  machines
	period time.Duration
	events record.EventRecorder
}

// New returns a controller that looks at the nodes of the informer, which the
// caller starts, as often as period says, and writes through client. It fails
// where the cloud knows no instances.
func New(nodeInformer coreinformers.NodeInformer, client kubernetes.Interface, cloud cloudprovider.Interface, period time.Duration) (*Controller, error) {
	machines := machinesOf(cloud)
	if machines == nil {
		return nil, errors.New("the cloud knows no instances")
	}
	return &Controller{
		client: client,
		nodes:  nodeInformer.Lister(),
		synced: nodeInformer.Informer().HasSynced,
		cloud:  machines,
		period: period,
	}, nil
}

// Run waits until the informer has synced. Then it makes a round at once, and
// another one when period has passed since the last has ended. It asks about as
// many nodes at the same time as it has workers. What fails is left to the next
// round, and keeps nothing else from being done. When ctx ends it returns, with
// nothing of it left running.
func (c *Controller) Run(ctx context.Context, workers int) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("controller", name))
	events := controller.NewEvents(ctx, c.client, name)
	defer events.Start()()
	c.events = events
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced) {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) { c.round(ctx, workers) }, c.period)
}

// round looks at each node once.
func (c *Controller) round(ctx context.Context, workers int) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot list nodes")
		return
	}
	var looking errgroup.Group
	looking.SetLimit(workers)
	for _, node := range nodes {
		looking.Go(controller.Recovered(ctx, func() error {
			if ctx.Err() != nil {
				return nil
			}
			if err := c.sync(ctx, node); err != nil {
				utilruntime.HandleErrorWithContext(ctx, err, "Cannot have the node follow its machine", "node", klog.KObj(node))
			}
			return nil
		}, "node", klog.KObj(node)))
	}
	_ = looking.Wait() // each failure was told where it happened
}

// sync makes a node follow its machine.
func (c *Controller) sync(ctx context.Context, node *corev1.Node) error {
	machine, err := c.observe(ctx, node)
	if err != nil {
		return err
	}
	return c.act(ctx, node, decide(node, machine))
}

// observe returns what the cloud says of the machine of a node, as far as that is
// needed and known. The error says which question about which node has no answer.
func (c *Controller) observe(ctx context.Context, node *corev1.Node) (machine, error) {
	if controller.IsNodeReady(node) {
		return unknown, nil
	}
	exists, err := c.cloud.InstanceExists(ctx, node)
	if err != nil {
		return unknown, fmt.Errorf("ask the cloud whether there is the machine of node %s: %w", node.Name, err)
	}
	if !exists {
		return gone, nil
	}
	shut, err := c.cloud.InstanceShutdown(ctx, node)
	if err != nil {
		return unknown, fmt.Errorf("ask the cloud whether the machine of node %s is shut down: %w", node.Name, err)
	}
	if shut {
		return shutDown, nil
	}
	return running, nil
}
