package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/feature"
	cmcontroller "k8s.io/controller-manager/controller"
	cmhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
)

// startJitter spreads the starts of the controllers over up to twice
// --controller-start-interval.
const startJitter = 1.0

// StartControllers builds the controllers that are wanted, starts the
// informers that they have asked for, and runs the controllers until ctx ends
// and all of them and the informers have stopped. It fails when one cannot be
// built or when they take longer to stop than --controller-shutdown-timeout.
//
// Each controller gets a check in /healthz and, where it offers one, a handler
// under /debug/controllers/.
func StartControllers(ctx context.Context, c *ControllerContext, descriptors []*ControllerDescriptor,
	mux *mux.PathRecorderMux, health *cmhealthz.MutableHealthzHandler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	controllers, err := buildControllers(ctx, c, descriptors, mux, health)
	if err != nil {
		return err
	}
	c.InformerFactory.Start(ctx.Done())
	close(c.InformersStarted)
	return runControllers(ctx, c, controllers)
}

// buildControllers builds what is wanted, and before everything else the
// controllers that the others depend on.
func buildControllers(ctx context.Context, c *ControllerContext, descriptors []*ControllerDescriptor,
	mux *mux.PathRecorderMux, health *cmhealthz.MutableHealthzHandler) (map[string]*Controller, error) {
	controllers := map[string]*Controller{}
	var checks []healthz.HealthChecker
	for _, special := range []bool{true, false} {
		for _, d := range descriptors {
			if d.requiresSpecialHandling != special {
				continue
			}
			controller, err := StartController(ctx, c, d, mux)
			if err != nil {
				return nil, err
			}
			if controller != nil {
				controllers[d.name] = controller
				checks = append(checks, healthCheck(d.name, controller.Loop))
			}
		}
	}
	health.AddHealthChecker(checks...)
	return controllers, nil
}

// StartController builds one controller and mounts its debugging handler. It
// returns nil for a controller that is not to run: because a feature gate is
// off, because --controllers does not want it, or because it says so itself.
func StartController(ctx context.Context, c *ControllerContext, d *ControllerDescriptor, mux *mux.PathRecorderMux) (*Controller, error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "controller", d.name)
	for _, gate := range d.requiredFeatureGates {
		if !feature.DefaultFeatureGate.Enabled(gate) {
			logger.Info("Controller is disabled by a feature gate", "gate", gate)
			return nil, nil
		}
	}
	if !d.requiresSpecialHandling && !d.isEnabled(c.ComponentConfig.Generic.Controllers) {
		logger.Info("Controller is disabled by --controllers")
		return nil, nil
	}
	if d.isCloudProvider && !c.startCloud(ctx) {
		logger.Info("Skipping a cloud provider controller")
		return nil, nil
	}
	client, err := c.newClient(d)
	if err != nil {
		return nil, err
	}
	controller, err := d.constructor(klog.NewContext(ctx, klog.LoggerWithName(logger, d.name)), c, client)
	switch {
	case err != nil:
		return nil, fmt.Errorf("build %s: %w", d.name, err)
	case controller == nil:
		logger.Info("Controller has nothing to do with this configuration")
		return nil, nil
	}
	mountDebugHandler(mux, d.name, controller.Loop)
	return controller, nil
}

// mountDebugHandler serves what a loop wants to show of itself.
func mountDebugHandler(mux *mux.PathRecorderMux, name string, loop Loop) {
	debuggable, ok := loop.(cmcontroller.Debuggable)
	if !ok {
		return
	}
	path := "/debug/controllers/" + name
	handler := http.StripPrefix(path, debuggable.DebuggingHandler())
	mux.UnlistedHandle(path, handler)
	mux.UnlistedHandlePrefix(path+"/", handler)
}

// healthCheck returns the loop's own check, or one that passes: that a
// controller is listed shows at least that it was built.
func healthCheck(name string, loop Loop) healthz.HealthChecker {
	if checkable, ok := loop.(cmcontroller.HealthCheckable); ok {
		return cmhealthz.NamedHealthChecker(name, checkable.HealthChecker())
	}
	return cmhealthz.NamedPingChecker(name)
}

// runControllers runs the controllers until ctx ends and they have stopped, and
// the informers, too. Each start is delayed by one to two times
// --controller-start-interval. If something has not stopped within
// --controller-shutdown-timeout, the error is errStillRunning, with its name. A
// timeout of zero never passes.
func runControllers(ctx context.Context, c *ControllerContext, controllers map[string]*Controller) error {
	logger := klog.FromContext(ctx)
	var running runningSet
	for name, controller := range controllers {
		running.run(name, func() {
			if !pause(ctx, wait.Jitter(c.ComponentConfig.Generic.ControllerStartInterval.Duration, startJitter)) {
				return
			}
			logger.Info("Starting controller", "controller", name)
			c.Metrics.ControllerStarted(name)
			controller.Run(ctx, controller.Workers)
			c.Metrics.ControllerStopped(name)
			logger.Info("Controller has stopped", "controller", name)
		})
	}
	<-ctx.Done()
	running.run("shared informers", c.InformerFactory.Shutdown)
	if left := running.wait(c.shutdownTimeout); len(left) > 0 {
		return fmt.Errorf("after --controller-shutdown-timeout=%s: %w: %s", c.shutdownTimeout, errStillRunning, strings.Join(left, ", "))
	}
	logger.Info("All controllers have stopped")
	return nil
}

// pause waits for d and tells whether it could: false means that ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// runningSet knows which functions have not returned yet.
type runningSet struct {
	group sync.WaitGroup
	mu    sync.Mutex
	names sets.Set[string]
}

// run calls f in a goroutine of its own, and returns at once.
func (r *runningSet) run(name string, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = sets.New[string]()
	}
	r.names.Insert(name)
	r.group.Go(func() {
		f()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.names.Delete(name)
	})
}

// wait returns when all functions have returned or when timeout has passed,
// with the names of those that are left. A timeout of zero never passes.
func (r *runningSet) wait(timeout time.Duration) []string {
	all := make(chan struct{})
	go func() { r.group.Wait(); close(all) }()
	var expired <-chan time.Time
	if timeout > 0 {
		expired = time.After(timeout)
	}
	select {
	case <-all:
		return nil
	case <-expired:
		r.mu.Lock()
		defer r.mu.Unlock()
		return sets.List(r.names)
	}
}
