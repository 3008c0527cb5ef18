package app

import (
	"context"
	"errors"
	"fmt"
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
// returns when ctx has ended, when run has failed, or with errLost when the
// Lease was lost. Clients that are made from c's kubeconfig from then on write
// only while the Lease keeps others out.
func lead(ctx context.Context, c config.CompletedConfig, events record.EventRecorder,
	health *leaderelection.HealthzAdaptor, run func(context.Context) error) error {
	lock, err := newLock(c, events)
	if err != nil {
		return err
	}
	fence := &fence{Interface: lock}
	c.Kubeconfig.Wrap(fence.guard)
	return leadWith(ctx, c, fence, health, run)
}

// leadWith is lead with a Lease. While run runs no other replica leads, unless
// the Lease was lost. It returns what runUntil does, or nil where ctx has ended
// before this replica was elected. By then nobody renews any more. With errLost
// or errStillRunning inside what it returns, the Lease is left alone: another
// replica may have it, or something may still write under it. Else the Lease is
// given up, if it is this replica's. If that fails it is logged, and no failure.
func leadWith(ctx context.Context, c config.CompletedConfig, lock resourcelock.Interface,
	health *leaderelection.HealthzAdaptor, run func(context.Context) error) error {
	elected := make(chan context.Context, 1)
	elector, err := newElector(c, lock, func(leading context.Context) { elected <- leading })
	if err != nil {
		return err
	}
	health.SetLeaderElection(elector)

	// Were the election to end with ctx, the Lease would be up for grabs while the
	// controllers are still stopping.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() { defer close(over); elector.Run(election) }()
	var failure error
	select {
	case <-ctx.Done(): // nothing was begun, and nothing will be
	case leading := <-elected:
		failure = runUntil(ctx, leading, restOfLease(c), run)
	}
	leave()
	<-over // a renewal may be on its way
	if errors.Is(failure, errLost) || errors.Is(failure, errStillRunning) {
		return failure
	}
	if err := release(election, c, lock); err != nil {
		klog.FromContext(ctx).Error(err, "The Lease stays taken until it runs out")
	}
	return failure
}

// runUntil calls run, unless ctx has ended already, and returns what run does. The
// end of ctx tells run to stop, and so does that of leading, with which the Lease
// is lost. From then on run has as long as the Lease keeps others out, which is
// rest; if it needs longer, runUntil returns errStillRunning and errLost without
// it. Where run has ended in time, errLost is added only if ctx has not ended: a
// replica that is to stop has nothing to lose.
func runUntil(ctx, leading context.Context, rest time.Duration, run func(context.Context) error) error {
	if ctx.Err() != nil {
		return nil
	}
	both, cancel := context.WithCancel(leading)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(both) }()

	var failure error
	select {
	case failure = <-ended:
	case <-leading.Done():
		select {
		case failure = <-ended:
		case <-time.After(rest):
			return errors.Join(errStillRunning, errLost)
		}
	}
	if leading.Err() != nil && ctx.Err() == nil {
		return errors.Join(failure, errLost)
	}
	return failure
}

// restOfLease is for how long a Lease that was just lost still keeps the others
// out: the last renewal came a retry period and a renew deadline ago, and the
// others go by whole seconds.
func restOfLease(c config.CompletedConfig) time.Duration {
	e := c.ComponentConfig.Generic.LeaderElection
	return e.LeaseDuration.Truncate(time.Second) - e.RetryPeriod.Duration - e.RenewDeadline.Duration
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

// release gives the Lease up, if this replica holds it. The elector would do it
// also when it has failed to renew, before the controllers know of that.
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
