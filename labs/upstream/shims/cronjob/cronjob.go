// Package cronjob stands for k8s.io/kubernetes/pkg/controller/cronjob.
package cronjob

import (
	"context"

	batchinformers "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/cronjob"
)

// ControllerV2 is kcm's.
type ControllerV2 = cronjob.Controller

// NewControllerV2 returns kcm's loop.
func NewControllerV2(
	ctx context.Context,
	jobs batchinformers.JobInformer,
	cronJobs batchinformers.CronJobInformer,
	client kubernetes.Interface,
) (*ControllerV2, error) {
	return cronjob.NewController(ctx, jobs, cronJobs, client), nil
}
