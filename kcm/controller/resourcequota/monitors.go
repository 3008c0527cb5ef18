package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// discoveryPeriod is how often the API server is asked for its resources
	// while quotas limit what is only counted.
	discoveryPeriod = 30 * time.Second
	// patience is how long quotas wait for an informer that begins. One resource
	// that cannot be listed must not keep the others from being counted.
	patience = 30 * time.Second
)

// monitor counts the objects of a resource as an informer shows them.
type monitor struct {
	resource schema.GroupVersionResource
	tally    *tally
	store    cache.Store
	synced   cache.InformerSynced
	// settled is set when the informer has synced, or patience is over and it is late.
	settled, late bool
	// own is nil for an informer of the factory, which runs as long as that.
	own *controller.MetadataInformer
}

// watchLimited keeps a monitor for each resource that a quota limits, until ctx
// ends and all have stopped.
func (c *Controller) watchLimited(ctx context.Context) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return
	}
	for ctx.Err() == nil {
		started, err := c.syncMonitors(ctx)
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Could not find out about all resources that quotas limit")
		}
		for resource, m := range started {
			waiting.Go(func() { c.settle(ctx, resource, m) })
		}
		select {
		case <-ctx.Done():
		case <-time.After(discoveryPeriod):
		case <-c.wanted:
		}
	}
	for _, m := range c.monitors {
		if m != nil && m.own != nil {
			m.own.Stop()
		}
	}
}

// settle waits for an informer that begins, and has the quotas looked at that
// wait for it. There is no monitor of what is no resource.
func (c *Controller) settle(ctx context.Context, resource schema.GroupResource, m *monitor) {
	if m != nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		synced := cache.WaitForCacheSync(ctx.Done(), m.synced)
		c.mu.Lock()
		m.settled, m.late = true, !synced
		c.mu.Unlock()
	}
	c.wake(metav1.NamespaceAll, limits(resource), 0)
}

// lacksMonitors tells whether a quota limits what nobody has looked for yet.
func (c *Controller) lacksMonitors(quota *corev1.ResourceQuota) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range quota.Spec.Hard {
		user, ok := userOf(name)
		if _, begun := c.monitors[user]; ok && !begun {
			return true
		}
	}
	return false
}

