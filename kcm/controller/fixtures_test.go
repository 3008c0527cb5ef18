package controller

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// reports are the errors that were handed to the process, for tests that are not parallel.
var reports struct {
	lock   sync.Mutex
	errors []error
}

func init() {
	// One of the handlers sleeps when errors come fast, by the time of the last
	// error anywhere in the process. When that was the real time, in a
	// synctest bubble, where it is the year 2000, it sleeps for decades.
	utilruntime.ErrorHandlers = append(utilruntime.ErrorHandlers[:1:1], func(_ context.Context, err error, _ string, _ ...any) {
		reports.lock.Lock()
		defer reports.lock.Unlock()
		reports.errors = append(reports.errors, err)
	})
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
	runWith(t.Context(), workers, config, body)
}

// runWith runs a loop in the same way, with a context of its own.
func runWith(ctx context.Context, workers int, config LoopConfig[string], body func(loop *Loop[string])) {
	ctx, stop := context.WithCancel(ctx)
	loop := NewLoop(config)
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx, workers) })
	body(loop)
	stop()
	running.Wait()
}
