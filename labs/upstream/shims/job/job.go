// Package job stands for k8s.io/kubernetes/pkg/controller/job.
package job

import (
	"context"

	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/job"
)

// Controller is kcm's.
type Controller = job.Controller

// NewController returns kcm's loop. It creates no PodGroups, so it needs none of their informers.
func NewController(
	ctx context.Context,
	client kubernetes.Interface,
	pods coreinformers.PodInformer,
	jobs batchinformers.JobInformer,
	_, _ any,
) (*Controller, error) {
	return job.NewController(ctx, client, pods, jobs), nil
}
