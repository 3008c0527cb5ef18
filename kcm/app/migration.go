package app

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// work builds the controllers and runs them until ctx ends. They have clients
// that are made from c, and started is closed when their informers have started.
type work func(ctx context.Context, c config.CompletedConfig, descriptors []*ControllerDescriptor, started chan struct{}) error

// leadAndMigrate is lead for a manager with loops that move from one program to
// another. Those that stay run under the main Lease, and those that migrate
// under one that both programs know. The second is not taken before the informers of
// the first loops have started, and not at all where no loop of this program
// migrates: whoever held it would only keep the other program from it.
func leadAndMigrate(ctx context.Context, c config.CompletedConfig, descriptors []*ControllerDescriptor, events record.EventRecorder, health *health,
	run work) error {
	filter := leadermigration.NewLeaderMigrator(&c.ComponentConfig.Generic.LeaderMigration, c.Name).FilterFunc
	runs := func(d *ControllerDescriptor) bool {
		return d.isEnabled(c.ComponentConfig.Generic.Controllers) && (c.Cloud != nil || !d.isCloudProvider)
	}
	stay, move := byLease(descriptors, filter, runs)
	klog.FromContext(ctx).Info("Some controllers may migrate", "lease", c.ComponentConfig.Generic.LeaderMigration.LeaderName, "here", names(move, func(*ControllerDescriptor) bool { return true }))

	started := make(chan struct{})
	main := func(ctx context.Context, run func(context.Context) error) error {
		return lead(ctx, c, events, health.election, run)
	}
	runStaying := func(ctx context.Context) error { return run(ctx, c, stay, started) }
	if len(move) == 0 {
		return main(ctx, runStaying)
	}
	var second config.CompletedConfig
	migration := func(ctx context.Context, run func(context.Context) error) (err error) {
		if second, err = ofMigration(c); err != nil {
			return err
		}
		return lead(ctx, second, events, health.migration, run)
	}
	runMoving := func(ctx context.Context) error { return run(ctx, second, move, make(chan struct{})) }
	return leadBoth(ctx, main, migration, started, runStaying, runMoving)
}

// byLease returns the descriptors of the controllers that run under the main
// Lease, and of those that run under that of the migration, each in the order in
// which they were given. runs tells whether this program runs a controller at all.
func byLease(descriptors []*ControllerDescriptor, filter leadermigration.FilterFunc, runs func(*ControllerDescriptor) bool) (main, migration []*ControllerDescriptor) {
	for _, d := range descriptors {
		switch result := filter(d.name); {
		case d.requiresSpecialHandling, !runs(d), result == leadermigration.ControllerNonMigrated:
			main = append(main, d)
		case result == leadermigration.ControllerMigrated:
			migration = append(migration, d)
		}
	}
	return main, migration
}

// ofMigration returns c with the Lease of the migration. Its clients write only
// while that Lease and the main one keep others out; so does its election.
func ofMigration(c config.CompletedConfig) (config.CompletedConfig, error) {
	second := *c.Config
	second.Kubeconfig = rest.CopyConfig(c.Kubeconfig)
	second.InformerName = c.InformerName + "-migration"
	migration, election := &c.ComponentConfig.Generic.LeaderMigration, &second.ComponentConfig.Generic.LeaderElection
	election.ResourceLock, election.ResourceName = migration.ResourceLock, migration.LeaderName
	return second.Complete()
}

// election runs what it is given while this replica holds a Lease, as lead does.
type election func(ctx context.Context, run func(context.Context) error) error

// leadBoth takes part in two elections. It runs stay only while this replica holds
// the main Lease, and move only while it holds both and begun is closed. It
// returns when all that it has started has ended, or with errStillRunning, and the
// error says why that was. A Lease that this replica holds and has no more use for
// is free then.
func leadBoth(ctx context.Context, main, migration election, begun <-chan struct{}, stay, move func(context.Context) error) error {
	return main(ctx, func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		moved := make(chan error, 1)
		go func() {
			defer stop()
			select {
			case <-begun:
				moved <- migration(ctx, move)
			case <-ctx.Done():
				moved <- nil
			}
		}()
		stayed := stay(ctx)
		stop()
		err := <-moved
		if errors.Is(err, errLost) && !errors.Is(err, errStillRunning) {
			err = errMigrationLost
		}
		return errors.Join(stayed, err)
	})
}

// errMigrationLost ends a leader that has lost the second Lease, and still holds the main one.
var errMigrationLost = errors.New("lost the Lease of the controllers that migrate: could not renew it in time, another program may run them now")
