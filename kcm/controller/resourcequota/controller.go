package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop reads of pods.
var Reads = []*controller.Keep{controller.PodState, podCharge}

// ControllerOptions are what a quota controller is made of.
type ControllerOptions struct {
	// QuotaClient writes the status of quotas.
	QuotaClient           corev1client.ResourceQuotasGetter
	ResourceQuotaInformer coreinformers.ResourceQuotaInformer
	// ResyncPeriod returns how often all quotas are looked at, whatever has
	// happened. Zero is never.
	ResyncPeriod func() time.Duration
	// DiscoveryFunc returns the namespaced resources that there are.
	DiscoveryFunc func() ([]*metav1.APIResourceList, error)
	// InformerFactory has the informers of what is charged for more than being
	// there. Those that no other loop has asked for are started when the first
	// quota needs them.
	InformerFactory informers.SharedInformerFactory
	// Metadata watches what is only counted.
	Metadata metadata.Interface
}

// Controller keeps the status of quotas.
type Controller struct {
	ControllerOptions
	quotas corelisters.ResourceQuotaLister
	synced cache.InformerSynced
	own    *controller.OwnWrites

	// uncounted has quotas that limit what the API server knows no sum of, and
	// others those that have to be looked at again.
	uncounted, others *controller.Loop[cache.ObjectName]
	// overdue has pods whose charge ends by itself.
	overdue *controller.Loop[cache.ObjectName]

	// mu guards monitors, their tallies and ledgers.
	mu sync.Mutex
	// monitors has a nil for what is limited and is no resource.
	monitors map[schema.GroupResource]*monitor
	ledgers  map[cache.ObjectName]*ledger
	// wanted has an element when a quota limits what has no monitor yet.
	wanted chan struct{}
}

// NewController returns the loop. It reads informers, which the caller starts,
// and sends no request yet.
func NewController(ctx context.Context, options *ControllerOptions) *Controller {
	c := &Controller{
		ControllerOptions: *options,
		quotas:            options.ResourceQuotaInformer.Lister(),
		own:               controller.NewOwnWrites(options.ResourceQuotaInformer.Informer().GetStore()),
		monitors:          map[schema.GroupResource]*monitor{},
		ledgers:           map[cache.ObjectName]*ledger{},
		wanted:            make(chan struct{}, 1),
	}
	loop := func(queue string, sync func(context.Context, cache.ObjectName) error) *controller.Loop[cache.ObjectName] {
		return controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
			Name: "resourcequota-controller", QueueName: queue, Sync: sync, MaxRetries: controller.RetryForever,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
		})
	}
	c.uncounted = loop("resourcequota_priority", c.sync)
	c.others = loop("resourcequota_primary", c.sync)
	c.overdue = loop("resourcequota_overdue", func(_ context.Context, pod cache.ObjectName) error {
		c.look(pods, pod)
		return nil
	})
	c.synced = controller.Handle(options.ResourceQuotaInformer.Informer(), controller.Handlers[*corev1.ResourceQuota]{
		Add:    c.changed,
		Update: c.updated,
		Delete: c.changed, // its ledger goes
	})
	return c
}

// Run counts, with as many workers as it is told for quotas that were never
// counted, and as many for the others. It returns when ctx has ended and all of
// them have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.watchLimited(ctx) })
	running.Go(func() { c.resync(ctx) })
	running.Go(func() { c.uncounted.Run(ctx, workers, c.synced) })
	running.Go(func() { c.overdue.Run(ctx, 1, c.synced) })
	c.others.Run(ctx, workers, c.synced)
}

// resync has all quotas looked at from time to time.
func (c *Controller) resync(ctx context.Context) {
	for period := c.ResyncPeriod(); period > 0; period = c.ResyncPeriod() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
		c.wake(metav1.NamespaceAll, func(*corev1.ResourceQuota) bool { return true }, 0)
	}
}

// updated has a quota looked at when its limits are others than those that the
// API server goes by, when something has gone that its status still had a moment
// ago, and when a sum has changed: what the API server has added it may have failed
// to store. The first look notes the sum, and those later tell what has come of it.
func (c *Controller) updated(old, quota *corev1.ResourceQuota) {
	c.mu.Lock()
	l := *c.ledger(quota)
	c.mu.Unlock()
	switch {
	case len(l.gone) > 0, !equality.Semantic.DeepEqual(quota.Spec.Hard, quota.Status.Hard):
		c.changed(quota)
	case !equality.Semantic.DeepEqual(old.Status.Used, quota.Status.Used):
		c.add(quota, min(recountDelay, time.Until(l.due)))
	}
}

// ledger returns that of a quota, which is new for a new quota.
func (c *Controller) ledger(quota *corev1.ResourceQuota) *ledger {
	key := cache.MetaObjectToName(quota)
	if l := c.ledgers[key]; l != nil && l.uid == quota.UID {
		return l
	}
	c.ledgers[key] = &ledger{uid: quota.UID}
	return c.ledgers[key]
}

// changed has a quota looked at soon, and has what it limits watched.
func (c *Controller) changed(quota *corev1.ResourceQuota) {
	if c.lacksMonitors(quota) {
		select {
		case c.wanted <- struct{}{}:
		default: // they will be started anyway
		}
	}
	c.add(quota, 0)
}

// add has a quota looked at, before all others if the API server knows no sum of
// what it limits.
func (c *Controller) add(quota *corev1.ResourceQuota, delay time.Duration) {
	queue := c.others
	if isUncounted(quota) {
		queue = c.uncounted
	}
	queue.AddAfter(cache.MetaObjectToName(quota), delay)
}

// wake has those quotas of a namespace, or of all, looked at that a function
// chooses.
func (c *Controller) wake(namespace string, choose func(*corev1.ResourceQuota) bool, delay time.Duration) {
	quotas, err := c.quotas.ResourceQuotas(namespace).List(labels.Everything())
	if err != nil {
		return // the cache never fails
	}
	for _, quota := range quotas {
		if choose(quota) {
			c.add(quota, delay)
		}
	}
}

// sync writes the status of a quota if it is not as it should be.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	quota, err := c.quotas.ResourceQuotas(key.Namespace).Get(key.Name)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ledgers, key)
		c.own.Forget(key)
		return nil // it is gone: a cache has no other error
	}
	if err := c.own.Observed(key); err != nil {
		return err
	}
	sums, freed, ready := c.observe(quota)
	if !ready {
		return nil // it is woken when they are
	}
	status, write := decide(quota, sums, freed)
	if !write {
		return nil
	}
	return c.act(ctx, quota, status)
}

// act writes the status, unless the API server has counted on since the quota
// was read. Then that has to be read first. What a write that has failed was to
// take away is still there, or that is not known.
func (c *Controller) act(ctx context.Context, quota *corev1.ResourceQuota, status corev1.ResourceQuotaStatus) error {
	freed := quotav1.SubtractWithNonNegativeResult(quota.Status.Used, status.Used)
	quota = quota.DeepCopy()
	quota.Status = status
	written, err := c.QuotaClient.ResourceQuotas(quota.Namespace).UpdateStatus(ctx, quota, metav1.UpdateOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case controller.IsGone(err):
		c.ledger(quota).restore(freed)
		return nil
	case controller.HasChanged(err):
		c.ledger(quota).restore(freed)
		return fmt.Errorf("%w: %v", controller.ErrStaleCache, err)
	case err != nil:
		c.ledger(quota).doubt(quota, freed)
		return fmt.Errorf("write status of quota %s: %w", klog.KObj(quota), err)
	}
	c.own.Wrote(cache.MetaObjectToName(quota), written.ResourceVersion)
	return nil
}
