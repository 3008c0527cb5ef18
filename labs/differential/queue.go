package differential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// queue is a loop's work queue that gives out a key when it is told to. One worker takes keys from it.
type queue[K comparable] struct {
	keys  chan K
	taken chan struct{} // the worker has come back for the next key

	eager int // failures of a key after which it is tried again at once

	mu       sync.Mutex
	ready    []K
	retry    []K // to be added when the sync is over that has failed
	due      map[K]time.Time
	failures map[K]int
	closed   bool
}

var _ workqueue.TypedRateLimitingInterface[string] = &queue[string]{}

func newQueue[K comparable](eager int) *queue[K] {
	return &queue[K]{eager: eager, keys: make(chan K), taken: make(chan struct{}), due: map[K]time.Time{}, failures: map[K]int{}}
}

// newsPeriod is how long kcm collects news of pods before it looks at their ReplicaSet. That wait is none here, so that both
// managers look at the same moment.
const newsPeriod = 100 * time.Millisecond

// Add puts a key at the end, unless it is there.
func (q *queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(key)
}

func (q *queue[K]) add(key K) {
	if !slices.Contains(q.ready, key) {
		q.ready = append(q.ready, key)
	}
}

// AddAfter adds a key later. Of two times the earlier counts.
func (q *queue[K]) AddAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delay <= 0 || delay == newsPeriod {
		q.add(key)
		return
	}
	q.later(key, delay)
}

func (q *queue[K]) later(key K, delay time.Duration) {
	at := time.Now().Add(delay)
	if due, waits := q.due[key]; !waits || at.Before(due) {
		q.due[key] = at
	}
}

// AddRateLimited adds a key after 5 ms, and with each failure after twice the time, as client-go does for controllers. The
// first few times it adds it at once.
func (q *queue[K]) AddRateLimited(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failures[key] < q.eager {
		q.retry = []K{key}
	} else {
		q.later(key, 5*time.Millisecond<<min(q.failures[key], 17))
	}
	q.failures[key]++
}

// Forget has the next failure of a key be its first. If it was added in the sync that ends so, that was no failure: the
// original looks again in this way when a deadline is near.
func (q *queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, key)
	if slices.Contains(q.retry, key) {
		q.retry = nil
		q.later(key, 5*time.Millisecond)
	}
}

// NumRequeues returns how often a key has failed.
func (q *queue[K]) NumRequeues(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures[key]
}

// allFailures returns how often all keys together have failed.
func (q *queue[K]) allFailures() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, failures := range q.failures {
		n += failures
	}
	return n
}

// Get is the worker's.
func (q *queue[K]) Get() (key K, shutdown bool) {
	key, open := <-q.keys
	return key, !open
}

// Done tells whoever has asked for the sync that it is done.
func (q *queue[K]) Done(K) {
	q.mu.Lock()
	for _, key := range q.retry {
		q.add(key)
	}
	q.retry = nil
	q.mu.Unlock()
	q.taken <- struct{}{}
}

// Len returns how many keys could be synced now.
func (q *queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, key := range slices.SortedFunc(maps.Keys(q.due), q.byTime) {
		if !q.due[key].After(now) {
			delete(q.due, key)
			q.add(key)
		}
	}
	return len(q.ready)
}

func (q *queue[K]) byTime(a, b K) int {
	return cmp.Or(q.due[a].Compare(q.due[b]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
}

// sync has the worker sync the first key by name, and waits for it. It returns false when there is none. Which one came
// first may be by chance, for an informer lists in no order.
func (q *queue[K]) sync() bool {
	if q.Len() == 0 {
		return false
	}
	q.mu.Lock()
	key := slices.MinFunc(q.ready, func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	q.ready = slices.DeleteFunc(q.ready, func(k K) bool { return k == key })
	q.mu.Unlock()
	q.keys <- key
	<-q.taken
	return true
}

// next returns when the next key is due that waits, or the zero time.
func (q *queue[K]) next() (first time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range q.due {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// ShutDown ends the worker.
func (q *queue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		close(q.keys)
	}
	q.closed = true
}

// ShutDownWithDrain ends the worker.
func (q *queue[K]) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown tells whether the worker is to end.
func (q *queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
