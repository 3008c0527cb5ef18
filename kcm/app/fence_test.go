package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// writable is a Lease that can be written, or not.
type writable struct {
	resourcelock.Interface
	takes time.Duration
	err   error
}

func (w *writable) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(w.takes) // on the clock of the bubble
	return w.err
}

func (w *writable) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return w.Update(ctx, record)
}

// passes is a server that answers all.
type passes struct{}

func (passes) RoundTrip(*http.Request) (*http.Response, error) { return &http.Response{}, nil }

func TestALeaderWritesNothingWhenItsLeaseMayBeAnothers(t *testing.T) {
	t.Parallel()
	fifteen := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 15}
	tests := map[string]struct {
		happens func(t *testing.T, f *fence, lock *writable)
		writes  bool
	}{
		"before the Lease is taken": {func(*testing.T, *fence, *writable) {}, false},
		"when it was just taken":    {func(t *testing.T, f *fence, _ *writable) { require.NoError(t, f.Create(t.Context(), fifteen)) }, true},
		"as long as it keeps others out": {func(t *testing.T, f *fence, _ *writable) {
			require.NoError(t, f.Update(t.Context(), fifteen))
			time.Sleep(14*time.Second - 1)
		}, true},
		"when it may have been taken": {func(t *testing.T, f *fence, _ *writable) {
			require.NoError(t, f.Update(t.Context(), fifteen))
			time.Sleep(14 * time.Second)
		}, false},
		"after another renewal": {func(t *testing.T, f *fence, _ *writable) {
			require.NoError(t, f.Create(t.Context(), fifteen))
			time.Sleep(10 * time.Second)
			require.NoError(t, f.Update(t.Context(), fifteen))
			time.Sleep(10 * time.Second)
		}, true},
		"after a renewal that has failed": {func(t *testing.T, f *fence, lock *writable) {
			require.NoError(t, f.Create(t.Context(), fifteen))
			time.Sleep(10 * time.Second)
			lock.err = errors.New("away")
			require.Error(t, f.Update(t.Context(), fifteen))
			time.Sleep(5 * time.Second)
		}, false},
		"when the answer to a renewal was late": {func(t *testing.T, f *fence, lock *writable) {
			lock.takes = 10 * time.Second
			require.NoError(t, f.Update(t.Context(), fifteen))
			time.Sleep(5 * time.Second)
		}, false},
		"under a Lease of a second": {func(t *testing.T, f *fence, _ *writable) {
			require.NoError(t, f.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}))
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lock := &writable{}
				f := &fence{Interface: lock}
				test.happens(t, f, lock)
				client := f.guard(passes{})
				for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
					_, err := client.RoundTrip(httptest.NewRequest(method, "/", nil))
					if test.writes {
						require.NoError(t, err, method)
					} else {
						require.ErrorIs(t, err, errFenced, method)
					}
				}
				_, err := client.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
				require.NoError(t, err, "who only reads does no harm")
			})
		})
	}
}
