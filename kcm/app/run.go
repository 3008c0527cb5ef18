package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// configzName is the key of the manager's configuration in /configz.
	configzName = "kubecontrollermanager.config.k8s.io"
	// apiServerTimeout is how long the API server may take to come up when
	// both are started together.
	apiServerTimeout = 10 * time.Second
)

// Run runs the manager until ctx ends or something makes going on impossible,
// for example that another replica has become the leader.
//
// When ctx ends it stops the controllers, then releases the Lease, then closes
// the server. So a Lease that is free means that nothing is being written any
// more, and whoever asks for health gets an answer until the end.
func Run(ctx context.Context, c config.CompletedConfig) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting", "version", version.Get(), "identity", c.Identity)
	logger.Info("Golang settings", "GOGC", os.Getenv("GOGC"), "GOMAXPROCS", os.Getenv("GOMAXPROCS"), "GOTRACEBACK", os.Getenv("GOTRACEBACK"))
	if err := showConfig(&c.ComponentConfig); err != nil {
		return err
	}
	if err := waitForAPIServer(ctx, c); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before there was anything to stop
		}
		return err
	}
	events := controller.NewEvents(ctx, c.Client, config.ManagerName)
	defer events.Start()()

	electing := c.ComponentConfig.Generic.LeaderElection.LeaderElect
	health := newHealth(electing)
	mux := newMux(c, health)
	stopServing, err := serve(context.WithoutCancel(ctx), c, mux)
	if err != nil {
		return err
	}
	defer stopServing()

	run := func(ctx context.Context) error {
		controllerContext, err := CreateControllerContext(c)
		if err != nil {
			return err
		}
		health.ready.leading(controllerContext)
		return StartControllers(ctx, controllerContext, NewControllerDescriptors(), mux, health.healthz)
	}
	if !electing {
		return run(ctx)
	}
	return lead(ctx, c, events, health.election, run)
}

// showConfig makes /configz show the configuration.
func showConfig(c *config.ComponentConfig) error {
	external, err := c.External()
	if err != nil {
		return err
	}
	shown, err := configz.New(configzName)
	if err != nil {
		return fmt.Errorf("register /configz: %w", err)
	}
	return shown.Set(external)
}

// waitForAPIServer returns when the API server is healthy, and with the reason
// why not when it has had its time.
func waitForAPIServer(ctx context.Context, c config.CompletedConfig) error {
	ctx, cancel := context.WithTimeout(ctx, apiServerTimeout)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Error()
		if last == nil || ctx.Err() == nil {
			last = err // and not that the time is up, which says less
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the API server at %s has not become healthy within %s: %w", c.Kubeconfig.Host, apiServerTimeout, last)
	}
	return nil
}
