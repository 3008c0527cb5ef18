package app

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cmconfig "k8s.io/controller-manager/config"
	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// mover is replica a, which takes part in two elections, and what happened to it.
type mover struct {
	main, migration leaseServer
	begun           chan struct{}
	stop            func()
	ended           chan error

	mu    sync.Mutex
	story []string
}

// twoLeases calls body with a replica, on a clock that moves on when everybody waits.
func twoLeases(t *testing.T, body func(t *testing.T, m *mover)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body(t, &mover{begun: make(chan struct{}), ended: make(chan error, 1)})
	})
}

// begin has the replica take part. Those that stay and those that move do what is given.
func (m *mover) begin(t *testing.T, stay, move func(context.Context) error) {
	t.Helper()
	log := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig())
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), log))
	t.Cleanup(stop)
	m.stop = func() { m.note("told to stop"); stop() }
	main, migration := m.election(t, "main", &m.main), m.election(t, "migration", &m.migration)
	go func() {
		m.ended <- leadBoth(ctx, main, migration, m.begun, m.noted("stay", stay), m.noted("move", move))
	}()
}

// election tells when the replica asks for a Lease, when it has it, and when it is done with it.
func (m *mover) election(t *testing.T, name string, server *leaseServer) election {
	c := replicaA(t)
	return func(ctx context.Context, run func(context.Context) error) error {
		m.note("asks for " + name)
		defer m.note("done with " + name)
		return leadWith(ctx, c, server, leaderelection.NewLeaderHealthzAdaptor(time.Hour), func(ctx context.Context) error {
			m.note("has " + name)
			return run(ctx)
		})
	}
}

func (m *mover) noted(name string, work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		m.note(name + " begins")
		defer m.note(name + " ends")
		return work(ctx)
	}
}

func (m *mover) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.story = append(m.story, what)
}

// told returns what has happened since it was asked last, and what the Leases say.
func (m *mover) told() string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	story := append(m.story, "main: "+m.main.String(), "migration: "+m.migration.String())
	m.story = nil
	return strings.Join(story, "; ")
}

// end waits until the replica has ended, and returns what has happened.
func (m *mover) end() string {
	select {
	case err := <-m.ended:
		m.note(strings.ReplaceAll(how(err), "lead ", "it "))
	case <-time.After(time.Hour):
		m.note("it has not returned after an hour")
	}
	return m.told()
}

// lasting is work that takes its time to end when it is told to.
func lasting(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error { <-ctx.Done(); time.Sleep(d); return nil }
}

// both brings the replica to where it holds both Leases.
func (m *mover) both(t *testing.T, stay, move func(context.Context) error) {
	t.Helper()
	m.begin(t, stay, move)
	synctest.Wait()
	close(m.begun)
	const want = "asks for main; has main; stay begins; asks for migration; has migration; move begins; " +
		"main: the Lease is held by a; migration: the Lease is held by a"
	require.Equal(t, want, m.told(), "both Leases are free")
}

//exercise:race
func TestTheSecondLease(t *testing.T) {
	t.Parallel()
	t.Run("it is not asked for without the main Lease", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.main.take("b")
			close(m.begun)
			m.begin(t, untilTold, untilTold)
			time.Sleep(10 * time.Second)
			assert.Equal(t, "asks for main; main: the Lease is held by b; migration: there is no Lease", m.told())
			m.stop()
			assert.Equal(t, "told to stop; done with main; it returns; main: the Lease is held by b; migration: there is no Lease", m.end())
		})
	})
	t.Run("it is not asked for before the first controllers have begun", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.begin(t, untilTold, untilTold)
			time.Sleep(time.Minute)
			assert.Equal(t, "asks for main; has main; stay begins; main: the Lease is held by a; migration: there is no Lease", m.told())
			close(m.begun)
			assert.Equal(t, "asks for migration; has migration; move begins; main: the Lease is held by a; migration: the Lease is held by a", m.told())
			m.stop()
			m.end()
		})
	})
	t.Run("who is told to stop before that never asks for it", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.begin(t, untilTold, untilTold)
			m.told()
			m.stop()
			assert.Equal(t, "told to stop; stay ends; done with main; it returns; main: the Lease is free; migration: there is no Lease", m.end())
		})
	})
	t.Run("while another program has it, the first controllers work", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.migration.take("b")
			m.begin(t, untilTold, untilTold)
			synctest.Wait()
			close(m.begun)
			time.Sleep(10 * time.Second)
			assert.Equal(t, "asks for main; has main; stay begins; asks for migration; main: the Lease is held by a; migration: the Lease is held by b", m.told())
			time.Sleep(10 * time.Second)
			assert.Equal(t, "has migration; move begins; main: the Lease is held by a; migration: the Lease is held by a", m.told(), "b's Lease has run out")
			m.stop()
			m.end()
		})
	})
	t.Run("who is told to stop while another program has it leaves it alone", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.migration.take("b")
			m.begin(t, untilTold, untilTold)
			synctest.Wait()
			close(m.begun)
			time.Sleep(5 * time.Second)
			m.told()
			m.stop()
			told := m.end()
			assert.Contains(t, told, "it returns; main: the Lease is free; migration: the Lease is held by b")
			assert.NotContains(t, told, "move begins")
		})
	})
}

