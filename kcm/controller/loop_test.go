package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/component-base/metrics/testutil"
)

func init() {
	// One of the handlers sleeps when errors come fast, by the time of the last
	// error anywhere in the process. When that was the real time, in a
	// synctest bubble, where it is the year 2000, it sleeps for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

var errSync = errors.New("sync failed")

// calls notes when the sync function of a loop was called for which key.
type calls struct {
	lock  sync.Mutex
	start time.Time
	keys  []string
	times []time.Duration
}

func newCalls() *calls { return &calls{start: time.Now()} }

// note adds a call and returns the number of calls for key so far.
func (c *calls) note(key string) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.keys = append(c.keys, key)
	c.times = append(c.times, time.Since(c.start))
	n := 0
	for _, k := range c.keys {
		if k == key {
			n++
		}
	}
	return n
}

func (c *calls) list() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return append([]string{}, c.keys...)
}

// run runs a loop inside a synctest bubble until body returns and its workers
// have finished.
func run(t *testing.T, workers int, config LoopConfig[string], body func(loop *Loop[string])) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	loop := NewLoop(config)
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx, workers) })
	body(loop)
	stop()
	running.Wait()
}

func TestAFailingKeyIsTriedAgainAfterGrowingDelaysUntilItSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{MaxRetries: RetryForever, Sync: func(_ context.Context, key string) error {
			if seen.note(key) < 5 {
				return errSync
			}
			return nil
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(time.Hour)
		})
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{0, 5 * ms, 15 * ms, 35 * ms, 75 * ms}, seen.times)
	})
}

func TestAKeyThatWaitsForTheCacheIsTriedAgainHoweverOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{Name: "waits", MaxRetries: 1, Sync: func(_ context.Context, key string) error {
			if seen.note(key) < 5 {
				return fmt.Errorf("not yet: %w", ErrStaleCache)
			}
			return nil
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(time.Hour)
		})
		assert.Len(t, seen.list(), 5)
		failures, err := testutil.GetCounterMetricValue(syncErrors.WithLabelValues("waits"))
		require.NoError(t, err)
		assert.Zero(t, failures, "waiting is no failure")
	})
}

func TestDelaysStartSmallAgainAfterASuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{MaxRetries: RetryForever, Sync: func(_ context.Context, key string) error {
			if n := seen.note(key); n == 3 || n == 5 {
				return nil
			}
			return errSync
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(time.Hour)
			loop.Add("a")
			time.Sleep(time.Hour)
		})
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{0, 5 * ms, 15 * ms, time.Hour, time.Hour + 5*ms}, seen.times)
	})
}

func TestAKeyThatFailsTooOftenIsGivenUpUntilItIsAddedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{MaxRetries: 3, Sync: func(_ context.Context, key string) error {
			seen.note(key)
			return errSync
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(time.Hour)
			assert.Len(t, seen.list(), 1+3)
			loop.Add("a")
			time.Sleep(time.Hour)
			assert.Len(t, seen.list(), 2*(1+3), "it has all its retries again")
		})
	})
}

func TestALoopThatRetriesForeverDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{MaxRetries: RetryForever, Sync: func(_ context.Context, key string) error {
			seen.note(key)
			return errSync
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(24 * time.Hour)
			before := len(seen.list())
			assert.Greater(t, before, 50)
			time.Sleep(time.Hour)
			assert.Greater(t, len(seen.list()), before, "it still tries after a day")
		})
	})
}

func TestKeysAddedBeforeRunAreSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		loop := NewLoop(LoopConfig[string]{Sync: func(_ context.Context, key string) error {
			seen.note(key)
			return nil
		}})
		loop.Add("a")
		loop.Add("b")
		loop.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { loop.Run(ctx, 1) })
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a", "b"}, seen.list(), "each once, however often it was added")
		stop()
		running.Wait()
	})
}

