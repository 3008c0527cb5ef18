package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// turns keeps a line of items for each namespace, and takes one from each in
// turn. However many one namespace has, an item waits for those before it in its
// own line, and for as many of each other namespace.
type turns[T any] struct {
	lines map[string][]T
	next  []string // the namespaces that have a line, in the order of their turns
	count int
}

func (t *turns[T]) push(namespace string, item T) {
	if t.lines == nil {
		t.lines = map[string][]T{}
	}
	if len(t.lines[namespace]) == 0 {
		t.next = append(t.next, namespace)
	}
	t.lines[namespace] = append(t.lines[namespace], item)
	t.count++
}

// pop takes the item whose turn it is. There has to be one.
func (t *turns[T]) pop() T {
	namespace := t.next[0]
	t.next = t.next[1:]
	line := t.lines[namespace]
	item := line[0]
	line[0] = *new(T) // the array is still there, and would keep it
	if line = line[1:]; len(line) == 0 {
		delete(t.lines, namespace)
	} else {
		t.lines[namespace] = line
		t.next = append(t.next, namespace)
	}
	t.count--
	return item
}

// InTurns returns items in another order: one of each namespace, then another one
// of each, and so on. Those of one namespace stay in the order that they have.
func InTurns[T any](items []T, namespaceOf func(T) string) []T {
	var waiting turns[T]
	for _, item := range items {
		waiting.push(namespaceOf(item), item)
	}
	ordered := make([]T, 0, len(items))
	for waiting.count > 0 {
		ordered = append(ordered, waiting.pop())
	}
	return ordered
}

// namespaceOf returns the namespace that a key has a part for, as
// [cache.ObjectName] has. All other keys stand in one line.
func namespaceOf[K comparable](key K) string {
	if object, ok := any(key).(interface {
		Parts() (namespace, name string)
	}); ok {
		namespace, _ := object.Parts()
		return namespace
	}
	return ""
}

// fairQueue has the keys of a [Loop] wait in turns, and lets the objects of one
// namespace have so many workers and no more, however long each of them takes. The
// work queue calls it with its lock held, but for give.
type fairQueue[K comparable] struct {
	turns[K]
	most int // how many workers a namespace may have

	mu   sync.Mutex
	busy map[string]int // how many it has
}

func (q *fairQueue[K]) Touch(K)    {}
func (q *fairQueue[K]) Push(key K) { q.push(namespaceOf(key), key) }

// Len returns how many keys wait, and none if there is no worker left for them.
func (q *fairQueue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.ContainsFunc(q.next, q.mayBegin) {
		return 0
	}
	return q.count
}

// mayBegin tells whether a namespace has a worker left.
func (q *fairQueue[K]) mayBegin(namespace string) bool { return q.busy[namespace] < q.most }

// Pop takes the key whose turn it is. A namespace without a worker left keeps its
// place before the others.
func (q *fairQueue[K]) Pop() K {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := slices.IndexFunc(q.next, q.mayBegin)
	namespace := q.next[first]
	copy(q.next[1:], q.next[:first])
	q.next[0] = namespace
	q.busy[namespace]++
	return q.pop()
}

// give says that the worker of a key is free.
func (q *fairQueue[K]) give(key K) {
	namespace := namespaceOf(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy[namespace]--; q.busy[namespace] == 0 {
		delete(q.busy, namespace)
	}
}

// sharedQueue is a work queue that has its keys in a fairQueue.
type sharedQueue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	fair *fairQueue[K]
}

// newQueue returns the queue of a loop, whose keys wait in fair.
func newQueue[K comparable](name string, limiter workqueue.TypedRateLimiter[K], fair *fairQueue[K]) *sharedQueue[K] {
	keys := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: fair})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: keys})
	return &sharedQueue[K]{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delayed}), fair}
}

// Done says that a key was synced. A key that has waited for its worker wakes no
// other one: the worker itself comes back for the next key.
func (q *sharedQueue[K]) Done(key K) {
	q.fair.give(key)
	q.TypedRateLimitingInterface.Done(key)
}

// FairLimiter lets a client send qps requests a second, and burst at once after
// a pause. Requests that have to wait go in turns: those that a [Loop] sends while
// it syncs an object stand in the line of the object's namespace, all others in
// one of their own. client-go's limiter has one line for all. Of a ReplicaSet that
// wants 500 pods more, 500 requests would go before anybody else's.
//
// It is a [k8s.io/client-go/util/flowcontrol.RateLimiter].
type FairLimiter struct {
	bucket *rate.Limiter

	mu       sync.Mutex
	waiting  turns[request]
	granting bool // a token is on its way to the request whose turn it is then
}

// request waits for a token.
type request struct {
	ctx     context.Context
	granted chan struct{}
}

// NewFairLimiter returns a limiter whose bucket is full.
func NewFairLimiter(qps float32, burst int) *FairLimiter {
	return &FairLimiter{bucket: rate.NewLimiter(rate.Limit(qps), burst)}
}

// Wait returns when a request may be sent, or with an error when ctx has ended.
func (l *FairLimiter) Wait(ctx context.Context) error {
	r := request{ctx, make(chan struct{})}
	l.mu.Lock()
	if !l.granting && l.bucket.Allow() {
		l.mu.Unlock()
		return ctx.Err()
	}
	l.waiting.push(namespaceIn(ctx), r)
	if !l.granting {
		l.granting = true
		l.grantNext()
	}
	l.mu.Unlock()
	select {
	case <-r.granted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// grantNext has the next token given to the request whose turn it is by then.
func (l *FairLimiter) grantNext() { time.AfterFunc(l.bucket.Reserve().Delay(), l.grant) }

func (l *FairLimiter) grant() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.waiting.count > 0 {
		if r := l.waiting.pop(); r.ctx.Err() == nil {
			close(r.granted)
			break
		}
	}
	if l.granting = l.waiting.count > 0; l.granting {
		l.grantNext()
	}
}

// Accept returns when a request may be sent.
func (l *FairLimiter) Accept() { _ = l.Wait(context.Background()) }

// TryAccept tells whether a request may be sent now. None is sent before those
// that wait.
func (l *FairLimiter) TryAccept() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.granting && l.bucket.Allow()
}

// QPS returns how many requests a second the limiter lets through.
func (l *FairLimiter) QPS() float32 { return float32(l.bucket.Limit()) }

// Stop does nothing: what waits ends with its context.
func (l *FairLimiter) Stop() {}

type namespaceKey struct{}

// inNamespace returns a context in which requests are those of a namespace.
func inNamespace(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, namespaceKey{}, namespace)
}

func namespaceIn(ctx context.Context) string {
	namespace, _ := ctx.Value(namespaceKey{}).(string)
	return namespace
}
