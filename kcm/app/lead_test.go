package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// leaseServer is an API server with one Lease, and the lock of replica a on it. Like
// client-go's, the lock is for one user at a time, and an update is refused if
// the Lease has changed since the lock has seen it.
type leaseServer struct {
	resourcelock.Interface

	mu            sync.Mutex
	lease         *resourcelock.LeaderElectionRecord
	version, seen int
	down          bool          // it refuses all requests
	takes         time.Duration // until an answer comes
	written       func()        // called before the answer to a request that has written
	inUse         bool
	misuse        string
}

// take gives the Lease to somebody who does not renew it.
func (s *leaseServer) take(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := metav1.Now()
	s.version++
	s.lease = &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}
}

func (s *leaseServer) answer(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = !yes
}

// request waits for what do answers. A request that is given up takes a moment to end.
func (s *leaseServer) request(ctx context.Context, do func() error) error {
	s.mu.Lock()
	if s.inUse {
		s.misuse = "; two use the Lease at a time"
	}
	s.inUse = true
	takes := s.takes
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.inUse = false; s.mu.Unlock() }()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		time.Sleep(time.Millisecond)
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errors.New("connection refused")
	}
	return do()
}

func (s *leaseServer) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = s.request(ctx, func() error {
		if s.lease == nil {
			return apierrors.NewNotFound(leases, "kube-controller-manager")
		}
		held := *s.lease
		record, s.seen = &held, s.version
		raw, err = json.Marshal(held)
		return err
	})
	return record, raw, err
}

func (s *leaseServer) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.Update(ctx, record)
}

func (s *leaseServer) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := s.request(ctx, func() error {
		if s.seen != s.version {
			return apierrors.NewConflict(leases, "kube-controller-manager", errors.New("the object has been modified"))
		}
		s.version++
		s.seen, s.lease = s.version, &record
		return nil
	})
	if err == nil && s.written != nil {
		s.written()
	}
	return err
}

func (s *leaseServer) RecordEvent(string) {}

func (s *leaseServer) Describe() string { return "kube-system/kube-controller-manager" }

func (s *leaseServer) Identity() string { return "a" }

// String says who has the Lease, and whether it keeps others out.
func (s *leaseServer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lease == nil:
		return "there is no Lease" + s.misuse
	case s.lease.HolderIdentity == "":
		return "the Lease is free" + s.misuse
	case time.Since(s.lease.RenewTime.Time) >= time.Duration(s.lease.LeaseDurationSeconds)*time.Second:
		return fmt.Sprintf("the Lease of %s has run out", s.lease.HolderIdentity) + s.misuse
	}
	return "the Lease is held by " + s.lease.HolderIdentity + s.misuse
}

// replica is a replica a that takes part in an election, and what happened to it.
// Its times are 15, 10 and 2 s.
type replica struct {
	server leaseServer
	health *leaderelection.HealthzAdaptor
	log    klog.Logger
	stop   func()
	ended  chan error

	mu    sync.Mutex
	story []string
}

// elect calls body with a replica, on a clock that moves on when everybody waits.
func elect(t *testing.T, body func(t *testing.T, r *replica)) {
	t.Helper()
	t.Parallel()
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }()
		synctest.Test(t, func(t *testing.T) {
			body(t, &replica{
				health: leaderelection.NewLeaderHealthzAdaptor(-time.Hour),
				log:    ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true))),
				ended:  make(chan error, 1),
			})
		})
	}()
	select {
	case remains := <-ended:
		assert.Nil(t, remains, "when lead has returned, or has not within an hour, some of its goroutines remain")
	case <-time.After(time.Minute):
		assert.Fail(t, "the clock of this check stands still while a goroutine waits for a sync.Mutex or a sync.Once: let it wait for a channel")
	}
}

// begin has the replica take part in the election. Until it is told to stop, its work
// does what is given, between "work begins" and "work ends".
func (r *replica) begin(t *testing.T, work func(ctx context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), r.log))
	t.Cleanup(stop)
	r.stop = func() { r.note("told to stop"); stop() }
	c := replicaA(t)
	go func() {
		r.ended <- leadWith(ctx, c, &r.server, r.health, func(ctx context.Context) error {
			r.note("work begins")
			defer r.note("work ends")
			return work(ctx)
		})
	}()
}

// untilTold is work that ends at once when it is told to.
func untilTold(ctx context.Context) error { <-ctx.Done(); return nil }

func (r *replica) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = append(r.story, what)
}