// syncMonitors stops what is not needed any more and starts what is missing. It
// returns what quotas may wait for: monitors that begin, or were late and have
// synced, and for what is no resource, nil.
func (c *Controller) syncMonitors(ctx context.Context) (started map[schema.GroupResource]*monitor, err error) {
	limited := c.limited()
	resources, err := c.discover(limited)
	for resource, m := range c.monitors {
		switch {
		case m == nil && limited.Has(resource), m != nil && (m.own == nil || resources[resource] == m.resource):
			continue
		case m != nil:
			klog.FromContext(ctx).V(2).Info("Counting no more", "resource", m.resource)
			m.own.Stop()
		}
		c.mu.Lock()
		delete(c.monitors, resource)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	started = map[schema.GroupResource]*monitor{}
	for resource := range limited {
		m, begun := c.monitors[resource]
		if at, exists := resources[resource]; m == nil && exists {
			m = c.startMonitor(ctx, at)
		} else if begun && (m == nil || !m.late || !m.synced()) {
			continue
		}
		c.monitors[resource], started[resource] = m, m
	}
	return started, err
}

// limited returns the resources whose objects use what some quota limits.
func (c *Controller) limited() sets.Set[schema.GroupResource] {
	limited := sets.New[schema.GroupResource]()
	quotas, err := c.quotas.List(labels.Everything())
	if err != nil {
		return limited // the cache never fails
	}
	for _, quota := range quotas {
		for name := range quota.Spec.Hard {
			if user, ok := userOf(name); ok {
				limited.Insert(user)
			}
		}
	}
	return limited
}

// alwaysThere are resources that every API server has.
var alwaysThere = sets.New(pods, services, volumeClaims)

// ignored are not counted: there are many, and they go by themselves.
var ignored = sets.New(schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"})

// discover returns where the limited resources are, as far as they exist. The API
// server is asked only if there are some among them that not every one has. What
// it cannot tell about just now stays where it was.
func (c *Controller) discover(limited sets.Set[schema.GroupResource]) (map[schema.GroupResource]schema.GroupVersionResource, error) {
	found := map[schema.GroupResource]schema.GroupVersionResource{}
	for resource := range limited.Intersection(alwaysThere) {
		found[resource] = resource.WithVersion("v1")
	}
	asked := limited.Difference(alwaysThere).Difference(ignored)
	if asked.Len() == 0 {
		return found, nil
	}
	all, unknown, err := controller.Resources(c.DiscoveryFunc, "create", "delete", "list", "watch")
	for resource := range all {
		if asked.Has(resource.GroupResource()) {
			found[resource.GroupResource()] = resource
		}
	}
	for resource := range asked {
		m := c.monitors[resource]
		if _, exists := found[resource]; exists || m == nil {
			continue
		}
		if _, failed := unknown[m.resource.GroupVersion()]; failed || err != nil {
			found[resource] = m.resource
		}
	}
	if len(unknown) > 0 {
		err = fmt.Errorf("the API server could not tell about some groups: %v", unknown)
	}
	return found, err
}

// startMonitor counts what there is of a resource, and what comes and goes. Of
// what is only counted, the metadata is enough, and of that the name. A tally that
// has missed an object would be wrong from then on, so its handlers must not panic.
func (c *Controller) startMonitor(ctx context.Context, resource schema.GroupVersionResource) *monitor {
	klog.FromContext(ctx).V(2).Info("Counting", "resource", resource)
	look := func(obj metav1.Object) { c.look(resource.GroupResource(), cache.MetaObjectToName(obj)) }
	m := &monitor{resource: resource, tally: newTally()}
	if informer := c.informer(resource); informer != nil {
		m.store = informer.GetStore()
		m.synced = controller.Handle(informer, controller.Handlers[metav1.Object]{
			Add: look, Update: func(_, obj metav1.Object) { look(obj) }, Delete: look,
			MustNotPanic: true,
		})
		c.InformerFactory.Start(ctx.Done())
		return m
	}
	m.own = controller.WatchMetadata(ctx, c.Metadata, resource, trim, controller.Handlers[*metav1.PartialObjectMetadata]{
		Add:          func(obj *metav1.PartialObjectMetadata) { look(obj) },
		Delete:       func(obj *metav1.PartialObjectMetadata) { look(obj) },
		MustNotPanic: true,
	})
	m.store, m.synced = m.own, m.own.HasSynced
	return m
}

// informer returns that of a resource whose objects use more than their number,
// or nil for any other.
func (c *Controller) informer(resource schema.GroupVersionResource) cache.SharedIndexInformer {
	core := c.InformerFactory.Core().V1()
	switch resource {
	case pods.WithVersion("v1"):
		return core.Pods().Informer()
	case services.WithVersion("v1"):
		return core.Services().Informer()
	case volumeClaims.WithVersion("v1"):
		return core.PersistentVolumeClaims().Informer()
	case deviceClaims.WithVersion("v1"):
		return c.InformerFactory.Resource().V1().ResourceClaims().Informer()
	}
	return nil
}

func trim(full *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, ResourceVersion: full.ResourceVersion,
	}}
}

// look charges an object as its informer shows it now, or no more if it is gone.
// If that changes what its namespace uses, the quotas that limit it are looked
// at: at once, unless there is only one object more.
func (c *Controller) look(resource schema.GroupResource, object cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.monitors[resource]
	if m == nil {
		return
	}
	before := m.tally.charged(object)
	known, changed := m.look(object, c.overdue.AddAfter)
	if !changed || !m.settled { // the quotas that wait for it are woken then
		return
	}
	if !known {
		c.wake(object.Namespace, limits(resource), recountDelay)
		return
	}
	after := m.tally.charged(object)
	c.wake(object.Namespace, func(quota *corev1.ResourceQuota) bool {
		c.ledger(quota).free(quota, before, after)
		return limits(resource)(quota)
	}, 0)
}

// look charges an object. One whose charge ends by itself is looked at again then.
func (m *monitor) look(object cache.ObjectName, again func(cache.ObjectName, time.Duration)) (known, changed bool) {
	obj, exists, _ := m.store.GetByKey(object.String())
	if !exists {
		return true, m.tally.remove(object)
	}
	now := time.Now()
	charge, until := chargeOf(obj, m.resource.GroupResource(), now)
	if !until.IsZero() {
		again(object, until.Sub(now)+time.Millisecond)
	}
	return m.tally.put(object, charge)
}
