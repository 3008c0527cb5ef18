// Package deployment stands for k8s.io/kubernetes/pkg/controller/deployment.
package deployment

import (
	"context"

	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/deployment"
)

// DeploymentController is kcm's.
type DeploymentController = deployment.Controller

// NewDeploymentController returns kcm's loop.
func NewDeploymentController(
	ctx context.Context,
	deployments appsinformers.DeploymentInformer,
	sets appsinformers.ReplicaSetInformer,
	pods coreinformers.PodInformer,
	client kubernetes.Interface,
) (*DeploymentController, error) {
	return deployment.NewDeploymentController(ctx, deployments, sets, pods, client), nil
}
