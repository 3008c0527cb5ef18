package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// retries is a rate limiter that counts at most one failure of a key for each of
// its delays. What wakes the key meanwhile may have it fail ten times more, and
// its next try is no later for that.
type retries[K comparable] struct {
	workqueue.TypedRateLimiter[K]
	due sync.Map // from keys to when their next try is
}

// When returns how long the key is to wait for its next try.
func (r *retries[K]) When(key K) time.Duration {
	now := time.Now()
	if due, ok := r.due.Load(key); ok && now.Before(due.(time.Time)) {
		return due.(time.Time).Sub(now)
	}
	delay := r.TypedRateLimiter.When(key)
	r.due.Store(key, now.Add(delay))
	return delay
}

// Forget has the key's next failure be its first.
func (r *retries[K]) Forget(key K) {
	r.due.Delete(key)
	r.TypedRateLimiter.Forget(key)
}
