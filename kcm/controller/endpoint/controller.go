// Package endpoint writes down, for each Service that selects pods, where they
// are reached, in one Endpoints object. It is the older one of the two forms, and
// is cut off at a thousand addresses.
package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	endpointsliceutil "k8s.io/endpointslice/util"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
)

// maxRetries is how often a sync that fails is tried again before it is given up
// until something changes.
const maxRetries = 15

// repairDelay is how long it takes from a change of Endpoints that somebody else has
// made until their Service is synced. Who writes them as well is not fought at once.
const repairDelay = time.Second

// Reads is what the loop reads of pods, and of Endpoints besides what stays of all
// objects.
var Reads = []*controller.Keep{controller.PodState, servicepods.PodAddresses, Writers}

// Controller writes the Endpoints of Services.
type Controller struct {
	client    kubernetes.Interface
	events    *controller.Events
	services  corelisters.ServiceLister
	pods      corelisters.PodLister
	endpoints corelisters.EndpointsLister
	writes    *controller.OwnWrites
	triggers  *endpointsliceutil.TriggerTimeTracker
	waiting   *servicepods.Deferrals

	synced []cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
}

// NewEndpointController returns a controller that syncs a Service so long after a
// change of a pod as endpointUpdatesBatchPeriod says, and what changes until
// then, with it.
func NewEndpointController(
	ctx context.Context,
	podInformer coreinformers.PodInformer,
	serviceInformer coreinformers.ServiceInformer,
	endpointsInformer coreinformers.EndpointsInformer,
	client kubernetes.Interface,
	endpointUpdatesBatchPeriod time.Duration,
) *Controller {
	c := &Controller{
		client:    client,
		events:    controller.NewEvents(ctx, client, "endpoint-controller"),
		services:  serviceInformer.Lister(),
		pods:      podInformer.Lister(),
		endpoints: endpointsInformer.Lister(),
		writes:    controller.NewOwnWrites(endpointsInformer.Informer().GetStore()),
		triggers:  endpointsliceutil.NewTriggerTimeTracker(),
		waiting:   servicepods.NewDeferrals(),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name: "endpoints-controller", QueueName: "endpoint", Sync: c.sync, MaxRetries: maxRetries,
	})
	add := func(service *corev1.Service) { c.loop.Add(cache.MetaObjectToName(service)) }
	c.synced = []cache.InformerSynced{
		controller.Handle(serviceInformer.Informer(), controller.Handlers[*corev1.Service]{
			Add: add, Update: func(_, service *corev1.Service) { add(service) }, Delete: add,
		}),
		servicepods.NewServices(serviceInformer.Informer()).Watch(podInformer.Informer(), endpointUpdatesBatchPeriod, c.loop.AddAfter),
		controller.Handle(endpointsInformer.Informer(), controller.Handlers[*corev1.Endpoints]{
			Update: c.changed,
			Delete: func(endpoints *corev1.Endpoints) { c.loop.Add(cache.MetaObjectToName(endpoints)) },
		}),
	}
	return c
}

// changed has Endpoints put right that somebody else has changed, if they are those of
// a Service that selects pods.
func (c *Controller) changed(old, endpoints *corev1.Endpoints) {
	key := cache.MetaObjectToName(endpoints)
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if err != nil || !servicepods.SelectsPods(service) {
		return // a sync would take them for what is left of a Service
	}
	if !c.writes.Made(key, endpoints.ResourceVersion) && !tellsTheSame(old, endpoints) {
		c.loop.AddAfter(key, repairDelay)
	}
}

// Run syncs as many Services at a time as it is told, and once, at its beginning,
// all Endpoints: their Services may have gone while nobody looked. It returns
// when ctx has ended and the workers have finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), c.synced...) {
			c.addLeftOver()
		}
	})
	c.loop.Run(ctx, workers, c.synced...)
}

// addLeftOver has all Endpoints looked at but those that are the lock of an
// election, which have no Service.
func (c *Controller) addLeftOver() {
	all, err := c.endpoints.List(labels.Everything())
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("list Endpoints: %w", err))
	}
	for _, endpoints := range all {
		if _, isLock := endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; !isLock {
			c.loop.Add(cache.MetaObjectToName(endpoints))
		}
	}
}