func TestAKeyIsNotSyncedByTwoWorkersAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lock sync.Mutex
		busy, most := map[string]int{}, map[string]int{}
		all, mostAll := 0, 0
		change := func(key string, by int) {
			lock.Lock()
			defer lock.Unlock()
			busy[key] += by
			all += by
			most[key] = max(most[key], busy[key])
			mostAll = max(mostAll, all)
		}
		seen := newCalls()
		run(t, 4, LoopConfig[string]{Sync: func(_ context.Context, key string) error {
			seen.note(key)
			change(key, 1)
			time.Sleep(time.Second)
			change(key, -1)
			return nil
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			loop.Add("b")
			synctest.Wait()
			loop.Add("a") // while it is being synced
			loop.Add("a")
			time.Sleep(time.Minute)
		})
		assert.Equal(t, map[string]int{"a": 1, "b": 1}, most)
		assert.Equal(t, 2, mostAll, "different keys are synced side by side")
		assert.ElementsMatch(t, []string{"a", "b", "a"}, seen.list(), "what came in the meantime is synced once afterwards")
	})
}

func TestAddAfterSyncsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{Sync: func(_ context.Context, key string) error {
			seen.note(key)
			return nil
		}}, func(loop *Loop[string]) {
			loop.AddAfter("a", time.Minute)
			time.Sleep(time.Hour)
		})
		assert.Equal(t, []time.Duration{time.Minute}, seen.times)
	})
}

func TestRunReturnsAfterTheLastWorkerHasFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var finished time.Duration
		run(t, 2, LoopConfig[string]{MaxRetries: RetryForever, Sync: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			time.Sleep(time.Minute) // a request that takes its time
			finished = time.Since(start)
			return ctx.Err()
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			synctest.Wait()
		})
		assert.Equal(t, time.Minute, finished)
		assert.Equal(t, time.Minute, time.Since(start), "and no later")
	})
}

func TestNothingIsBegunAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var synced []string
		run(t, 1, LoopConfig[string]{MaxRetries: RetryForever, Sync: func(ctx context.Context, key string) error {
			synced = append(synced, key)
			<-ctx.Done()
			return nil
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			loop.Add("b")
			synctest.Wait()
		})
		assert.Equal(t, []string{"a"}, synced, "b was in the queue when the loop was stopped")
	})
}

func TestNothingIsSyncedBeforeTheCachesAreFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		filled := func() bool { return time.Since(start) >= time.Minute }
		seen := newCalls()
		loop := NewLoop(LoopConfig[string]{Sync: func(_ context.Context, key string) error {
			assert.True(t, filled())
			seen.note(key)
			return nil
		}})
		loop.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { loop.Run(ctx, 1, filled) })
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"a"}, seen.list())
		stop()
		running.Wait()
	})
}

func TestRunReturnsWhenItIsStoppedBeforeTheCachesAreFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		loop := NewLoop(LoopConfig[string]{Sync: func(_ context.Context, key string) error {
			seen.note(key)
			return nil
		}})
		loop.Add("a")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		loop.Run(ctx, 1, func() bool { return false })
		assert.Empty(t, seen.list())
	})
}

func TestSyncsAndTheirErrorsAreCounted(t *testing.T) {
	t.Parallel()
	const name = "counted"
	failedBefore, countBefore, secondsBefore := syncMetrics(t, name)
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		run(t, 1, LoopConfig[string]{Name: name, MaxRetries: RetryForever, Sync: func(_ context.Context, key string) error {
			time.Sleep(time.Second)
			if seen.note(key) < 3 {
				return errSync
			}
			return nil
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(time.Hour)
		})
	})
	failed, count, seconds := syncMetrics(t, name)
	assert.InDelta(t, 2, failed-failedBefore, 0)
	assert.Equal(t, uint64(3), count-countBefore)
	assert.InDelta(t, 3, seconds-secondsBefore, 0.001)
}

func syncMetrics(t *testing.T, loop string) (failed float64, count uint64, seconds float64) {
	t.Helper()
	registerSyncMetrics()
	failed, err := testutil.GetCounterMetricValue(syncErrors.WithLabelValues(loop))
	require.NoError(t, err)
	count, err = testutil.GetHistogramMetricCount(syncDuration.WithLabelValues(loop))
	require.NoError(t, err)
	seconds, err = testutil.GetHistogramMetricValue(syncDuration.WithLabelValues(loop))
	require.NoError(t, err)
	return failed, count, seconds
}
