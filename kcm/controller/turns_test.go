package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
)

func TestKeysOfOneNamespaceDoNotWaitForAllOfAnother(t *testing.T) {
	t.Parallel()
	queue := &fairQueue[cache.ObjectName]{most: 9, busy: map[string]int{}}
	push := func(namespace string, count int) {
		for i := range count {
			queue.Push(cache.NewObjectName(namespace, fmt.Sprint(i)))
		}
	}
	push("many", 5)
	push("few", 2)
	var order []string
	for range 3 {
		order = append(order, queue.Pop().String())
	}
	push("late", 1)
	assert.Equal(t, 5, queue.Len())
	for queue.Len() > 0 {
		order = append(order, queue.Pop().String())
	}
	assert.Equal(t, []string{"many/0", "few/0", "many/1", "few/1", "many/2", "late/0", "many/3", "many/4"}, order)
}

// runFor runs a loop for a while.
func runFor[K comparable](t *testing.T, loop *Loop[K], workers int, period time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), period)
	defer stop()
	loop.Run(ctx, workers)
}

func TestOneNamespaceDoesNotHaveAllWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy, most, begun := 0, 0, map[string]time.Duration{}
		start := time.Now()
		loop := NewLoop(LoopConfig[cache.ObjectName]{Sync: func(_ context.Context, key cache.ObjectName) error {
			mu.Lock()
			begun[key.String()] = time.Since(start)
			if key.Namespace == "slow" {
				busy++
				most = max(most, busy)
			}
			mu.Unlock()
			if key.Namespace == "slow" {
				time.Sleep(time.Minute)
				mu.Lock()
				busy--
				mu.Unlock()
			}
			return nil
		}})
		for i := range 10 {
			loop.Add(cache.NewObjectName("slow", fmt.Sprint(i)))
		}
		var running sync.WaitGroup
		running.Go(func() { runFor(t, loop, 3, time.Hour) })
		time.Sleep(time.Second)
		loop.Add(cache.NewObjectName("quick", "web"))
		running.Wait()
		assert.Equal(t, 3, most, "syncs of one namespace at a time")
		assert.Equal(t, time.Second, begun["quick/web"], "when the object of the other namespace was synced")
		assert.Len(t, begun, 11, "each was synced in the end")
		assert.Equal(t, 3*time.Minute, begun["slow/9"], "no worker was idle meanwhile")
	})
}

func TestAKeyThatChangesWhileItWaitsForAWorkerIsSyncedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		syncs := map[string]int{}
		loop := NewLoop(LoopConfig[cache.ObjectName]{Sync: func(_ context.Context, key cache.ObjectName) error {
			syncs[key.Name]++
			time.Sleep(time.Minute)
			return nil
		}})
		loop.Add(cache.NewObjectName("a", "first"))
		loop.Add(cache.NewObjectName("a", "second"))
		var running sync.WaitGroup
		running.Go(func() { runFor(t, loop, 1, time.Hour) })
		time.Sleep(time.Second)
		for range 3 {
			loop.Add(cache.NewObjectName("a", "second"))
		}
		running.Wait()
		assert.Equal(t, map[string]int{"first": 1, "second": 1}, syncs)
	})
}

func TestAKeyThatWaitsForAWorkerIsNotOvertakenInItsNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []string
		loop := NewLoop(LoopConfig[cache.ObjectName]{Sync: func(_ context.Context, key cache.ObjectName) error {
			mu.Lock()
			begun = append(begun, key.String())
			mu.Unlock()
			time.Sleep(time.Minute)
			return nil
		}})
		loop.Add(cache.NewObjectName("a", "first"))
		loop.Add(cache.NewObjectName("a", "second"))
		var running sync.WaitGroup
		running.Go(func() { runFor(t, loop, 1, time.Hour) })
		time.Sleep(time.Second)
		loop.Add(cache.NewObjectName("b", "web"))
		time.Sleep(time.Second)
		loop.Add(cache.NewObjectName("a", "third"))
		running.Wait()
		assert.Equal(t, []string{"a/first", "b/web", "a/second", "a/third"}, begun)
	})
}

