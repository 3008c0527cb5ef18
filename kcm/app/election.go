package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// lead takes part in the election, and runs run while this replica leads. It
// returns when ctx has ended and the Lease, if it was held, is released; when
// run has failed; or with an error when the Lease was lost.
//
// The election has a context of its own, which ends after run has. Were it the
// same, the Lease would be released while the controllers are still stopping,
// and two leaders could be at work for a moment.
func lead(ctx context.Context, c config.CompletedConfig, events record.EventRecorder,
	health *leaderelection.HealthzAdaptor, run func(context.Context) error) error {
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	// Being told to stop and becoming the leader may come at the same time.
	// Whichever is first keeps the other from happening. Do also waits: the
	// last one, below, for the controllers.
	var err error
	var once sync.Once
	elector, electorErr := newElector(c, events, health, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			once.Do(func() {
				defer leave()
				err = runUntil(ctx, leading, run)
			})
		},
		OnStoppedLeading: func() {},
		OnNewLeader: func(identity string) {
			klog.FromContext(ctx).Info("A leader was elected", "leader", identity, "isThisReplica", identity == c.Identity)
		},
	})
	if electorErr != nil {
		return electorErr
	}
	stop := context.AfterFunc(ctx, func() { once.Do(leave) })
	defer stop()
	elector.Run(election)
	once.Do(func() {})
	if err == nil && ctx.Err() == nil {
		err = errors.New("lost the Lease: could not renew it in time, another replica may lead now")
	}
	return err
}

// runUntil calls run with a context that ends when either of the two does.
func runUntil(ctx, leading context.Context, run func(context.Context) error) error {
	both, cancel := context.WithCancel(leading)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	return run(both)
}

// newElector prepares the election. The elector's client has a timeout of its
// own: a renewal that hangs must fail while there is still time for another.
func newElector(c config.CompletedConfig, events record.EventRecorder, health *leaderelection.HealthzAdaptor,
	callbacks leaderelection.LeaderCallbacks) (*leaderelection.LeaderElector, error) {
	e := c.ComponentConfig.Generic.LeaderElection
	lock, err := resourcelock.NewFromKubeconfig(e.ResourceLock, e.ResourceNamespace, e.ResourceName,
		resourcelock.ResourceLockConfig{Identity: c.Identity, EventRecorder: events},
		rest.AddUserAgent(c.Kubeconfig, managerName), e.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("prepare the Lease %s/%s: %w", e.ResourceNamespace, e.ResourceName, err)
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   e.LeaseDuration.Duration,
		RenewDeadline:   e.RenewDeadline.Duration,
		RetryPeriod:     e.RetryPeriod.Duration,
		WatchDog:        health,
		ReleaseOnCancel: true,
		Name:            e.ResourceName,
		Callbacks:       callbacks,
	})
}
