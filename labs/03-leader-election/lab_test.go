// Package election_test is the lab of chapter 03: replicas that agree, in a
// Lease, on who leads, and what happens when the leader dies, sleeps, is told to
// stop or is cut off.
package election_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

// The three durations of the election, about a quarter of the defaults, and half
// for the pause. That must not be shorter than a second: who waits compares what
// it reads as JSON, in which times have whole seconds, so it does not notice a
// renewal in the same second as the one before, and takes over too early.
const (
	leaseDuration = 4 * time.Second
	renewDeadline = 2500 * time.Millisecond
	retryPeriod   = time.Second
	// longestPause is the longest time between two looks of a replica that waits.
	longestPause = retryPeriod + time.Duration(leaderelection.JitterFactor*float64(retryPeriod))
	// slack is what we allow a busy machine on top.
	slack = 4 * time.Second
)

const leaseName = "kube-controller-manager"

// flags are those of a replica with short times, which logs what its elector does.
var flags = []string{
	"--leader-elect-lease-duration=" + leaseDuration.String(),
	"--leader-elect-renew-deadline=" + renewDeadline.String(),
	"--leader-elect-retry-period=" + retryPeriod.String(),
	"--vmodule=leaderelection=4",
}

func TestElection(t *testing.T) {
	l := lab.New(t, 3)
	var recording *history.Recording
	var a, b, c, d, e *lab.Process
	names := map[string]string{} // of the replicas, by what stands in the Lease

	lease := func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, leaseName, metav1.GetOptions{})
	}
	// awaitLeader waits until a replica leads, and checks that the Lease says so.
	awaitLeader := func(s *lab.Step, p *lab.Process) *coordinationv1.Lease {
		s.Helper()
		s.AwaitLog(p, "[Ss]uccessfully acquired lease")
		now, err := lease(s.Context())
		require.NoError(s, err)
		holder := *now.Spec.HolderIdentity
		require.NotEmpty(s, holder)
		require.NotContains(s, names, holder, "the Lease names somebody new")
		names[holder] = p.Name
		if !lab.Reference() { // which does not tell its own name
			assert.Contains(s, p.Log(), fmt.Sprintf("identity=%q", holder))
		}
		return now
	}
	// startWaiting starts a replica, and waits until it has seen that another one leads.
	startWaiting := func(s *lab.Step, name string, more ...string) *lab.Process {
		s.Helper()
		p := s.Start(name, append(flags, more...)...)
		line := s.AwaitLog(p, "held by and has not yet expired")
		now, err := lease(s.Context())
		require.NoError(s, err)
		assert.Contains(s, line, fmt.Sprintf("holder=%q", *now.Spec.HolderIdentity))
		return p
	}
	// terms returns what has happened to the Lease so far.
	terms := func(s *lab.Step) []term {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
		defer cancel()
		_, err := recording.CatchUp(ctx)
		require.NoError(s, err)
		changes, err := recording.Changes()
		require.NoError(s, err)
		return termsOf(changes)
	}
	// lastGap returns how long nobody has led before the present leader.
	lastGap := func(s *lab.Step) (gap time.Duration, last, now term) {
		s.Helper()
		all := terms(s)
		require.Greater(s, len(all), 1)
		last, now = all[len(all)-2], all[len(all)-1]
		gap = now.began.Sub(last.renewed)
		s.Say("%s leads since %.1f s after %s renewed for the last time", names[now.holder], gap.Seconds(), names[last.holder])
		return gap, last, now
	}
	// checkRunOut checks that the present leader has waited as long as it had to, and no longer, but for an outage.
	checkRunOut := func(s *lab.Step, outage time.Duration) term {
		s.Helper()
		gap, last, now := lastGap(s)
		assert.False(s, last.released)
		assert.GreaterOrEqual(s, gap, leaseDuration)
		assert.Less(s, gap, outage+leaseDuration+2*longestPause+slack)
		return now
	}
	// checkOrder checks in which order a replica of kcm has ended.
	checkOrder := func(s *lab.Step, p *lab.Process, messages ...string) {
		s.Helper()
		if lab.Reference() {
			return // its log has other words
		}
		seen := regexp.MustCompile(`This replica leads|This replica has stopped working|Released the Lease|lost the Lease`).FindAllString(p.Log(), -1)
		s.Say("%s: %s", p.Name, strings.Join(seen, ", "))
		assert.Equal(s, messages, seen)
	}

	l.Step("Of two replicas one leads, and the other waits; both are healthy", func(s *lab.Step) {
		var err error
		recording, err = history.Record(s.Context(), l.Dynamic, metav1.NamespaceSystem, coordinationv1.SchemeGroupVersion.WithResource("leases"))
		require.NoError(s, err)
		a = s.Start("a", flags...)
		now := awaitLeader(s, a)
		assert.EqualValues(s, leaseDuration/time.Second, *now.Spec.LeaseDurationSeconds)
		b = startWaiting(s, "b")
		s.Kubectl("get lease kube-controller-manager -n kube-system " +
			"-o custom-columns=HOLDER:.spec.holderIdentity,SINCE:.spec.acquireTime,RENEWED:.spec.renewTime,SECONDS:.spec.leaseDurationSeconds,CHANGES:.spec.leaseTransitions")
		for _, p := range []*lab.Process{a, b} {
			assert.Contains(s, s.AwaitAnswer(p, "/healthz?verbose", "", http.StatusOK), "[+]leaderElection ok")
		}
		assert.NotContains(s, b.Log(), "uccessfully acquired lease")
		s.Await("an event says who leads", func(ctx context.Context) (bool, string, error) {
			events, err := l.Client.CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
				FieldSelector: "reason=LeaderElection,involvedObject.kind=Lease,involvedObject.name=" + leaseName,
			})
			if err != nil {
				return false, "", err
			}
			for _, event := range events.Items {
				if event.Message == *now.Spec.HolderIdentity+" became leader" {
					return true, event.Message, nil
				}
			}
			return false, fmt.Sprintf("%d events", len(events.Items)), nil
		})
	})

	l.Step("Somebody else writes the Lease in mid-term: the leader reads it again, and renews", func(s *lab.Step) {
		before, err := lease(s.Context())
		require.NoError(s, err)
		s.Kubectl("annotate lease kube-controller-manager -n kube-system 'note=hands off'")
		s.AwaitLog(a, "Failed to update lease optimistically.*the object has been modified")
		s.Await("the leader has renewed twice since", func(ctx context.Context) (bool, string, error) {
			now, err := lease(ctx)
			if err != nil {
				return false, "", err
			}
			since := now.Spec.RenewTime.Sub(before.Spec.RenewTime.Time)
			return since > 2*retryPeriod && now.Annotations["note"] != "", fmt.Sprintf("renewed %s later", since), nil
		})
		now, err := lease(s.Context())
		require.NoError(s, err)
		assert.Equal(s, "hands off", now.Annotations["note"], "what is not the elector's stays")
		assert.Equal(s, before.Spec.HolderIdentity, now.Spec.HolderIdentity)
		assert.Equal(s, before.Spec.LeaseTransitions, now.Spec.LeaseTransitions)
		assert.True(s, before.Spec.AcquireTime.Equal(now.Spec.AcquireTime), "it is the same term")
	})

	l.Step("The leader is killed: the other leads when the Lease has run out, not before", func(s *lab.Step) {
		killed := time.Now()
		s.Signal(a, syscall.SIGKILL)
		assert.Equal(s, -1, s.AwaitExit(a))
		awaitLeader(s, b)
		now := checkRunOut(s, 0)
		s.Say("and %.1f s after the kill. In between, no loop works.", now.began.Sub(killed).Seconds())
	})

	l.Step("The leader is frozen: another one leads, and when it wakes up it finds out and ends", func(s *lab.Step) {
		c = startWaiting(s, "c", releasing()...)
		s.Signal(b, syscall.SIGSTOP)
		awaitLeader(s, c)
		checkRunOut(s, 0)
		woken := time.Now()
		s.Signal(b, syscall.SIGCONT)
		assert.Equal(s, 1, s.AwaitExit(b))
		took := time.Since(woken)
		s.Say("It has believed that it leads for %.1f s more. The Lease has said %s all the time.", took.Seconds(), c.Name)
		assert.Less(s, took, retryPeriod+renewDeadline+slack)
		checkOrder(s, b, "This replica leads", "This replica has stopped working", "lost the Lease")
		now, err := lease(s.Context())
		require.NoError(s, err)
		assert.Equal(s, c.Name, names[*now.Spec.HolderIdentity], "who has lost the Lease leaves it alone")
	})

	l.Step("The leader is asked to stop: it frees the Lease, and the other leads at once", func(s *lab.Step) {
		d = startWaiting(s, "d")
		s.Signal(c, syscall.SIGTERM)
		assert.Equal(s, 0, s.AwaitExit(c))
		awaitLeader(s, d)
		gap, last, _ := lastGap(s)
		assert.True(s, last.released, "the Lease has said that it is free")
		assert.Less(s, gap, leaseDuration, "nobody had to wait for it to run out")
		checkOrder(s, c, "This replica leads", "This replica has stopped working", "Released the Lease")
	})

	l.Step("etcd freezes, for less than the renew deadline: the leader goes on leading", func(s *lab.Step) {
		e = startWaiting(s, "e")
		require.NoError(s, l.Cluster.Stop(s.Context(), cluster.Etcd))
		s.Say("etcd is frozen")
		// A renewal that hangs is given up after half the renew deadline, so that there is time for another.
		s.AwaitLog(d, "Failed to update lease optimistically") // it is the first that has failed
		require.NoError(s, l.Cluster.Continue(s.Context(), cluster.Etcd))
		woken := time.Now()
		s.Say("etcd goes on")
		s.Await("the Lease is renewed again", func(ctx context.Context) (bool, string, error) {
			now, err := lease(ctx)
			if err != nil {
				return false, "", err
			}
			return now.Spec.RenewTime.After(woken), names[*now.Spec.HolderIdentity] + " renewed it at " + now.Spec.RenewTime.Format(time.StampMilli), nil
		})
		all := terms(s)
		last := all[len(all)-1]
		s.Say("%s still leads; between two of its renewals %.1f s have passed", names[last.holder], last.longest.Seconds())
		assert.Equal(s, d.Name, names[last.holder])
		assert.Greater(s, last.longest, renewDeadline/2, "a renewal has failed")
		assert.NotContains(s, e.Log(), "uccessfully acquired lease")
		for _, p := range []*lab.Process{d, e} {
			s.AwaitAnswer(p, "/healthz", "", http.StatusOK)
		}
	})

	l.Step("etcd freezes, for longer: the leader gives up; when etcd is back, the other leads", func(s *lab.Step) {
		frozen := time.Now()
		require.NoError(s, l.Cluster.Stop(s.Context(), cluster.Etcd))
		s.Say("etcd is frozen")
		assert.Equal(s, 1, s.AwaitExit(d))
		took := time.Since(frozen)
		s.Say("it has tried for %.1f s", took.Seconds())
		assert.Greater(s, took, renewDeadline-retryPeriod, "it does not give up early")
		assert.Less(s, took, renewDeadline+retryPeriod+slack)
		checkOrder(s, d, "This replica leads", "This replica has stopped working", "lost the Lease")
		assert.NotContains(s, e.Log(), "uccessfully acquired lease", "nobody leads while nobody can")
		require.NoError(s, l.Cluster.Continue(s.Context(), cluster.Etcd))
		back := time.Now()
		s.Say("etcd goes on")
		awaitLeader(s, e)
		since := checkRunOut(s, took).began.Sub(back)
		s.Say("and %.1f s after the end of the outage", since.Seconds())
		if since >= leaseDuration {
			s.Say("It counts from when it has seen the last renewal, and that was only now.")
		}
	})

	l.Step("There were never two holders, and none but of a Lease that was free or had run out", func(s *lab.Step) {
		s.Always(recording, "one holder at a time, and each took a Lease that was free or had run out", inTurns())
		all := terms(s)
		s.Say("%-6s  %8s  %8s  %-8s  %s", "HOLDER", "FROM", "RENEWED", "LEASE", "LONGEST PAUSE")
		for _, each := range all {
			how := "ran out"
			if each.released {
				how = "freed"
			} else if each == all[len(all)-1] {
				how = "is held"
			}
			s.Say("%-6s  %6.1f s  %6.1f s  %-8s  %.1f s", names[each.holder], each.began.Sub(all[0].began).Seconds(), each.renewed.Sub(all[0].began).Seconds(), how, each.longest.Seconds())
		}
		var order []string
		for _, each := range all {
			order = append(order, names[each.holder])
		}
		assert.Equal(s, []string{"a", "b", "c", "d", "e"}, order)
	})
}

