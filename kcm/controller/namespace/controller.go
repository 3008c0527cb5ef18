package namespace

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// NamespaceController deletes everything in the namespaces that are being
// deleted. It writes their status, and in the end it takes its finalizer away.
type NamespaceController struct {
	namespaces corev1client.NamespaceInterface
	metadata   metadata.Interface
	discover   func() ([]*metav1.APIResourceList, error)
	// named has the resources that were discovered at some time, by group and name.
	named sync.Map
	// resyncPeriod is how long a namespace is left alone that is empty and held
	// by somebody else's finalizer. Zero is for ever.
	resyncPeriod time.Duration
	finalizer    corev1.FinalizerName
	// noticed is when this manager has first seen that a namespace is being
	// deleted, and asked when it has asked the last object in it to go.
	noticed, asked stopwatch
	synced         cache.InformerSynced
	loop           *controller.Loop[string]
}

// NewNamespaceController returns a controller that watches namespaces with the
// informer, which the caller starts, asks discover which resources there are,
// and deletes objects through metadataClient. The finalizer is the one in
// spec.finalizers that it takes away.
func NewNamespaceController(
	ctx context.Context,
	client kubernetes.Interface,
	metadataClient metadata.Interface,
	discover func() ([]*metav1.APIResourceList, error),
	nsInformer coreinformers.NamespaceInformer,
	resyncPeriod time.Duration,
	finalizer corev1.FinalizerName,
) *NamespaceController {
	c := &NamespaceController{
		namespaces:   client.CoreV1().Namespaces(),
		metadata:     metadataClient,
		discover:     discover,
		resyncPeriod: resyncPeriod,
		finalizer:    finalizer,
	}
	c.loop = controller.NewLoop(controller.LoopConfig[string]{
		Name:        "namespace-controller",
		QueueName:   "namespace",
		Sync:        c.sync,
		MaxRetries:  controller.RetryForever,
		RateLimiter: retryWithinAMinute(),
	})
	c.synced = controller.Handle(nsInformer.Informer(), controller.Handlers[*corev1.Namespace]{
		Add: func(ns *corev1.Namespace) { c.changed(nil, ns) },
		// What the loop itself writes is no news to it.
		Update: c.changed,
		Delete: func(ns *corev1.Namespace) {
			c.noticed.forget(ns.UID)
			c.asked.forget(ns.UID)
		},
	})
	return c
}

// changed asks for a namespace to be looked at when its deletion is news.
func (c *NamespaceController) changed(old, ns *corev1.Namespace) {
	if ns.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		c.loop.Add(ns.Name)
	}
}

// retryWithinAMinute tries a namespace again at ever longer intervals, of a
// minute at most, and no more than ten namespaces a second after a burst.
func retryWithinAMinute() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Minute),
		&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 100)},
	)
}

// Run works until ctx ends and the last worker has finished.
func (c *NamespaceController) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced)
}

// sync clears a namespace as far as that is possible now. It asks the API
// server for the namespace: a cache that is behind might still show one that
// has gone, and another one under its name must not be touched.
func (c *NamespaceController) sync(ctx context.Context, name string) error {
	ns, err := c.namespaces.Get(ctx, name, metav1.GetOptions{})
	if controller.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
		return nil
	}
	elapsed := c.noticed.since(ns.UID)
	if elapsed < lateCreations {
		// Now, and not after a look that may itself take longer than that.
		c.loop.AddAfter(name, lateCreations-elapsed)
	}
	return c.act(ctx, decide(c.empty(ctx, ns, elapsed)))
}

// stopwatch tells how long ago something happened to each namespace. It goes by
// our clock: the deletion timestamp is the API server's, which may be another.
type stopwatch struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

// since returns how long ago since was first called for a namespace, or first
// again after it was forgotten.
func (s *stopwatch) since(uid types.UID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[types.UID]time.Time{}
	}
	if _, found := s.at[uid]; !found {
		s.at[uid] = time.Now()
	}
	return time.Since(s.at[uid])
}

func (s *stopwatch) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, uid)
}
