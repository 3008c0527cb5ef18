package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	cpconfig "k8s.io/cloud-provider/config/v1alpha1"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/version"
	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// configzName is the key of the manager's configuration in /configz.
	configzName = "kubecontrollermanager.config.k8s.io"
	// apiServerTimeout is how long the API server may take to say how it is.
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
	logControllersElsewhere(ctx, c)
	if err := showConfig(c); err != nil {
		return err
	}
	if looksUp(c) && !waitForAPIServer(ctx, c) {
		return nil // told to stop before there was anything to stop
	}
	events := controller.NewEvents(ctx, c.Client, c.Name)
	defer events.Start()()

	generic := &c.ComponentConfig.Generic
	health := newHealth(generic)
	mux := newMux(c, health)
	stopServing, err := serve(context.WithoutCancel(ctx), c, mux)
	if err != nil {
		return err
	}
	defer stopServing()

	run := func(ctx context.Context, c config.CompletedConfig, descriptors []*ControllerDescriptor, started chan struct{}) error {
		if !waitForAPIServer(ctx, c) {
			return nil // told to stop, or no longer the leader
		}
		controllerContext, err := CreateControllerContext(c)
		if err != nil {
			return err
		}
		controllerContext.InformersStarted = started
		health.ready.leading(controllerContext)
		return StartControllers(ctx, controllerContext, descriptors, mux, health.healthz)
	}
	descriptors := descriptorsOf(c.Name)
	runAll := func(ctx context.Context) error {
		return run(ctx, c, descriptors, make(chan struct{}))
	}
	switch {
	case !generic.LeaderElection.LeaderElect:
		return runAll(ctx)
	case leadermigration.Enabled(generic):
		return leadAndMigrate(ctx, c, descriptors, events, health, run)
	default:
		return lead(ctx, c, events, health.election, runAll)
	}
}

// showConfig makes /configz show the configuration. That of a cloud's manager has
// a name and a kind of its own.
func showConfig(c config.CompletedConfig) error {
	external, err := c.ComponentConfig.External()
	if err != nil {
		return err
	}
	name, object := configzName, runtime.Object(external)
	if c.Name == config.CloudManagerName {
		name, object = cpconfig.GroupName, ofCloud(external)
	}
	shown, err := configz.New(name)
	if err != nil {
		return fmt.Errorf("register /configz: %w", err)
	}
	return shown.Set(object)
}

// looksUp tells whether serving takes an answer from the API server first: where
// no flag says by which CA to recognise what it passes on.
func looksUp(c config.CompletedConfig) bool {
	a := c.Authentication
	return c.SecureServing != nil && a.RequestHeader.ClientCAFile == "" && !a.SkipInClusterLookup && !a.TolerateInClusterLookupFailure
}

// waitForAPIServer returns true as soon as the API server is healthy, however
// long that takes, or false when ctx has ended before. It asks at once and then
// every second, or as soon as an answer is in that has taken longer. It logs why
// it waits whenever that is not what it logged last.
func waitForAPIServer(ctx context.Context, c config.CompletedConfig) bool {
	var last string
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Client.Discovery().RESTClient().Get().AbsPath("/healthz").Timeout(apiServerTimeout).Do(ctx).Error()
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			klog.FromContext(ctx).Info("Waiting for the API server", "server", c.Kubeconfig.Host, "err", err)
		}
		return err == nil, nil
	})
	return err == nil
}