// sync brings the Endpoints of one Service up to date. Those of a Service that is
// gone are deleted. If a Service loses its selector, they stay as they are: from then
// on they are for a user to write (https://issue.k8s.io/91072).
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.gone(ctx, key)
	case err != nil:
		return err
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return c.retire(ctx, key)
	case !servicepods.SelectsPods(service):
		return nil
	}
	pods, err := c.pods.Pods(key.Namespace).List(labels.SelectorFromValidatedSet(service.Spec.Selector))
	if err != nil {
		return err
	}
	// Also when nothing is to be written, or the next time would tell of it, too.
	since := c.waiting.Since(key, c.triggers.ComputeEndpointLastChangeTriggerTime(key.Namespace, service, pods))
	if err := c.writes.Observed(key); err != nil {
		return err
	}
	current, err := c.endpoints.Endpoints(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		current, err = nil, nil
	}
	if err != nil {
		return err
	}
	wanted := decide(service, pods, current)
	if wanted != nil && canWait(current, wanted) && c.waiting.MayWait(key) {
		c.loop.AddAfter(key, c.waiting.Leave(key, since))
		return nil
	}
	c.waiting.Done(key)
	if wanted == nil {
		return nil
	}
	annotate(wanted, since)
	return c.write(ctx, key, wanted)
}

// annotate says since when what the Endpoints tell has been so: from when on a
// consumer that hears of it now has been wrong.
func annotate(endpoints *corev1.Endpoints, since time.Time) {
	if since.IsZero() {
		delete(endpoints.Annotations, corev1.EndpointsLastChangeTriggerTime)
		return
	}
	endpoints.Annotations[corev1.EndpointsLastChangeTriggerTime] = since.UTC().Format(time.RFC3339Nano)
}

// write creates or updates the Endpoints. What is refused because the namespace
// is being deleted is no failure.
func (c *Controller) write(ctx context.Context, key cache.ObjectName, endpoints *corev1.Endpoints) error {
	client := c.client.CoreV1().Endpoints(key.Namespace)
	if endpoints.ResourceVersion == "" {
		created, err := client.Create(ctx, endpoints, metav1.CreateOptions{FieldManager: servicepods.FieldManager})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			c.events.Eventf(endpoints, corev1.EventTypeWarning, "FailedToCreateEndpoint",
				"Failed to create endpoint for service %v/%v: %v", key.Namespace, key.Name, err)
			return fmt.Errorf("create Endpoints %s: %w", key, err)
		}
		c.writes.Wrote(key, created.ResourceVersion)
		return nil
	}
	updated, err := client.Update(ctx, endpoints, metav1.UpdateOptions{FieldManager: servicepods.FieldManager})
	if err != nil {
		c.events.Eventf(endpoints, corev1.EventTypeWarning, "FailedToUpdateEndpoint",
			"Failed to update endpoint %v/%v: %v", key.Namespace, key.Name, err)
		return fmt.Errorf("update Endpoints %s: %w", key, err)
	}
	c.writes.Wrote(key, updated.ResourceVersion)
	return nil
}

// retire deletes the Endpoints of a Service that has become a mere name for something
// outside, if this loop has written them last. A user's stay, and are mirrored.
func (c *Controller) retire(ctx context.Context, key cache.ObjectName) error {
	if err := c.writes.Observed(key); err != nil {
		return err
	}
	current, err := c.endpoints.Endpoints(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && !IsOwn(current) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.clear(ctx, key, &metav1.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion})
}

// gone deletes the Endpoints of a Service that is gone, once the API server says so,
// too: the cache may not have the Service yet for which a user has written them.
func (c *Controller) gone(ctx context.Context, key cache.ObjectName) error {
	_, err := c.client.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case controller.IsGone(err):
		return c.clear(ctx, key, nil)
	case err != nil:
		return fmt.Errorf("ask for Service %s: %w", key, err)
	}
	return nil // it wakes the loop when the cache has it
}

// clear deletes the Endpoints of a Service that is not to have any, and what is
// remembered of it.
func (c *Controller) clear(ctx context.Context, key cache.ObjectName, as *metav1.Preconditions) error {
	err := c.client.CoreV1().Endpoints(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: as})
	if err != nil && !controller.IsGone(err) {
		return fmt.Errorf("delete Endpoints %s: %w", key, err)
	}
	c.triggers.DeleteService(key.Namespace, key.Name)
	c.waiting.Done(key)
	c.writes.Forget(key)
	return nil
}