func TestEachKeyIsSyncedHoweverFewWorkersItsNamespaceHas(t *testing.T) {
	t.Parallel()
	for workers := range 4 {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			busy, syncs := map[string]int{}, map[string]int{}
			var loop *Loop[cache.ObjectName]
			loop = NewLoop(LoopConfig[cache.ObjectName]{Sync: func(_ context.Context, key cache.ObjectName) error {
				mu.Lock()
				busy[key.Namespace]++
				busy[key.String()]++
				syncs[key.String()]++
				assert.LessOrEqual(t, busy[key.Namespace], workers+1, "syncs of one namespace at a time")
				assert.Equal(t, 1, busy[key.String()], "syncs of one object at a time")
				n := syncs[key.String()]
				mu.Unlock()
				if n < 3 {
					loop.Add(key) // it has changed
				}
				time.Sleep(time.Duration(len(key.Namespace)*(n+int(key.Name[0]))%7) * time.Second)
				mu.Lock()
				busy[key.Namespace]--
				busy[key.String()]--
				mu.Unlock()
				return nil
			}})
			for i := range 60 {
				loop.Add(cache.NewObjectName([]string{"a", "bb", "ccc"}[i%3], fmt.Sprint(i)))
			}
			runFor(t, loop, workers+1, time.Hour)
			assert.Len(t, syncs, 60)
			for key, n := range syncs {
				assert.Equal(t, 3, n, "%s with %d workers", key, workers+1)
			}
		})
	}
}

// figure returns what a metric of a queue says: of a histogram, its sum.
func figure(t *testing.T, name, queue string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == name && m.Label[0].GetValue() == queue {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	require.Fail(t, "no figure", "%s of queue %s", name, queue)
	return 0
}

func TestAKeyThatWaitsForAWorkerIsNotOneThatIsWorkedOn(t *testing.T) {
	t.Parallel()
	crowded := fmt.Sprintf("crowded-%p", t) // metrics stay for the next run
	synctest.Test(t, func(t *testing.T) {
		loop := NewLoop(LoopConfig[cache.ObjectName]{QueueName: crowded, Sync: func(context.Context, cache.ObjectName) error {
			time.Sleep(time.Minute)
			return nil
		}})
		for i := range 3 {
			loop.Add(cache.NewObjectName("a", fmt.Sprint(i)))
		}
		var running sync.WaitGroup
		running.Go(func() { runFor(t, loop, 1, time.Hour) })
		time.Sleep(90 * time.Second)
		synctest.Wait()
		assert.InDelta(t, 1, figure(t, "workqueue_depth", crowded), 0, "the third waits")
		assert.InDelta(t, 30, figure(t, "workqueue_longest_running_processor_seconds", crowded), 1, "the second has begun when the first had ended")
		assert.InDelta(t, 30, figure(t, "workqueue_unfinished_work_seconds", crowded), 1)
		running.Wait()
		assert.InDelta(t, 3, figure(t, "workqueue_adds_total", crowded), 0)
		assert.InDelta(t, 180, figure(t, "workqueue_work_duration_seconds", crowded), 1, "each took a minute")
		assert.InDelta(t, 180, figure(t, "workqueue_queue_duration_seconds", crowded), 1, "they have waited for none, one and two minutes")
	})
}

func TestRequestsOfOneNamespaceDoNotWaitForAllOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := NewFairLimiter(10, 5)
		start := time.Now()
		var mu sync.Mutex
		sent := map[string][]time.Duration{}
		var running sync.WaitGroup
		send := func(namespace string, count int) {
			for range count {
				running.Go(func() {
					assert.NoError(t, limiter.Wait(inNamespace(t.Context(), namespace)))
					mu.Lock()
					defer mu.Unlock()
					sent[namespace] = append(sent[namespace], time.Since(start))
				})
			}
			synctest.Wait()
		}
		send("many", 505)
		send("few", 2)
		send("", 1)
		running.Wait()
		assert.Equal(t, time.Duration(0), sent["many"][4], "a burst of five goes at once")
		assert.Equal(t, []time.Duration{200 * time.Millisecond, 500 * time.Millisecond}, sent["few"],
			"each waits for one of the others, and not for 500")
		assert.Equal(t, []time.Duration{300 * time.Millisecond}, sent[""], "what is of no namespace has a line of its own")
		assert.Equal(t, 50300*time.Millisecond, sent["many"][504], "ten a second in all")
	})
}

func TestARequestThatIsGivenUpTakesNobodysTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := NewFairLimiter(1, 1)
		assert.NoError(t, limiter.Wait(t.Context()))
		given, giveUp := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 10 {
			running.Go(func() { assert.ErrorIs(t, limiter.Wait(given), context.Canceled) })
		}
		synctest.Wait()
		start := time.Now()
		running.Go(func() { assert.NoError(t, limiter.Wait(t.Context())) })
		synctest.Wait()
		assert.False(t, limiter.TryAccept(), "some wait already")
		giveUp()
		running.Wait()
		assert.Equal(t, time.Second, time.Since(start), "how long the request waited that was not given up")
	})
}

func TestAnUnusedLimiterLetsABurstThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := NewFairLimiter(2, 3)
		assert.EqualValues(t, 2, limiter.QPS())
		for range 2 {
			for range 3 {
				assert.True(t, limiter.TryAccept())
			}
			assert.False(t, limiter.TryAccept())
			time.Sleep(time.Minute)
		}
		start := time.Now()
		limiter.Accept()
		assert.Zero(t, time.Since(start))
	})
}
