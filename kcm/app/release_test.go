package app

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// replicaA is the configuration of a replica that is called a, with the default
// times.
func replicaA(t *testing.T) config.CompletedConfig {
	t.Helper()
	c := &config.Config{Identity: "a"}
	e := &c.ComponentConfig.Generic.LeaderElection
	e.LeaderElect = true
	e.ResourceLock, e.ResourceNamespace, e.ResourceName = "leases", "kube-system", "kube-controller-manager"
	e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration = 15*time.Second, 10*time.Second, 2*time.Second
	completed, err := c.Complete()
	require.NoError(t, err)
	return completed
}

// note is a Lease in the memory of a test.
type note struct {
	resourcelock.Interface
	held *resourcelock.LeaderElectionRecord // nil where there is none
	// unreadable fails reading; changed fails the first write, as one of
	// somebody else's came first; stuck does not answer.
	unreadable, changed, stuck bool
	writes                     int
}

// heldBy returns a Lease with three changes behind it, taken a minute ago.
func heldBy(holder string) *note {
	taken := metav1.NewTime(time.Now().Add(-time.Minute))
	return &note{held: &resourcelock.LeaderElectionRecord{
		HolderIdentity: holder, LeaseDurationSeconds: 15, LeaderTransitions: 3, AcquireTime: taken, RenewTime: taken,
	}}
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (n *note) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if n.stuck {
		<-ctx.Done()
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case n.unreadable:
		return nil, nil, errors.New("connection refused")
	case n.held == nil:
		return nil, nil, apierrors.NewNotFound(leases, "kube-controller-manager")
	}
	held := *n.held
	return &held, nil, nil
}

func (n *note) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case n.changed:
		n.changed, n.held.HolderIdentity = false, "b"
		return apierrors.NewConflict(leases, "kube-controller-manager", errors.New("the object has been modified"))
	}
	n.writes, n.held = n.writes+1, &record
	return nil
}

func (n *note) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return n.Update(ctx, record)
}

func (n *note) Describe() string { return "kube-system/kube-controller-manager" }

func (n *note) Identity() string { return "a" }

// String says who holds the Lease, and how often it was written.
func (n *note) String() string {
	holder := "there is no Lease"
	if n.held != nil {
		holder = "held by " + n.held.HolderIdentity
		if n.held.HolderIdentity == "" {
			holder = "held by nobody"
		}
	}
	return fmt.Sprintf("%s, written %d times", holder, n.writes)
}

// releaseIn has replica a release the Lease, with a context that may have ended, and
// says how that went.
func releaseIn(t *testing.T, ctx context.Context, lease *note) string {
	t.Helper()
	if err := release(ctx, replicaA(t), lease); err != nil {
		return "failed; " + lease.String()
	}
	return "done; " + lease.String()
}

//exercise:race
func TestReleaseFreesWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	for behaviour, test := range map[string]struct {
		lease *note
		seen  string
	}{
		"a Lease of its own is freed":                                {heldBy("a"), "done; held by nobody, written 1 times"},
		"a Lease of another replica is left alone":                   {heldBy("b"), "done; held by b, written 0 times"},
		"a Lease that nobody holds is left alone":                    {heldBy(""), "done; held by nobody, written 0 times"},
		"a Lease that does not exist is no failure":                  {&note{}, "done; there is no Lease, written 0 times"},
		"a Lease that cannot be read is a failure":                   {&note{held: heldBy("a").held, unreadable: true}, "failed; held by a, written 0 times"},
		"a Lease that another has taken since it was read is theirs": {&note{held: heldBy("a").held, changed: true}, "failed; held by b, written 0 times"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			before := test.lease.String()
			assert.Equal(t, test.seen, releaseIn(t, t.Context(), test.lease), "replica a releases a Lease: %s", before)
		})
	}
}

func TestAFreeLease(t *testing.T) {
	t.Parallel()
	for behaviour, test := range map[string]struct {
		says string
		of   func(*resourcelock.LeaderElectionRecord) string
	}{
		"it is good for a second, the least that the API takes": {"good for 1 s", func(r *resourcelock.LeaderElectionRecord) string {
			return fmt.Sprintf("good for %d s", r.LeaseDurationSeconds)
		}},
		"it counts on from the changes that there were": {"3 changes", func(r *resourcelock.LeaderElectionRecord) string {
			return fmt.Sprintf("%d changes", r.LeaderTransitions)
		}},
		"it says when it became free": {"renewed 0s ago", func(r *resourcelock.LeaderElectionRecord) string {
			return fmt.Sprintf("renewed %s ago", time.Since(r.RenewTime.Time))
		}},
		"it says since when nobody holds it": {"acquired 0s ago", func(r *resourcelock.LeaderElectionRecord) string {
			return fmt.Sprintf("acquired %s ago", time.Since(r.AcquireTime.Time))
		}},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lease := heldBy("a")
				require.NoError(t, release(t.Context(), replicaA(t), lease))
				assert.Equal(t, test.says, test.of(lease.held), "replica a has held a Lease of 15 s with 3 changes for a minute, and releases it")
			})
		})
	}
}

func TestReleasingTakesItsTimeAndNoMore(t *testing.T) {
	t.Parallel()
	t.Run("it is freed although the election has ended", func(t *testing.T) {
		t.Parallel()
		ended, end := context.WithCancel(t.Context())
		end()
		assert.Equal(t, "done; held by nobody, written 1 times", releaseIn(t, ended, heldBy("a")), "the context has ended before the Lease is released")
	})
	t.Run("an API server that does not answer is given the renew deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			lease := heldBy("a")
			lease.stuck = true
			ended := make(chan string, 1)
			ctx, giveUp := context.WithCancel(t.Context())
			begin := time.Now()
			go func() { ended <- releaseIn(t, ctx, lease) }()
			select {
			case how := <-ended:
				assert.Equal(t, "failed; held by a, written 0 times after 10s", fmt.Sprintf("%s after %s", how, time.Since(begin)))
			case <-time.After(time.Hour):
				lease.stuck = false
				assert.Equal(t, "given up after 10s", "still trying after an hour")
			}
			giveUp()
		})
	})
}
