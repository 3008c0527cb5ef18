// Package tainteviction stands for k8s.io/kubernetes/pkg/controller/tainteviction.
package tainteviction

import (
	"context"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/tainteviction"
)

// Controller is kcm's loop with eight workers, as upstream has.
type Controller struct{ loop *tainteviction.Controller }

// New returns kcm's loop.
func New(
	ctx context.Context, client kubernetes.Interface, pods coreinformers.PodInformer, nodes coreinformers.NodeInformer,
	name string,
) (*Controller, error) {
	loop, err := tainteviction.New(ctx, client, pods, nodes, name)
	return &Controller{loop}, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) { c.loop.Run(ctx, 8) }
