package app

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cbconfig "k8s.io/component-base/config"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// Lead runs run while this process holds a Lease, for programs with loops of
// their own. What holds for kcm holds for them: run's context ends when ctx
// does or when the Lease is lost, and the Lease is released only after run has
// returned. The durations are Kubernetes' defaults. The error is run's, or
// says that the Lease was lost.
func Lead(ctx context.Context, kubeconfig *rest.Config, namespace, lease string, run func(context.Context) error) error {
	c := &config.Config{Kubeconfig: kubeconfig}
	c.ComponentConfig.Generic.LeaderElection = cbconfig.LeaderElectionConfiguration{
		ResourceLock:      resourcelock.LeasesResourceLock,
		ResourceNamespace: namespace,
		ResourceName:      lease,
		LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
		RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
		RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
	}
	completed, err := c.Complete()
	if err != nil {
		return err
	}
	return lead(ctx, completed, nil, leaderelection.NewLeaderHealthzAdaptor(0), run)
}
