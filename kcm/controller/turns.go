package controller

import (
	"context"
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

// fairQueue has the keys of a [Loop] wait in turns. The work queue calls it with
// its lock held.
type fairQueue[K comparable] struct{ turns[K] }

func (q *fairQueue[K]) Touch(K)    {}
func (q *fairQueue[K]) Push(key K) { q.push(namespaceOf(key), key) }
func (q *fairQueue[K]) Len() int   { return q.count }
func (q *fairQueue[K]) Pop() K     { return q.pop() }

// newQueue returns a queue in which the keys of each namespace stand in a line of
// their own.
func newQueue[K comparable](name string, limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
	keys := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: &fairQueue[K]{}})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: keys})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delayed})
}

// shares lets the objects of one namespace have so many workers of a loop and no
// more, however long each of them takes.
type shares[K comparable] struct {
	most int

	mu   sync.Mutex
	busy map[string]int // how many workers each namespace has
	over map[string][]K // keys that were taken out of the queue and wait for one of these
}

func newShares[K comparable](most int) *shares[K] {
	return &shares[K]{most: most, busy: map[string]int{}, over: map[string][]K{}}
}

// take tells whether a key may be synced now. If not, it is kept until a worker of
// its namespace is free.
func (s *shares[K]) take(key K) bool {
	namespace := namespaceOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[namespace] == s.most {
		s.over[namespace] = append(s.over[namespace], key)
		return false
	}
	s.busy[namespace]++
	return true
}

// give says that a key was synced, and returns one that has waited for that.
func (s *shares[K]) give(key K) (next K, waits bool) {
	namespace := namespaceOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[namespace]--; s.busy[namespace] == 0 {
		delete(s.busy, namespace)
	}
	line := s.over[namespace]
	switch len(line) {
	case 0:
		return next, false
	case 1:
		delete(s.over, namespace)
	default:
		s.over[namespace] = line[1:]
	}
	return line[0], true
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
