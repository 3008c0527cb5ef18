package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
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
	cmhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/app/options"
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
	// ready fails while this replica leads and has not filled its caches.
	ready cachesFilled
}

func newHealth(electing bool) *health {
	h := &health{}
	if electing {
		h.election = leaderelection.NewLeaderHealthzAdaptor(leaseGrace)
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
	return checks
}

// cachesFilled is the readiness check for a leader. A replica that waits to
// lead is ready: it can take over at any time.
type cachesFilled struct {
	leader atomic.Pointer[ControllerContext]
}

// leading says that this replica leads from now on.
func (f *cachesFilled) leading(c *ControllerContext) { f.leader.Store(c) }

// Name implements [healthz.HealthChecker].
func (f *cachesFilled) Name() string { return "caches-filled" }

// Check implements [healthz.HealthChecker].
func (f *cachesFilled) Check(r *http.Request) error {
	c := f.leader.Load()
	if c == nil {
		return nil
	}
	select {
	case <-c.InformersStarted:
		return healthz.NewInformerSyncHealthz(c.InformerFactory).Check(r)
	default:
		return errors.New("the informers are not started yet")
	}
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
	if feature.DefaultFeatureGate.Enabled(zpages.ComponentFlagz) {
		flagz.Install(m, config.ManagerName, c.Flags)
	}
	if feature.DefaultFeatureGate.Enabled(zpages.ComponentStatusz) {
		statusz.Install(m, config.ManagerName, statusz.NewRegistry(c.Version, statusz.WithListedPaths(m.ListedPaths())))
	}
	return m
}

// serve has handler answer HTTPS requests until stop is called, if the API server
// says who asks and that they may. stop returns when the last answer is out, or
// after closeTimeout. With --secure-port=0 nothing is served. An error names the
// flag or the address that it is about.
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