// told returns what has happened so far, and what the Lease says now.
func (r *replica) told() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(append(r.story[:len(r.story):len(r.story)], r.server.String()), "; ")
}

// end waits until the replica has ended, and returns what has happened.
func (r *replica) end() string {
	select {
	case err := <-r.ended:
		r.note(how(err))
	case <-time.After(time.Hour):
		r.note("lead has not returned after an hour")
	}
	return r.told()
}

func how(err error) string {
	var causes []string
	for _, cause := range []struct {
		err  error
		says string
	}{{errLost, "the Lease is lost"}, {errStillRunning, "work still running"}, {errNoKey, "there is no key"}} {
		if errors.Is(err, cause.err) {
			causes = append(causes, cause.says)
		}
	}
	switch {
	case err == nil:
		return "lead returns"
	case causes == nil:
		return fmt.Sprintf("lead fails with %q", err)
	}
	return "lead fails, as " + strings.Join(causes, " and ")
}

// errNoKey is what work may fail with.
var errNoKey = errors.New("no key")

func TestALeaderThatIsToldToStop(t *testing.T) {
	t.Parallel()
	t.Run("the Lease is freed when work has ended", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil })
			time.Sleep(time.Minute)
			r.stop()
			assert.Equal(t, "work begins; told to stop; work ends; lead returns; the Lease is free", r.end(), "a leads, and its work takes a second to end")
		})
	})
	t.Run("the Lease is renewed for as long as work takes to end", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // a request that takes its time
				r.note(r.server.String())
				return nil
			})
			time.Sleep(time.Minute)
			r.stop()
			assert.Equal(t, "work begins; told to stop; the Lease is held by a; work ends; lead returns; the Lease is free", r.end(), "its work takes a minute to end")
		})
	})
	t.Run("work that fails frees the Lease, and its error is returned", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(context.Context) error { time.Sleep(time.Minute); return errNoKey })
			assert.Equal(t, "work begins; work ends; lead fails, as there is no key; the Lease is free", r.end(), "nobody has told a to stop")
		})
	})
	t.Run("work that may still write keeps the Lease", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("slow: %w", errStillRunning) })
			time.Sleep(time.Minute)
			r.stop()
			assert.Equal(t, "work begins; told to stop; work ends; lead fails, as work still running; the Lease is held by a", r.end(), "the work says that something of it still runs")
		})
	})
	t.Run("that the Lease could not be freed is logged, and no failure", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error { <-ctx.Done(); r.server.answer(false); return nil })
			time.Sleep(time.Minute + time.Second) // between two renewals
			r.stop()
			story := r.end()
			if strings.Contains(r.log.GetSink().(ktesting.Underlier).GetBuffer().String(), "connection refused") {
				story += "; the log says why"
			}
			assert.Equal(t, "work begins; told to stop; work ends; lead returns; the Lease is held by a; the log says why", story, "the API server goes away before the Lease can be freed")
		})
	})
	t.Run("the Lease is freed after the last renewal has ended", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.server.takes = time.Second + time.Nanosecond // no request ends at the moment at which a is told to stop
			r.begin(t, untilTold)
			time.Sleep(time.Minute)
			for range 50 {
				if r.server.busy() {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			r.stop()
			assert.Equal(t, "work begins; told to stop; work ends; lead returns; the Lease is free", r.end(), "a renewal is on its way when a is told to stop")
		})
	})
	t.Run("one that is cut off while it stops frees what is still its own", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error {
				<-ctx.Done()
				r.server.answer(false)
				time.Sleep(13 * time.Second)
				r.server.answer(true)
				return nil
			})
			time.Sleep(time.Minute + time.Second)
			r.stop()
			assert.Equal(t, "work begins; told to stop; work ends; lead returns; the Lease is free", r.end(), "work takes 13 s to end, and for as long the API server is away")
		})
	})
}

// busy says whether a request is on its way.
func (s *leaseServer) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

