// Package approver stands for k8s.io/kubernetes/pkg/controller/certificates/approver.
package approver

import (
	"context"

	"k8s.io/client-go/informers"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates/approver"
	"github.com/kcm-book/kcm-book/labs/upstream/shims"
)

// Controller is kcm's loop, with informers of roles and of bindings, which upstream's does without.
type Controller struct {
	loop   shims.Loop
	rights informers.SharedInformerFactory
}

// NewCSRApprovingController returns kcm's loop.
func NewCSRApprovingController(
	_ context.Context,
	client kubernetes.Interface,
	requests certificatesinformers.CertificateSigningRequestInformer,
) *Controller {
	rights := informers.NewSharedInformerFactory(client, 0)
	rbac := rights.Rbac().V1()
	return &Controller{approver.New(client, requests, rbac.ClusterRoles(), rbac.ClusterRoleBindings()), rights}
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.rights.Start(ctx.Done())
	defer c.rights.Shutdown()
	c.loop.Run(ctx, workers)
}