// releasing are the flags with which the original, too, frees its Lease when it
// is told to stop. By default it dies of SIGTERM as it would of SIGKILL.
func releasing() []string {
	if lab.Reference() {
		return []string{"--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true"}
	}
	return nil
}

// term is the time for which one replica has held the Lease.
type term struct {
	holder         string
	began, renewed time.Time
	longest        time.Duration // between two renewals
	released       bool
}

// termsOf returns the terms in a recording.
func termsOf(changes []history.Change) []term {
	var all []term
	for _, change := range changes {
		if change.Object.GetName() != leaseName {
			continue
		}
		spec := leaseOf(change.Object).Spec
		holder := *spec.HolderIdentity
		switch {
		case holder == "":
			if len(all) > 0 {
				all[len(all)-1].released = true
			}
		case len(all) == 0 || all[len(all)-1].holder != holder:
			all = append(all, term{holder: holder, began: spec.AcquireTime.Time, renewed: spec.RenewTime.Time})
		default:
			last := &all[len(all)-1]
			last.longest = max(last.longest, spec.RenewTime.Sub(last.renewed))
			last.renewed = spec.RenewTime.Time
		}
	}
	return all
}

// inTurns returns what holds of each state of a Lease that replicas hold in
// turns. It compares a state with the one before, so it is for one recording.
// The times are those that the replicas have written; they have one clock here.
func inTurns() func(history.State) error {
	var last *coordinationv1.Lease
	held := map[string]bool{}
	return func(state history.State) error {
		var now *coordinationv1.Lease
		for _, object := range state.Objects("leases") {
			if object.GetName() == leaseName {
				now = leaseOf(object)
			}
		}
		before := last
		last = now
		switch {
		case now == nil && before != nil:
			return errors.New("the Lease is gone")
		case now == nil || (before != nil && before.ResourceVersion == now.ResourceVersion):
			return nil // something happened to another Lease
		case before == nil:
			held[*now.Spec.HolderIdentity] = true
			return nil
		}
		was, is := before.Spec, now.Spec
		renewals := is.RenewTime.Sub(was.RenewTime.Time)
		switch {
		case renewals < 0:
			return fmt.Errorf("it was renewed at %s, and then at %s", was.RenewTime, is.RenewTime)
		case *was.HolderIdentity == *is.HolderIdentity:
			if !was.AcquireTime.Equal(is.AcquireTime) || *was.LeaseTransitions != *is.LeaseTransitions {
				return fmt.Errorf("%s has begun another term", *is.HolderIdentity)
			}
			return nil
		case *is.HolderIdentity == "":
			return nil
		case held[*is.HolderIdentity]:
			return fmt.Errorf("%s has become the holder for a second time", *is.HolderIdentity)
		}
		held[*is.HolderIdentity] = true
		if *is.LeaseTransitions != *was.LeaseTransitions+1 {
			return fmt.Errorf("the count of transitions went from %d to %d", *was.LeaseTransitions, *is.LeaseTransitions)
		}
		if valid := time.Duration(*was.LeaseDurationSeconds) * time.Second; *was.HolderIdentity != "" && renewals < valid {
			return fmt.Errorf("%s took it %s after %s had renewed it for %s", *is.HolderIdentity, renewals, *was.HolderIdentity, valid)
		}
		return nil
	}
}

func leaseOf(object *unstructured.Unstructured) *coordinationv1.Lease {
	lease := history.As[coordinationv1.Lease](object).DeepCopy()
	if lease.Spec.HolderIdentity == nil {
		lease.Spec.HolderIdentity = new(string) // an empty name is not stored
	}
	return lease
}