func TestTheOrderInWhichTwoLeasesAreGivenUp(t *testing.T) {
	t.Parallel()
	const freed = "main: the Lease is free; migration: the Lease is free"
	t.Run("that of the migration is free before the main one", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.both(t, untilTold, lasting(3*time.Second))
			m.stop()
			assert.Equal(t, "told to stop; stay ends; move ends; done with migration; done with main; it returns; "+freed, m.end())
		})
	})
	t.Run("the main one is kept for as long as the first controllers take to end", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.both(t, lasting(3*time.Second), untilTold)
			m.stop()
			time.Sleep(2 * time.Second)
			assert.Equal(t, "told to stop; move ends; done with migration; main: the Lease is held by a; migration: the Lease is free", m.told())
			assert.Equal(t, "stay ends; done with main; it returns; "+freed, m.end())
		})
	})
	t.Run("the main one is kept for as long as those that migrate take to end", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.both(t, untilTold, lasting(time.Minute))
			m.stop()
			time.Sleep(50 * time.Second)
			assert.Equal(t, "told to stop; stay ends; main: the Lease is held by a; migration: the Lease is held by a", m.told())
			m.end()
		})
	})
	t.Run("first controllers that fail take the others with them", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			fail := make(chan struct{})
			m.both(t, func(context.Context) error { <-fail; return errNoKey }, untilTold)
			close(fail)
			assert.Equal(t, "stay ends; move ends; done with migration; done with main; it fails, as there is no key; "+freed, m.end())
		})
	})
	t.Run("controllers that migrate and fail take the others with them", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			fail := make(chan struct{})
			m.both(t, untilTold, func(context.Context) error { <-fail; return errNoKey })
			close(fail)
			assert.Equal(t, "move ends; done with migration; stay ends; done with main; it fails, as there is no key; "+freed, m.end())
		})
	})
}

func TestALeaseOfTwoIsLost(t *testing.T) {
	t.Parallel()
	t.Run("when it is that of the migration, all end, and the main one is freed", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.both(t, untilTold, untilTold)
			m.migration.answer(false)
			told := m.end()
			assert.Contains(t, told, "stay ends; done with main; it fails with "+strconv.Quote(errMigrationLost.Error()), "the main Lease is not lost")
			assert.Contains(t, told, "main: the Lease is free")
		})
	})
	t.Run("when it is the main one, all end", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.both(t, untilTold, untilTold)
			m.main.answer(false)
			told := m.end()
			assert.Contains(t, told, "move ends")
			assert.Contains(t, told, "it fails, as the Lease is lost")
		})
	})
	t.Run("while something that migrates may still write, the main one is kept", func(t *testing.T) {
		twoLeases(t, func(t *testing.T, m *mover) {
			m.both(t, untilTold, lasting(time.Minute))
			m.migration.answer(false)
			assert.Contains(t, m.end(), "it fails, as the Lease is lost and work still running; main: the Lease is held by a")
			time.Sleep(time.Minute) // the bubble's time is not ours
		})
	})
}

// migrating returns the filter of kcm for a file with these controllers and components.
func migrating(leaders ...cmconfig.ControllerLeaderConfiguration) leadermigration.FilterFunc {
	file := &cmconfig.LeaderMigrationConfiguration{ControllerLeaders: leaders}
	return leadermigration.NewLeaderMigrator(file, "kube-controller-manager").FilterFunc
}

