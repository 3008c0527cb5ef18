// Package endpointslice writes down, for each Service that selects pods, where
// they are reached, in EndpointSlices of limited size.
package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/endpointslice/metrics"
	"k8s.io/endpointslice/topologycache"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

const (
	// ControllerName is how slices name the controller that manages them.
	ControllerName = "endpointslice-controller.k8s.io"

	// maxRetries is how often a sync that fails is tried again before it is
	// given up until something changes.
	maxRetries = 15
	// minSliceDelay is how long it takes at least from a change of a slice that
	// somebody else has made until the Service is synced.
	minSliceDelay = time.Second
)

// Reads is what the loop reads of pods and nodes, and of slices besides what stays of
// all objects.
var Reads = []*controller.Keep{controller.PodState, servicepods.PodAddresses, controller.NodeConditions, nodeCPU, writers}

// Controller writes the EndpointSlices of Services.
type Controller struct {
	events   *controller.Events
	services corelisters.ServiceLister
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	slices   *Store
	triggers *endpointsliceutil.TriggerTimeTracker
	waiting  *servicepods.Deferrals
	topology *topologycache.TopologyCache
	// spread has, as keys, the Services whose hints depend on the sizes of zones.
	spread sync.Map
	usage  *metrics.Cache
	// limit is how many endpoints a slice has at most.
	limit int

	synced []cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
	// zones is the loop that has one thing to do: to look at all nodes.
	zones      *controller.Loop[string]
	haveLooked atomic.Bool
}

// NewController returns a controller whose slices have at most
// maxEndpointsPerSlice endpoints. It syncs a Service so long after a change of a
// pod as endpointUpdatesBatchPeriod says, and what changes until then, with it.
func NewController(
	ctx context.Context,
	podInformer coreinformers.PodInformer,
	serviceInformer coreinformers.ServiceInformer,
	nodeInformer coreinformers.NodeInformer,
	sliceInformer discoveryinformers.EndpointSliceInformer,
	maxEndpointsPerSlice int32,
	client kubernetes.Interface,
	endpointUpdatesBatchPeriod time.Duration,
) *Controller {
	metrics.RegisterMetrics()
	c := &Controller{
		events:   controller.NewEvents(ctx, client, "endpoint-slice-controller"),
		services: serviceInformer.Lister(),
		pods:     podInformer.Lister(),
		nodes:    nodeInformer.Lister(),
		slices: NewStore(client, sliceInformer, ControllerName, func(operation string) {
			metrics.EndpointSliceChanges.WithLabelValues(operation).Inc()
		}),
		triggers: endpointsliceutil.NewTriggerTimeTracker(),
		waiting:  servicepods.NewDeferrals(),
		topology: topologycache.NewTopologyCache(),
		usage:    metrics.NewCache(maxEndpointsPerSlice),
		limit:    int(maxEndpointsPerSlice),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name: "endpointslice-controller", QueueName: "endpoint_slice",
		Sync: c.sync, MaxRetries: maxRetries, RateLimiter: RetrySlowly(1000 * time.Second),
	})
	c.zones = controller.NewLoop(controller.LoopConfig[string]{
		Name: "endpointslice-controller-topology", QueueName: "endpoint_slice_topology",
		Sync: c.lookAtNodes, MaxRetries: maxRetries,
	})
	c.watch(podInformer, serviceInformer, nodeInformer, sliceInformer, endpointUpdatesBatchPeriod)
	return c
}

// RetrySlowly is when a Service whose slices could not be written comes back:
// after a second, then ever later, up to the limit. To write slices is much work
// for the API server, and for all who watch them.
func RetrySlowly(limit time.Duration) workqueue.TypedRateLimiter[cache.ObjectName] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, limit)
}

// watch has Services synced at once when they change, and when their pods, the zones
// of their pods or their slices do, after a while; and nodes looked at when zones or
// their sizes change.
func (c *Controller) watch(
	podInformer coreinformers.PodInformer,
	serviceInformer coreinformers.ServiceInformer,
	nodeInformer coreinformers.NodeInformer,
	sliceInformer discoveryinformers.EndpointSliceInformer,
	batchPeriod time.Duration,
) {
	add := func(service *corev1.Service) { c.loop.Add(cache.MetaObjectToName(service)) }
	services := controller.Handle(serviceInformer.Informer(), controller.Handlers[*corev1.Service]{
		Add: add, Update: func(_, service *corev1.Service) { add(service) }, Delete: add,
	})
	selecting := servicepods.NewServices(serviceInformer.Informer())
	pods := selecting.Watch(podInformer.Informer(), batchPeriod, c.loop.AddAfter)
	zones := selecting.WatchNodes(nodeInformer.Informer(), podInformer.Informer(), batchPeriod, c.loop.AddAfter)
	ours := c.slices.Watch(sliceInformer.Informer(), func(service cache.ObjectName) {
		c.loop.AddAfter(service, max(batchPeriod, minSliceDelay))
	})
	look := func(*corev1.Node) { c.zones.Add("nodes") }
	nodes := controller.Handle(nodeInformer.Informer(), controller.Handlers[*corev1.Node]{
		Add: look, Delete: look,
		Update: func(old, node *corev1.Node) {
			if shareOf(old) != shareOf(node) {
				look(node)
			}
		},
	})
	c.synced = []cache.InformerSynced{services, pods, zones, ours, nodes}
}

