package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// RetryForever as [LoopConfig.MaxRetries] keeps a failing key in the queue
// until its sync succeeds.
const RetryForever = -1

// A key whose sync fails comes back after the first, and each time that it fails
// again after twice as long, up to the last.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// LookAgain is when a loop looks again for what it has created. If that is
// deleted while a watch is interrupted, and its creation was not seen either, the
// cache has nothing to tell.
const LookAgain = 5 * time.Second

// StaleDelay is when a loop first looks again whose cache does not show yet what it
// has written, if no notification wakes it before.
const StaleDelay = 100 * time.Millisecond

// ErrStaleCache, wrapped in what Sync returns, says that the caches do not show
// yet what an earlier sync has written. That is no failure: the key is put
// back, nobody is told, and the delay after its next failure does not grow. What
// is waited for may never come, so the key waits each time for as long as it has
// waited already.
var ErrStaleCache = errors.New("the cache is behind")

// isStale tells whether an error says [ErrStaleCache] and nothing else. Of several
// errors that are joined, one may be a failure.
func isStale(err error) bool {
	switch wrapped := err.(type) {
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(wrapped.Unwrap(), func(err error) bool { return !isStale(err) })
	case interface{ Unwrap() error }:
		return isStale(wrapped.Unwrap())
	}
	return err == ErrStaleCache
}

// LoopConfig says how a [Loop] behaves.
type LoopConfig[K comparable] struct {
	// Name of the loop in logs and in the metrics of its syncs.
	Name string
	// QueueName is the name of the queue in the workqueue_* metrics.
	QueueName string
	// Sync brings the object that key names closer to what it should be. It
	// must stop when ctx ends. An error puts the key back with a growing delay.
	Sync func(ctx context.Context, key K) error
	// MaxRetries is how often a failing key is put back before it is given up
	// until something changes. RetryForever never gives up.
	MaxRetries int
	// RateLimiter says when a failing key comes back. Without one that is
	// after 5 ms, and then after twice as long each time, up to 1000 seconds.
	RateLimiter workqueue.TypedRateLimiter[K]
}

// Loop calls a sync function for each key that is added to its queue.
type Loop[K comparable] struct {
	LoopConfig[K]
	queue workqueue.TypedRateLimitingInterface[K]
	fair  *fairQueue[K]
	stale sync.Map // from keys that wait for a cache to since when
}

// NewLoop returns a loop with an empty queue. Keys may be added at once; they
// are handled from the moment when Run is called.
func NewLoop[K comparable](config LoopConfig[K]) *Loop[K] {
	registerSyncMetrics()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstRetry, lastRetry)
	if config.RateLimiter != nil {
		limiter = config.RateLimiter
	}
	limiter = &retries[K]{TypedRateLimiter: limiter}
	fair := &fairQueue[K]{busy: map[string]int{}}
	l := &Loop[K]{LoopConfig: config, queue: newQueue(config.QueueName, limiter, fair), fair: fair}
	l.trace(limiter)
	return l
}

// Add asks for key to be synced soon. A key that waits already is not added
// a second time.
func (l *Loop[K]) Add(key K) { l.queue.Add(key) }

// AddAfter asks for key to be synced when delay has passed.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) { l.queue.AddAfter(key, delay) }

// Run waits until the caches are filled, then syncs keys, as many of one namespace
// at a time as it is told workers. One worker more is for other namespaces. It
// returns when ctx has ended and the last worker has finished what it was doing.
func (l *Loop[K]) Run(ctx context.Context, workers int, synced ...cache.InformerSynced) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("controller", l.Name))
	var running sync.WaitGroup
	defer running.Wait()
	defer l.queue.ShutDown()

	if !cache.WaitForNamedCacheSyncWithContext(ctx, synced...) {
		return
	}
	l.fair.most = workers
	for range workers + 1 {
		running.Go(func() { l.work(ctx) })
	}
	<-ctx.Done()
}

func (l *Loop[K]) work(ctx context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	for l.next(ctx) {
	}
}

// next handles one key. It returns false when the queue was shut down.
func (l *Loop[K]) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true // what is left in the queue is for whoever runs the loop next
	}

	start := time.Now()
	sync := func() error { return l.Sync(inNamespace(ctx, namespaceOf(key)), key) }
	err := Recovered(ctx, sync, "key", key)()
	observeSync(l.Name, time.Since(start), err != nil && !isStale(err))
	if !isStale(err) {
		l.stale.Delete(key)
	}
	l.retry(ctx, key, err)
	return true
}

// retry decides whether and when a key comes back whose sync has returned err,
// and who is told.
func (l *Loop[K]) retry(ctx context.Context, key K, err error) {
	switch {
	case err == nil:
		l.queue.Forget(key)
	case isStale(err):
		klog.FromContext(ctx).V(4).Info("Sync has to wait", "key", key, "reason", err)
		l.queue.AddAfter(key, l.staleDelay(key))
	case errors.Is(err, errPanicked): // which has been logged
		l.queue.AddRateLimited(key)
	case ctx.Err() != nil:
		// The loop is being stopped, which is most likely why the sync failed.
	case l.MaxRetries == RetryForever:
		utilruntime.HandleErrorWithContext(ctx, err, "Sync failed, will try again", "key", key)
		l.queue.AddRateLimited(key)
	case l.queue.NumRequeues(key) < l.MaxRetries:
		klog.FromContext(ctx).V(2).Info("Sync failed, will try again", "key", key, "err", err)
		l.queue.AddRateLimited(key)
	default:
		utilruntime.HandleErrorWithContext(ctx, err,
			"Sync failed too often, giving up until the object changes", "key", key)
		l.queue.Forget(key)
	}
}

// staleDelay is how long a key is to wait for its cache: for as long as it has
// waited already, but at least StaleDelay.
func (l *Loop[K]) staleDelay(key K) time.Duration {
	since, _ := l.stale.LoadOrStore(key, time.Now())
	return min(max(time.Since(since.(time.Time)), StaleDelay), lastRetry)
}
