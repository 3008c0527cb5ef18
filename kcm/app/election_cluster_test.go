package app

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func electionConfig(t *testing.T, lease string) config.CompletedConfig {
	t.Helper()
	c := &config.Config{
		Kubeconfig: clustertest.Cluster(t).RESTConfig(cluster.KCM),
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
	health := leaderelection.NewLeaderHealthzAdaptor(-time.Hour) // so that every leader is late
	leading, told, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- lead(ctx, c, record.NewFakeRecorder(10), health, func(ctx context.Context) error {
			close(leading)
			<-ctx.Done()
			close(told)
			<-stop
			return nil
		})
	}()
	<-leading
	assert.Error(t, health.Check(nil), "the check knows of the election")
	cancel()
	<-told
	assert.Equal(t, c.Identity, leaseHolder(t, "held"), "a controller is still stopping")
	close(stop)
	require.NoError(t, <-done)
	assert.Empty(t, leaseHolder(t, "held"), "all have stopped")
}

func TestALeaderThatCannotRenewStopsInTimeAndLeavesTheLeaseAlone(t *testing.T) {
	t.Parallel()
	c := electionConfig(t, "cut-off")
	proxy := newProxy(t, c.Kubeconfig)
	stopped := make(chan time.Time, 1)
	leading := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- lead(t.Context(), c, record.NewFakeRecorder(10), leaderelection.NewLeaderHealthzAdaptor(time.Second), func(ctx context.Context) error {
			close(leading)
			<-ctx.Done()
			stopped <- time.Now()
			return nil
		})
	}()
	<-leading
	cut := time.Now()
	proxy.freeze()
	// Whoever takes over may do so when the Lease has run out, no sooner.
	assert.Less(t, (<-stopped).Sub(cut), 3*time.Second, "the controllers have stopped before the Lease ran out")
	other := electionConfig(t, "cut-off")
	otherLeads, otherStop := make(chan struct{}), make(chan struct{})
	otherDone := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		otherDone <- lead(ctx, other, record.NewFakeRecorder(10), leaderelection.NewLeaderHealthzAdaptor(time.Second), func(ctx context.Context) error {
			close(otherLeads)
			<-otherStop
			return nil
		})
	}()
	<-otherLeads
	proxy.thaw()
	assert.ErrorContains(t, <-done, "lost the Lease")
	assert.Equal(t, other.Identity, leaseHolder(t, "cut-off"))
	cancel()
	close(otherStop)
	require.NoError(t, <-otherDone)
}

func TestALeaderThatLostTheLeaseDoesNotWaitForWhatHangs(t *testing.T) {
	t.Parallel()
	c := electionConfig(t, "hangs")
	proxy := newProxy(t, c.Kubeconfig)
	leading, hang := make(chan struct{}), make(chan struct{})
	defer close(hang)
	done := make(chan error, 1)
	go func() {
		done <- lead(t.Context(), c, record.NewFakeRecorder(10), leaderelection.NewLeaderHealthzAdaptor(time.Second), func(context.Context) error {
			close(leading)
			<-hang
			return nil
		})
	}()
	<-leading
	proxy.freeze()
	defer proxy.thaw()
	select {
	case err := <-done:
		require.ErrorIs(t, err, errLost)
		assert.ErrorIs(t, err, errStillRunning)
	case <-time.After(30 * time.Second):
		require.Fail(t, "it still waits")
	}
}

// proxy passes connections on to the API server until it is frozen.
type proxy struct {
	mu     sync.RWMutex
	frozen chan struct{}
}

// newProxy puts a proxy between the client and its API server.
func newProxy(t *testing.T, config *rest.Config) *proxy {
	t.Helper()
	server, err := url.Parse(config.Host)
	require.NoError(t, err)
	p := &proxy{frozen: make(chan struct{})}
	close(p.frozen)
	dial := (&net.Dialer{}).DialContext
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := dial(ctx, network, server.Host)
		return &proxied{Conn: conn, proxy: p}, err
	}
	return p
}

func (p *proxy) freeze() { p.mu.Lock(); defer p.mu.Unlock(); p.frozen = make(chan struct{}) }

func (p *proxy) thaw() { p.mu.RLock(); defer p.mu.RUnlock(); close(p.frozen) }

// proxied is a connection that stands still while the proxy is frozen.
type proxied struct {
	net.Conn
	proxy *proxy
}

func (c *proxied) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.proxy.mu.RLock()
	frozen := c.proxy.frozen
	c.proxy.mu.RUnlock()
	<-frozen
	return n, err
}
