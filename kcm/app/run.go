package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/version"
	cmapp "k8s.io/controller-manager/app"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// managerName is what the manager calls itself towards the API server.
	// It is the original's name, so that what looks for that finds kcm.
	managerName = "kube-controller-manager"
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
	if err := waitForAPIServer(c); err != nil {
		return err
	}
	events := controller.NewEvents(ctx, c.Client, managerName)
	defer events.Start()()

	electing := c.ComponentConfig.Generic.LeaderElection.LeaderElect
	health := newHealth(electing)
	mux := newMux(&c.ComponentConfig, health)
	stopServing, err := serve(context.WithoutCancel(ctx), c, mux)
	if err != nil {
		return err
	}
	defer stopServing()

	run := func(ctx context.Context) error {
		controllerContext, err := CreateControllerContext(ctx, c)
		if err != nil {
			return err
		}
		informers := healthz.NewInformerSyncHealthz(controllerContext.InformerFactory)
		health.ready.informers.Store(&informers)
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

func waitForAPIServer(c config.CompletedConfig) error {
	if err := cmapp.WaitForAPIServer(c.Client, apiServerTimeout); err != nil {
		return fmt.Errorf("the API server at %s has not become healthy within %s: %w", c.Kubeconfig.Host, apiServerTimeout, err)
	}
	return nil
}
