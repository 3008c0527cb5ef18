// Package cleaner stands for k8s.io/kubernetes/pkg/controller/certificates/cleaner.
package cleaner

import (
	"time"

	certificatesinformers "k8s.io/client-go/informers/certificates/v1beta1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates/cleaner"
	"github.com/kcm-book/kcm-book/labs/upstream/shims"
)

// PCRCleanerController is kcm's loop.
type PCRCleanerController struct{ shims.Loop }

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
