package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics/prometheus/slis"
	zpages "k8s.io/component-base/zpages/features"
	cmapp "k8s.io/controller-manager/app"
	cmconfig "k8s.io/controller-manager/config"
	cmhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/app/options"
	"github.com/kcm-book/kcm-book/kcm/trace"
)

// leaseGrace is how long after its Lease ran out a leader that has not noticed
// is reported as unhealthy.
const leaseGrace = 20 * time.Second

// closeTimeout is how long requests may take that are still being answered when
// the server is closed.
const closeTimeout = 2 * time.Second

// health is what the manager says about itself.
type health struct {
	// healthz answers for the election and for every running controller.
	healthz *cmhealthz.MutableHealthzHandler
	// election fails when this leader's Lease has run out unnoticed. It is
	// nil where there is no election.
	election *leaderelection.HealthzAdaptor
	// migration is the same for the Lease of the loops that migrate.
	migration *leaderelection.HealthzAdaptor
	// ready fails while this replica leads and has not filled its caches.
	ready cachesFilled
}

func newHealth(c *cmconfig.GenericControllerManagerConfiguration) *health {
	h := &health{}
	if c.LeaderElection.LeaderElect {
		h.election = leaderelection.NewLeaderHealthzAdaptor(leaseGrace)
	}
	if leadermigration.Enabled(c) {
		h.migration = leaderelection.NewLeaderHealthzAdaptor(leaseGrace)
	}
	h.healthz = cmhealthz.NewMutableHealthzHandler(h.live()...)
	return h
}

// live returns the checks whose failure only a restart can mend.
func (h *health) live() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{healthz.PingHealthz}
	if h.election != nil {
		checks = append(checks, h.election)
	}
	if h.migration != nil {
		checks = append(checks, cmhealthz.NamedHealthChecker("migrationLeaderElection", h.migration))
	}
	return checks
}

// cachesFilled is the readiness check for a leader. A replica that waits to
// lead is ready: it can take over at any time.
type cachesFilled struct {
	mu       sync.Mutex
	contexts []*ControllerContext
}

// leading says that this replica leads from now on, and what fills the caches.
func (f *cachesFilled) leading(c *ControllerContext) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contexts = append(f.contexts, c)
}

// Name implements [healthz.HealthChecker].
func (f *cachesFilled) Name() string { return "caches-filled" }

// Check implements [healthz.HealthChecker].
func (f *cachesFilled) Check(r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.contexts {
		select {
		case <-c.InformersStarted:
		default:
			return errors.New("the informers are not started yet")
		}
		if err := healthz.NewInformerSyncHealthz(c.InformerFactory).Check(r); err != nil {
			return err
		}
	}
	return nil
}

// newMux returns the handlers of everything that is served, before anybody
// has asked who wants to know.
func newMux(c config.CompletedConfig, h *health) *mux.PathRecorderMux {
	m := cmapp.NewBaseHandler(&c.ComponentConfig.Generic.Debugging, h.healthz)
	if c.ComponentConfig.Generic.Debugging.EnableProfiling {
		m.Unregister("/debug/flags/v") // it would let the log have tokens in it
		m.UnlistedHandle("/debug/flags/v", routes.StringFlagPutHandler(options.SetVerbosity))
	}
	m.HandlePrefix("/healthz/", h.healthz) // a single check, for example /healthz/ping
	healthz.InstallLivezHandler(m, h.live()...)
	healthz.InstallReadyzHandler(m, append(h.live(), &h.ready)...)
	slis.SLIMetricsWithReset{}.Install(m)
	m.UnlistedHandle(trace.Path, trace.Handler())
	if feature.DefaultFeatureGate.Enabled(zpages.ComponentFlagz) {
		flagz.Install(m, c.Name, c.Flags)
	}
	if feature.DefaultFeatureGate.Enabled(zpages.ComponentStatusz) {
		statusz.Install(m, c.Name, statusz.NewRegistry(c.Version, statusz.WithListedPaths(m.ListedPaths())))
	}
	return m
}

// serve has handler answer HTTPS requests until ctx ends or stop is called, if the
// API server says who asks and that they may. stop returns when the last answer is
// out, or after closeTimeout. With --secure-port=0 nothing is served. An error names
// the flag or the address that it is about.
func serve(ctx context.Context, c config.CompletedConfig, handler http.Handler) (stop func(), err error) {
	if c.SecureServing == nil {
		return func() {}, nil
	}
	var authentication server.AuthenticationInfo
	if err := c.Authentication.ApplyTo(&authentication, c.SecureServing, nil); err != nil {
		return nil, fmt.Errorf("set up authentication, see --authentication-kubeconfig: %w", err)
	}
	var authorization server.AuthorizationInfo
	if err := c.Authorization.ApplyTo(&authorization); err != nil {
		return nil, fmt.Errorf("set up authorization, see --authorization-kubeconfig: %w", err)
	}
	authorization.Authorizer = refuseUnasked(authorization.Authorizer)
	ctx, cancel := context.WithCancel(ctx)
	chain := cmapp.BuildHandlerChain(handler, &authorization, &authentication)
	stopped, _, err := c.SecureServing.Serve(chain, closeTimeout, ctx.Done())
	if err != nil {
		cancel()
		return nil, fmt.Errorf("serve on %s: %w", c.SecureServing.Listener.Addr(), err)
	}
	return func() { cancel(); <-stopped }, nil
}

// refuseUnasked says no where the authorizer cannot ask: not to know is no yes.
// The library would answer that as an error of the server, with 500.
func refuseUnasked(asks authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		decision, reason, err := asks.Authorize(ctx, a)
		if err == nil || decision == authorizer.DecisionAllow {
			return decision, reason, err
		}
		klog.FromContext(ctx).V(2).Info("Refusing a request, because nobody can be asked about it",
			"user", a.GetUser().GetName(), "path", a.GetPath(), "err", err)
		return authorizer.DecisionDeny, "the API server, which decides that, cannot be asked", nil
	})
}