// Run syncs as many Services at a time as it is told, once it has looked at the nodes:
// before, no Service would have hints. It returns when ctx has ended and the workers
// have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	var running sync.WaitGroup
	defer running.Wait()
	c.zones.Add("nodes")
	running.Go(func() { c.zones.Run(ctx, 1, c.synced...) })
	c.loop.Run(ctx, workers, append(c.synced, c.haveLooked.Load)...)
}

// lookAtNodes tells the library that spreads endpoints over zones how large they
// are, and syncs the Services that it does this for.
func (c *Controller) lookAtNodes(ctx context.Context, _ string) error {
	defer c.haveLooked.Store(true)
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	c.topology.SetNodes(klog.FromContext(ctx), nodes)
	c.spread.Range(func(service, _ any) bool {
		c.loop.Add(service.(cache.ObjectName))
		return true
	})
	return nil
}

// sync brings the slices of one Service up to date, and counts how that went.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	err := c.syncService(ctx, key)
	result := "success"
	switch {
	case errors.Is(err, controller.ErrStaleCache):
		result = "stale"
	case err != nil:
		result = "error"
	}
	metrics.EndpointSliceSyncs.WithLabelValues(result).Inc()
	return err
}

// syncService observes, decides and acts, for IPv4 and for IPv6. The slices of a
// Service that is gone are the garbage collector's. One that does not select pods has
// none of this controller.
func (c *Controller) syncService(ctx context.Context, key cache.ObjectName) error {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		c.forget(key)
		c.slices.Forget(key)
		return nil
	case err != nil:
		return err
	case !servicepods.SelectsPods(service):
		return c.retire(ctx, service)
	}
	seen, err := c.observe(ctx, service)
	if err != nil {
		return err
	}
	since := c.waiting.Since(key, c.triggers.ComputeEndpointLastChangeTriggerTime(key.Namespace, service, seen.pods))
	var all Plan
	var failures []error
	for _, addressType := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		plan := decide(seen, addressType, c.limit)
		c.hint(klog.FromContext(ctx), service, addressType, &plan)
		if hasFamily(service, addressType) {
			countChanges(service, plan)
		}
		failures = append(failures, c.act(ctx, service, plan, since))
		all.Add(plan)
	}
	if all.Waits {
		c.loop.AddAfter(key, c.waiting.Leave(key, since))
	} else {
		c.waiting.Done(key)
	}
	c.measureUsage(service, all)
	if err := errors.Join(append(failures, seen.lackingNodes())...); err != nil {
		c.events.Eventf(service, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", service.Namespace, service.Name, err)
		return err
	}
	return nil
}

// observe returns what the caches have of a Service.
func (c *Controller) observe(ctx context.Context, service *corev1.Service) (situation, error) {
	ours, err := c.slices.Of(ctx, service)
	if err != nil {
		return situation{}, err
	}
	key := cache.MetaObjectToName(service)
	pods, err := c.pods.Pods(service.Namespace).List(labels.SelectorFromValidatedSet(service.Spec.Selector))
	if err != nil {
		return situation{}, err
	}
	seen := situation{service: service, pods: pods, slices: ours, nodes: map[string]*corev1.Node{}, mayWait: c.waiting.MayWait(key)}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if _, asked := seen.nodes[name]; !asked {
			seen.nodes[name], _ = c.nodes.Get(name) // nil if there is none: a cache has no other error
		}
	}
	return seen, nil
}

// act writes what is to be written. While a Service is being deleted nothing is
// created: the garbage collector would not see it.
func (c *Controller) act(ctx context.Context, service *corev1.Service, plan Plan, since time.Time) error {
	if service.DeletionTimestamp != nil {
		plan.Create = nil
	}
	for _, slice := range slices.Concat(plan.Create, plan.Update) {
		annotate(slice, since)
	}
	if err := c.slices.Write(ctx, service.Namespace, plan); err != nil {
		return fmt.Errorf("slices of Service %s: %w", klog.KObj(service), err)
	}
	return nil
}

// annotate says in a slice since when what it tells has been so: from when on a
// consumer that hears of it now has been wrong.
func annotate(slice *discoveryv1.EndpointSlice, since time.Time) {
	if since.IsZero() {
		delete(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
		return
	}
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	slice.Annotations[corev1.EndpointsLastChangeTriggerTime] = since.UTC().Format(time.RFC3339Nano)
}

// writers keeps by whom which fields of a slice were written.
var writers = controller.KeepOf(func(kept, whole *discoveryv1.EndpointSlice) { kept.ManagedFields = whole.ManagedFields })

// retire deletes the slices of a Service that selects pods no more, but for those that
// a user has written in this controller's name. They go after a second: if the Service
// has lost its selector, its Endpoints are mirrored until then.
func (c *Controller) retire(ctx context.Context, service *corev1.Service) error {
	ours, err := c.slices.Of(ctx, service)
	if err != nil {
		return err
	}
	ours = slices.DeleteFunc(ours, func(slice *discoveryv1.EndpointSlice) bool {
		return !servicepods.WroteLast(slice, discoveryv1.LabelManagedBy, "endpoints")
	})
	key := cache.MetaObjectToName(service)
	if len(ours) > 0 && c.waiting.MayWait(key) {
		c.loop.AddAfter(key, c.waiting.Leave(key, time.Time{}))
		return nil
	}
	c.forget(key)
	return c.act(ctx, service, Plan{Delete: ours}, time.Time{})
}

// forget drops what is remembered of a Service that has no slices any more.
func (c *Controller) forget(key cache.ObjectName) {
	c.triggers.DeleteService(key.Namespace, key.Name)
	c.waiting.Done(key)
	c.spread.Delete(key)
	c.usage.DeleteService(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
}
