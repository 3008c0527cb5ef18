package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/cache"
)

func TestKeysOfOneNamespaceDoNotWaitForAllOfAnother(t *testing.T) {
	t.Parallel()
	queue := &fairQueue[cache.ObjectName]{}
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
