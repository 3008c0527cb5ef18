package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func electionConfig(t *testing.T, lease string) config.CompletedConfig {
	t.Helper()
	c := &config.Config{
		Kubeconfig: clustertest.Cluster().RESTConfig(cluster.KCM),
		Client:     clustertest.ClientFor(t, cluster.KCM),
	}
	e := &c.ComponentConfig.Generic.LeaderElection
	e.LeaderElect = true
	e.ResourceLock, e.ResourceNamespace, e.ResourceName = "leases", "kube-system", lease
	e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration = 3*time.Second, 2*time.Second, 200*time.Millisecond
	completed, err := c.Complete()
	require.NoError(t, err)
	return completed
}

func leaseHolder(t *testing.T, lease string) string {
	t.Helper()
	l, err := clustertest.Client(t).CoordinationV1().Leases("kube-system").Get(t.Context(), lease, metav1.GetOptions{})
	require.NoError(t, err)
	return *l.Spec.HolderIdentity
}

func TestTheLeaseIsHeldUntilTheControllersHaveStopped(t *testing.T) {
	t.Parallel()
	c := electionConfig(t, "held")
	ctx, cancel := context.WithCancel(t.Context())
	leading, told, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- lead(ctx, c, record.NewFakeRecorder(10), leaderelection.NewLeaderHealthzAdaptor(time.Second), func(ctx context.Context) error {
			close(leading)
			<-ctx.Done()
			close(told)
			<-stop
			return nil
		})
	}()
	<-leading
	cancel()
	<-told
	assert.Equal(t, c.Identity, leaseHolder(t, "held"), "a controller is still stopping")
	close(stop)
	require.NoError(t, <-done)
	assert.Empty(t, leaseHolder(t, "held"), "all have stopped")
}

func TestAFailureOfTheControllersEndsTheLeadership(t *testing.T) {
	t.Parallel()
	c := electionConfig(t, "failed")
	err := lead(t.Context(), c, record.NewFakeRecorder(10), leaderelection.NewLeaderHealthzAdaptor(time.Second), func(context.Context) error {
		return errors.New("no key")
	})
	assert.EqualError(t, err, "no key")
	assert.Empty(t, leaseHolder(t, "failed"), "another replica may try")
}

func TestBeingToldToStopBeforeTheElectionRunsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := lead(ctx, electionConfig(t, "early"), record.NewFakeRecorder(10), leaderelection.NewLeaderHealthzAdaptor(time.Second), func(ctx context.Context) error {
		assert.Error(t, ctx.Err(), "run may be called, but not with a context that is alive")
		return nil
	})
	assert.NoError(t, err)
}
