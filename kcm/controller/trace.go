package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// trace has whoever listens be told what passes the queue, and of each sync when
// it begins and ends.
func (l *Loop[K]) trace(limiter workqueue.TypedRateLimiter[K]) {
	queue := &tracedQueue[K]{TypedRateLimitingInterface: l.queue, limiter: limiter, loop: l.Name}
	l.queue = queue
	untold := l.Sync
	l.Sync = func(ctx context.Context, key K) error {
		if !trace.On() {
			return untold(ctx, key)
		}
		queue.due.Delete(key)
		ctx, told := trace.Begin(ctx, l.Name, key)
		err := untold(ctx, key)
		told.End(err)
		return err
	}
}

// tracedQueue tells of the keys that are added.
type tracedQueue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	limiter workqueue.TypedRateLimiter[K]
	loop    string
	due     sync.Map // from keys that wait to when they are due, as far as that was told
}

// Add tells that the key is to be synced at once.
func (q *tracedQueue[K]) Add(key K) {
	q.tell(key, 0)
	q.TypedRateLimitingInterface.Add(key)
}

// AddAfter tells when the key is to be synced.
func (q *tracedQueue[K]) AddAfter(key K, delay time.Duration) {
	q.tell(key, delay)
	q.TypedRateLimitingInterface.AddAfter(key, delay)
}

// AddRateLimited does what the queue does, which does not tell the delay.
func (q *tracedQueue[K]) AddRateLimited(key K) { q.AddAfter(key, q.limiter.When(key)) }

// tell tells of a key, unless it waits already and is due no later than that.
func (q *tracedQueue[K]) tell(key K, delay time.Duration) {
	if !trace.On() {
		return
	}
	now := time.Now()
	due := now.Add(max(delay, 0))
	if before, waits := q.due.Load(key); waits && now.Before(before.(time.Time)) && !due.Before(before.(time.Time)) {
		return
	}
	q.due.Store(key, due)
	trace.Enqueue(q.loop, key, due.Sub(now))
}
