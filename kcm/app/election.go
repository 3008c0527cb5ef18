package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// errStillRunning, wrapped in what a leader's run returns, says that not
// everything that it has started has stopped.
var errStillRunning = errors.New("still running")

// errLost ends a leader that was cut off.
var errLost = errors.New("lost the Lease: could not renew it in time, another replica may lead now")

// lead takes part in the election, and runs run while this replica leads. It
// returns when ctx has ended, when run has failed, or with an error when the
// Lease was lost. In the first two cases it releases the Lease, unless something
// is still running that might write. In the last it waits for run no longer
// than until another replica may lead.
//
// The election has a context of its own, which ends after run has. Were it the
// same, the Lease would be up for grabs while the controllers are still
// stopping, and two leaders could be at work for a moment.
func lead(ctx context.Context, c config.CompletedConfig, events record.EventRecorder,
	health *leaderelection.HealthzAdaptor, run func(context.Context) error) error {
	lock, err := newLock(c, events)
	if err != nil {
		return err
	}
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	// Being told to stop and becoming the leader may come at the same time.
	// Whichever is first keeps the other from happening. Do also waits: the
	// last one, below, for the controllers. Where that is the first, the Lease
	// was lost before anything had begun.
	var once sync.Once
	var failure error
	lost := false
	elector, err := newElector(c, lock, func(leading context.Context) {
		once.Do(func() {
			defer leave()
			failure = runUntil(ctx, leading, run)
			lost = leading.Err() != nil && ctx.Err() == nil
		})
	})
	if err != nil {
		return err
	}
	health.SetLeaderElection(elector)
	stop := context.AfterFunc(ctx, func() { once.Do(leave) })
	defer stop()
	elector.Run(election)
	ended := make(chan struct{})
	go func() { once.Do(func() { lost = true }); close(ended) }()
	select {
	case <-ended:
	case <-time.After(restOfLease(c)):
		return errors.Join(errStillRunning, errLost)
	}
	switch {
	case lost:
		return errors.Join(failure, errLost)
	case !errors.Is(failure, errStillRunning):
		if err := release(election, c, lock); err != nil {
			klog.FromContext(ctx).Error(err, "The Lease stays taken until it runs out")
		}
	}
	return failure
}

// restOfLease is for how long a Lease that was just lost still keeps the others
// out: the last renewal came a retry period and a renew deadline ago.
func restOfLease(c config.CompletedConfig) time.Duration {
	e := c.ComponentConfig.Generic.LeaderElection
	return e.LeaseDuration.Duration - e.RetryPeriod.Duration - e.RenewDeadline.Duration
}

// runUntil calls run with a context that ends when either of the two does,
// unless the first has ended already.
func runUntil(ctx, leading context.Context, run func(context.Context) error) error {
	if ctx.Err() != nil {
		return nil
	}
	both, cancel := context.WithCancel(leading)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	return run(both)
}

// newLock returns the Lease. Its client has a timeout of its own: a renewal
// that hangs must fail while there is still time for another.
func newLock(c config.CompletedConfig, events record.EventRecorder) (resourcelock.Interface, error) {
	e := c.ComponentConfig.Generic.LeaderElection
	lock, err := resourcelock.NewFromKubeconfig(e.ResourceLock, e.ResourceNamespace, e.ResourceName,
		resourcelock.ResourceLockConfig{Identity: c.Identity, EventRecorder: events},
		c.Kubeconfig, e.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("prepare the Lease %s/%s: %w", e.ResourceNamespace, e.ResourceName, err)
	}
	return lock, nil
}

func newElector(c config.CompletedConfig, lock resourcelock.Interface, startedLeading func(context.Context)) (*leaderelection.LeaderElector, error) {
	e := c.ComponentConfig.Generic.LeaderElection
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: e.LeaseDuration.Duration,
		RenewDeadline: e.RenewDeadline.Duration,
		RetryPeriod:   e.RetryPeriod.Duration,
		Name:          e.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: startedLeading,
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				klog.Background().Info("A leader was elected", "leader", identity, "isThisReplica", identity == c.Identity)
			},
		},
	})
}

// release gives the Lease up, if this replica holds it, so that nobody has to
// wait until it runs out.
//
// The elector could do that itself. But it releases also when it has failed to
// renew, before the controllers know of it, and without another look at whose
// the Lease has become in the meantime.
func release(ctx context.Context, c config.CompletedConfig, lock resourcelock.Interface) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ComponentConfig.Generic.LeaderElection.RenewDeadline.Duration)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) || (err == nil && held.HolderIdentity != c.Identity) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s to release it: %w", lock.Describe(), err)
	}
	now := metav1.Now()
	free := resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, // the API takes no less
		LeaderTransitions:    held.LeaderTransitions,
		AcquireTime:          now,
		RenewTime:            now,
	}
	// The API server refuses this if the Lease has changed since it was read.
	if err := lock.Update(ctx, free); err != nil {
		return fmt.Errorf("release %s: %w", lock.Describe(), err)
	}
	klog.FromContext(ctx).Info("Released the Lease", "lock", lock.Describe())
	return nil
}