//exercise:race
func TestAReplicaThatWaits(t *testing.T) {
	t.Parallel()
	t.Run("work begins when the Lease is acquired", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.server.take("b")
			r.begin(t, func(ctx context.Context) error { r.note(r.server.String()); <-ctx.Done(); return nil })
			time.Sleep(14 * time.Second)
			assert.Equal(t, "the Lease is held by b", r.told(), "b has not renewed its Lease for 14 s")
			time.Sleep(14 * time.Second)
			assert.Equal(t, "work begins; the Lease is held by a; the Lease is held by a", r.told(), "b has not renewed its Lease for 28 s")
			r.stop()
			r.end()
		})
	})
	t.Run("told to stop, it ends and leaves the Lease to its holder", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.server.take("b")
			r.begin(t, untilTold)
			time.Sleep(5 * time.Second)
			r.stop()
			assert.Equal(t, "told to stop; lead returns; the Lease is held by b", r.end(), "b leads")
		})
	})
	t.Run("told to stop before it has begun, it runs nothing", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.server.take("b")
			r.begin(t, untilTold)
			r.stop()
			assert.Equal(t, "told to stop; lead returns; the Lease is held by b", r.end(), "b leads")
		})
	})
	t.Run("what it acquires while it is told to stop is freed, and nothing runs", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.server.written = sync.OnceFunc(func() { r.stop(); synctest.Wait() })
			r.begin(t, untilTold)
			assert.Equal(t, "told to stop; lead returns; the Lease is free", r.end(), "a is told to stop while the API server writes its name into the Lease")
		})
	})
	t.Run("work that is told to stop before it begins is not begun", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			r.note(how(runUntil(ctx, t.Context(), time.Second, func(context.Context) error { r.note("work begins"); return errNoKey })))
			assert.Equal(t, "runUntil returns; there is no Lease", strings.Replace(r.told(), "lead", "runUntil", 1), "ctx has ended before runUntil is called")
		})
	})
	t.Run("an election that cannot be is a failure", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			c := replicaA(t)
			c.ComponentConfig.Generic.LeaderElection.RetryPeriod.Duration = time.Hour
			said := "lead returns"
			if leadWith(t.Context(), c, &r.server, r.health, untilTold) != nil {
				said = "lead fails"
			}
			assert.Equal(t, "lead fails", said, "the retry period is an hour, the renew deadline 10 s")
		})
	})
	t.Run("the check of health knows of the election", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, untilTold)
			time.Sleep(time.Minute)
			synctest.Wait()
			said := "a is in good health"
			if r.health.Check(nil) != nil {
				said = "a is late"
			}
			assert.Equal(t, "a is late", said, "the check of this test calls every leader late that it has heard of")
			r.stop()
			r.end()
		})
	})
}

func TestALeaderThatIsCutOff(t *testing.T) {
	t.Parallel()
	t.Run("it ends its work before its Lease has run out, and fails", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, untilTold)
			time.Sleep(time.Minute)
			r.server.answer(false)
			assert.Equal(t, "work begins; work ends; lead fails, as the Lease is lost; the Lease is held by a", r.end(), "the API server is away from now on")
		})
	})
	t.Run("it leaves the Lease alone", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error { <-ctx.Done(); r.server.answer(true); return nil })
			time.Sleep(time.Minute)
			r.server.answer(false)
			assert.Equal(t, "work begins; work ends; lead fails, as the Lease is lost; the Lease is held by a", r.end(), "the API server is away, and back when a has given up")
		})
	})
	t.Run("it waits for its work to end", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error { <-ctx.Done(); time.Sleep(2 * time.Second); return nil })
			time.Sleep(time.Minute)
			r.server.answer(false)
			assert.Equal(t, "work begins; work ends; lead fails, as the Lease is lost; the Lease is held by a", r.end(), "the API server is away, and the work takes 2 s to end")
		})
	})
	t.Run("it waits no longer than its Lease lasts", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			hang := make(chan struct{})
			defer close(hang)
			r.begin(t, func(context.Context) error { <-hang; return nil })
			time.Sleep(time.Minute + time.Second)
			r.server.answer(false)
			assert.Equal(t, "work begins; lead fails, as the Lease is lost and work still running; the Lease of a has run out", r.end(), "the API server is away, and the work does not end")
			assert.Equal(t, "15s after the last renewal", fmt.Sprintf("%s after the last renewal", r.server.age()), "the API server is away, and the work does not end")
		})
	})
	t.Run("what its work has failed with is told, too", func(t *testing.T) {
		elect(t, func(t *testing.T, r *replica) {
			r.begin(t, func(ctx context.Context) error { <-ctx.Done(); return errNoKey })
			time.Sleep(time.Minute)
			r.server.answer(false)
			assert.Equal(t, "work begins; work ends; lead fails, as the Lease is lost and there is no key; the Lease is held by a", r.end(), "the API server is away, and the work fails")
		})
	})
}

// age is how long ago the Lease was written.
func (s *leaseServer) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lease.RenewTime.Time)
}
