//go:build upstream

// Package job stands for k8s.io/kubernetes/pkg/controller/job.
package job

import (
	"context"
	"time"

	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/job"
)

// What the suite sets before it starts a loop, with upstream's values otherwise.
var (
	DefaultJobPodFailureBackOff = 10 * time.Second
	MaxJobPodFailureBackOff     = 10 * time.Minute
	SyncJobBatchPeriod          = time.Second
	MaxUncountedPods            = 500
	MaxPodCreateDeletePerSync   = 500
)

// Controller is kcm's.
type Controller = job.Controller

// NewController returns kcm's loop, with what the suite has set. kcm has one limit where upstream has two. It creates
// no PodGroups, so it needs none of their informers.
func NewController(
	ctx context.Context,
	client kubernetes.Interface,
	pods coreinformers.PodInformer,
	jobs batchinformers.JobInformer,
	_, _ any,
) (*Controller, error) {
	most := min(MaxUncountedPods, MaxPodCreateDeletePerSync)
	job.SetLimits(DefaultJobPodFailureBackOff, MaxJobPodFailureBackOff, SyncJobBatchPeriod, most)
	return job.NewController(ctx, client, pods, jobs), nil
}
