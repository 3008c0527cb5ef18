// Package endpointslicemirroring writes Endpoints that somebody has written by
// hand as EndpointSlices as well, for consumers that read only these.
package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/endpoint"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

const (
	// ControllerName is how slices name the controller that manages them.
	ControllerName = "endpointslicemirroring-controller.k8s.io"

	// maxRetries is how often a sync that fails is tried again before it is
	// given up until something changes.
	maxRetries = 15
)

// Reads is what the loop reads of Endpoints, besides what stays of all objects.
var Reads = []*controller.Keep{endpoint.Writers}

// Controller writes the EndpointSlices of Endpoints that no controller writes.
type Controller struct {
	events    *controller.Events
	endpoints corelisters.EndpointsLister
	services  corelisters.ServiceLister
	slices    *endpointslice.Store
	usages    *usages
	// limit is how many addresses are mirrored of those that have the same
	// ports.
	limit int

	synced []cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
}

// NewController returns a controller that mirrors at most maxEndpointsPerSubset
// addresses of those that have the same ports. It repairs a slice that somebody
// else has changed after endpointUpdatesBatchPeriod.
func NewController(
	ctx context.Context,
	endpointsInformer coreinformers.EndpointsInformer,
	sliceInformer discoveryinformers.EndpointSliceInformer,
	serviceInformer coreinformers.ServiceInformer,
	maxEndpointsPerSubset int32,
	client kubernetes.Interface,
	endpointUpdatesBatchPeriod time.Duration,
) *Controller {
	registerMetrics()
	c := &Controller{
		events:    controller.NewEvents(ctx, client, "endpoint-slice-mirroring-controller"),
		endpoints: endpointsInformer.Lister(),
		services:  serviceInformer.Lister(),
		slices: endpointslice.NewStore(client, sliceInformer, ControllerName, func(operation string) {
			changes.WithLabelValues(operation).Inc()
		}),
		usages: &usages{all: map[cache.ObjectName]usage{}},
		limit:  int(maxEndpointsPerSubset),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name: "endpointslice-mirroring-controller", QueueName: "endpoint_slice_mirroring",
		Sync: c.sync, MaxRetries: maxRetries, RateLimiter: endpointslice.RetrySlowly(100 * time.Second),
	})
	c.watch(endpointsInformer, sliceInformer, serviceInformer, endpointUpdatesBatchPeriod)
	return c
}

// watch has Endpoints synced when they change, when their Service begins or ceases to
// select pods or has another type, and when somebody else has changed their slices.
func (c *Controller) watch(
	endpointsInformer coreinformers.EndpointsInformer,
	sliceInformer discoveryinformers.EndpointSliceInformer,
	serviceInformer coreinformers.ServiceInformer,
	batchPeriod time.Duration,
) {
	one := func(endpoints *corev1.Endpoints) {
		if isForMirror(endpoints) {
			c.loop.Add(cache.MetaObjectToName(endpoints))
		}
	}
	endpoints := controller.Handle(endpointsInformer.Informer(), controller.Handlers[*corev1.Endpoints]{
		Add: one, Delete: one,
		Update: func(old, endpoints *corev1.Endpoints) {
			if isForMirror(old) || isForMirror(endpoints) {
				c.loop.Add(cache.MetaObjectToName(endpoints))
			}
		},
	})
	ofService := func(service *corev1.Service) {
		if !servicepods.SelectsPods(service) {
			c.loop.Add(cache.MetaObjectToName(service))
		}
	}
	services := controller.Handle(serviceInformer.Informer(), controller.Handlers[*corev1.Service]{
		Add: ofService, Delete: ofService,
		Update: func(old, service *corev1.Service) {
			if old.Spec.Type != service.Spec.Type || servicepods.SelectsPods(old) != servicepods.SelectsPods(service) {
				c.loop.Add(cache.MetaObjectToName(service))
			}
		},
	})
	slices := c.slices.Watch(sliceInformer.Informer(), func(service cache.ObjectName) { c.loop.AddAfter(service, batchPeriod) })
	c.synced = []cache.InformerSynced{endpoints, services, slices}
}

// Run syncs as many Endpoints at a time as it is told. It returns when ctx has
// ended and the workers have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	c.loop.Run(ctx, workers, c.synced...)
}

// sync brings the slices of one Endpoints object up to date, or deletes them, if
// it is not to have any.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	begin := time.Now()
	defer func() { duration.WithLabelValues().Observe(time.Since(begin).Seconds()) }()
	endpoints, service, err := c.observe(key)
	if err != nil {
		return err
	}
	if endpoints == nil {
		c.usages.set(key, usage{})
		return c.slices.Clear(ctx, key)
	}
	existing, err := c.slices.Of(ctx, service)
	if err != nil {
		return err
	}
	plan, left := decide(endpoints, existing, c.limit)
	c.tell(endpoints, plan, left)
	if endpoints.DeletionTimestamp != nil {
		plan.Create = nil
	}
	c.usages.set(key, usageOf(plan, c.limit))
	if err := c.slices.Write(ctx, key.Namespace, plan); err != nil {
		return fmt.Errorf("mirror Endpoints %s: %w", key, err)
	}
	return nil
}

// observe returns Endpoints and their Service, or nil if they are not to be
// mirrored: they are gone, do not want it, or their Service is gone, or another loop
// writes for it.
func (c *Controller) observe(key cache.ObjectName) (*corev1.Endpoints, *corev1.Service, error) {
	endpoints, err := c.endpoints.Endpoints(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && !isForMirror(endpoints) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && isWrittenForIt(service, endpoints) {
		return nil, nil, nil
	}
	return endpoints, service, err
}

// isWrittenForIt tells whether another loop writes the addresses of a Service, or did
// so until it became a mere name, and is about to take them away.
func isWrittenForIt(service *corev1.Service, endpoints *corev1.Endpoints) bool {
	isName := service.Spec.Type == corev1.ServiceTypeExternalName
	return servicepods.SelectsPods(service) || isName && endpoint.IsOwn(endpoints)
}

// isForMirror tells whether Endpoints may be mirrored. Those of an election are
// a lock and no addresses, and who writes slices for himself says so in a label.
func isForMirror(endpoints *corev1.Endpoints) bool {
	_, isLock := endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return !isLock && endpoints.Labels[discoveryv1.LabelSkipMirror] != "true"
}

// tell counts what changes, and records what was left out.
func (c *Controller) tell(endpoints *corev1.Endpoints, plan endpointslice.Plan, left leftOut) {
	added.WithLabelValues().Observe(float64(plan.Added))
	removed.WithLabelValues().Observe(float64(plan.Removed))
	skipped.WithLabelValues().Observe(float64(left.invalid + left.tooMany))
	if left.invalid > 0 {
		c.events.Eventf(endpoints, corev1.EventTypeWarning, "InvalidIPAddress",
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", left.invalid)
	}
	if left.tooMany > 0 {
		c.events.Eventf(endpoints, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
			c.limit, left.invalid+left.tooMany)
	}
}