func TestUnderWhichLeaseAControllerRuns(t *testing.T) {
	t.Parallel()
	descriptors := []*ControllerDescriptor{
		{name: "tokens", requiresSpecialHandling: true}, {name: "pods"}, {name: "jobs"},
		{name: "routes"}, {name: "nodes"},
	}
	for _, test := range []struct {
		name      string
		runsNodes bool
		migrating []cmconfig.ControllerLeaderConfiguration
		want      string
	}{
		{"without a file that names it, under the main one", true, nil, "main: tokens pods jobs routes nodes; migration:"},
		{"one that migrates to this program runs under the other one", true,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "nodes", Component: "kube-controller-manager"}}, "main: tokens pods jobs routes; migration: nodes"},
		{"one that any program may run runs under the other one", true,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "nodes", Component: "*"}, {Name: "routes", Component: "*"}}, "main: tokens pods jobs; migration: routes nodes"},
		{"one that another program is to run does not run at all", true,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "nodes", Component: "cloud-controller-manager"}}, "main: tokens pods jobs routes; migration:"},
		{"what the others depend on runs under the main one, even if it is to migrate", true,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "tokens", Component: "*"}, {Name: "pods", Component: "*"}}, "main: tokens jobs routes nodes; migration: pods"},
		{"what the others depend on runs under the main one, even if another program is to run it", true,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "tokens", Component: "cloud-controller-manager"}}, "main: tokens pods jobs routes nodes; migration:"},
		{"one that this program does not run keeps nobody from the other one", false,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "nodes", Component: "*"}, {Name: "pods", Component: "*"}}, "main: tokens jobs routes nodes; migration: pods"},
		{"a name that is not known here changes nothing", true,
			[]cmconfig.ControllerLeaderConfiguration{{Name: "volumes", Component: "*"}}, "main: tokens pods jobs routes nodes; migration:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			runs := func(d *ControllerDescriptor) bool { return d.name != "nodes" || test.runsNodes }
			main, migration := byLease(descriptors, migrating(test.migrating...), runs)
			seen := []string{"main:"}
			for _, d := range main {
				seen = append(seen, d.name)
			}
			seen[len(seen)-1] += ";"
			seen = append(seen, "migration:")
			for _, d := range migration {
				seen = append(seen, d.name)
			}
			assert.Equal(t, test.want, strings.Join(seen, " "), "the file says %v; it runs nodes: %t", test.migrating, test.runsNodes)
		})
	}
}

// What a controller that migrates writes is guarded by both Leases, and so is the
// election in which it takes part.
func TestControllersThatMigrateWriteUnderBothLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := replicaA(t)
		c.Kubeconfig = &rest.Config{Transport: passes{}}
		c.ComponentConfig.Generic.LeaderMigration = cmconfig.LeaderMigrationConfiguration{LeaderName: "moving", ResourceLock: "leases"}
		main, migration := &fence{Interface: &writable{}}, &fence{Interface: &writable{}}
		c.Kubeconfig.Wrap(main.guard)
		second, err := ofMigration(c)
		require.NoError(t, err)
		assert.Equal(t, "moving", second.ComponentConfig.Generic.LeaderElection.ResourceName)
		assert.Equal(t, "kube-controller-manager", c.ComponentConfig.Generic.LeaderElection.ResourceName, "the first is as it was")
		assert.Equal(t, c.Identity, second.Identity)
		second.Kubeconfig.Wrap(migration.guard)

		writes := func(config *rest.Config) error {
			transport, err := rest.TransportFor(config)
			require.NoError(t, err)
			request, err := http.NewRequest(http.MethodPost, "https://api/", nil)
			require.NoError(t, err)
			_, err = transport.RoundTrip(request)
			return err
		}
		fresh := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}
		require.NoError(t, main.Update(t.Context(), fresh))
		assert.NoError(t, writes(c.Kubeconfig))
		assert.ErrorIs(t, writes(second.Kubeconfig), errFenced, "the migration's Lease is not held")
		require.NoError(t, migration.Update(t.Context(), fresh))
		assert.NoError(t, writes(second.Kubeconfig))

		time.Sleep(10 * time.Second)
		require.NoError(t, migration.Update(t.Context(), fresh))
		time.Sleep(5 * time.Second)
		assert.ErrorIs(t, writes(second.Kubeconfig), errFenced, "the main Lease has run out")
		require.NoError(t, main.Update(t.Context(), fresh))
		assert.NoError(t, errors.Join(writes(c.Kubeconfig), writes(second.Kubeconfig)))
	})
}

func TestTheHealthOfBothElectionsIsTold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name               string
		electing, migrates bool
		want               string
	}{
		{"without an election there is nothing to tell", false, true, "ping"},
		{"one election has one check", true, false, "ping leaderElection"},
		{"with controllers that migrate there are two", true, true, "ping leaderElection migrationLeaderElection"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := &cmconfig.GenericControllerManagerConfiguration{LeaderMigrationEnabled: test.migrates}
			c.LeaderElection.LeaderElect = test.electing
			var checks []string
			for _, check := range newHealth(c).live() {
				checks = append(checks, check.Name())
				assert.NoError(t, check.Check(nil), "a replica that waits is healthy")
			}
			assert.Equal(t, test.want, strings.Join(checks, " "))
		})
	}
}
