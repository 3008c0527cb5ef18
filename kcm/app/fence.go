package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errFenced is the answer to what a leader asks for when another one may lead.
var errFenced = errors.New("the Lease was not renewed for so long that another replica may lead: nothing is written")

// fence is a Lease, and keeps the clients of a leader from writing when somebody
// else may hold it: after a freeze a leader goes on where it was, and its
// elector finds out only when it has tried to renew for a renew deadline. What
// has left the process by then is done, however late it arrives.
type fence struct {
	resourcelock.Interface
	until atomic.Pointer[time.Time] // when it runs out; nil before it was ours
}

// Create takes a Lease that there was not.
func (f *fence) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begin := time.Now()
	return f.renewed(begin, record, f.Interface.Create(ctx, record))
}

// Update takes the Lease, or renews or releases it.
func (f *fence) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begin := time.Now()
	return f.renewed(begin, record, f.Interface.Update(ctx, record))
}

// renewed notes until when a Lease keeps the others out, if it could be written.
// They count from when they read it, which is after the writing began. But what
// is renewed twice within a second looks the same to them, so that second is not
// counted on; of a Lease of a second, half.
func (f *fence) renewed(begin time.Time, record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		lasts := time.Duration(record.LeaseDurationSeconds) * time.Second
		until := begin.Add(max(lasts-time.Second, lasts/2))
		f.until.Store(&until)
	}
	return err
}

// guard lets pass what reads, and what writes while the Lease keeps the others
// out. The clocks of the replicas need not agree: each counts by its own, as the
// election does.
func (f *fence) guard(next http.RoundTripper) http.RoundTripper { return guarded{f, next} }

// guarded is what a fence guards.
type guarded struct {
	fence *fence
	next  http.RoundTripper
}

// RoundTrip asks next, or returns errFenced.
func (g guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	until := g.fence.until.Load()
	if request.Method == http.MethodGet || until != nil && time.Now().Before(*until) {
		return g.next.RoundTrip(request)
	}
	if request.Body != nil {
		request.Body.Close() // nobody reads it
	}
	return nil, errFenced
}
