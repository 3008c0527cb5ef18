package controller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/testutil"
)

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
			switch seen.note(key) {
			case 1, 2:
				return errSync
			case 3:
				return errStale
			}
			return nil
		}}, func(loop *Loop[string]) {
			loop.Add("a")
			time.Sleep(time.Hour)
		})
	})
	failed, count, seconds := syncMetrics(t, name)
	assert.InDelta(t, 2, failed-failedBefore, 0, "waiting for the cache is no failure")
	assert.Equal(t, uint64(4), count-countBefore)
	assert.InDelta(t, 4, seconds-secondsBefore, 0.001)
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
