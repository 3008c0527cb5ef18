// Package nodelifecycle stands for k8s.io/kubernetes/pkg/controller/nodelifecycle.
package nodelifecycle

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/util/feature"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/features"

	"github.com/kcm-book/kcm-book/kcm/controller/nodelifecycle"
	"github.com/kcm-book/kcm-book/labs/upstream/shims/tainteviction"
)

// Controller is kcm's loop with eight workers, as upstream has. Before 1.34 upstream's could have the loop that evicts
// within it; the suite emulates that.
type Controller struct {
	loop      *nodelifecycle.Controller
	evictions *tainteviction.Controller
}

// NewNodeLifecycleController returns kcm's loop. It does not ask for Leases that the cache does not show.
func NewNodeLifecycleController(
	ctx context.Context,
	leases coordinationinformers.LeaseInformer,
	pods coreinformers.PodInformer,
	nodes coreinformers.NodeInformer,
	sets appsinformers.DaemonSetInformer,
	client kubernetes.Interface,
	period, startup, grace time.Duration,
	rate, secondaryRate float32,
	largeCluster int32,
	unhealthyZone float32,
) (*Controller, error) {
	loop, err := nodelifecycle.NewNodeLifecycleController(ctx, leases, pods, nodes, sets, client,
		period, startup, grace, rate, secondaryRate, largeCluster, unhealthyZone)
	c := &Controller{loop: loop}
	if err == nil && !feature.DefaultFeatureGate.Enabled(features.SeparateTaintEvictionController) {
		c.evictions, err = tainteviction.New(ctx, client, pods, nodes, "taint-eviction-controller")
	}
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.evictions != nil {
		go c.evictions.Run(ctx)
	}
	c.loop.Run(ctx, 8)
}
