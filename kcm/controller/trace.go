package controller

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// trace has whoever listens be told what passes the queue, and of each sync when
// it begins and ends.
func (l *Loop[K]) trace(limiter workqueue.TypedRateLimiter[K]) {
	l.queue = tracedQueue[K]{l.queue, limiter, l.Name}
	untold := l.Sync
	l.Sync = func(ctx context.Context, key K) error {
		if !trace.On() {
			return untold(ctx, key)
		}
		ctx, sync := trace.Begin(ctx, l.Name, key)
		err := untold(ctx, key)
		sync.End(err)
		return err
	}
}

// tracedQueue tells of the keys that are added.
type tracedQueue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	limiter workqueue.TypedRateLimiter[K]
	loop    string
}

// Add tells that the key is to be synced at once.
func (q tracedQueue[K]) Add(key K) {
	q.tell(key, 0)
	q.TypedRateLimitingInterface.Add(key)
}

// AddAfter tells when the key is to be synced.
func (q tracedQueue[K]) AddAfter(key K, delay time.Duration) {
	q.tell(key, delay)
	q.TypedRateLimitingInterface.AddAfter(key, delay)
}

// AddRateLimited does what the queue does, which does not tell the delay.
func (q tracedQueue[K]) AddRateLimited(key K) { q.AddAfter(key, q.limiter.When(key)) }

func (q tracedQueue[K]) tell(key K, delay time.Duration) {
	if trace.On() {
		step := trace.About(trace.Queued, q.loop, key)
		step.Seconds = max(delay, 0).Seconds()
		trace.Tell(step)
	}
}
