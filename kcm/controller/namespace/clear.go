package namespace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/feature"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// atATime is how many resources of a namespace are cleared at the same time.
const atATime = 10

// remains is what is left of a namespace after everything was asked to go whose
// turn it was, and what went wrong.
type remains struct {
	namespace *corev1.Namespace
	now       time.Time
	// elapsed is how long ago the deletion of the namespace was noticed.
	elapsed time.Duration
	// waited is how long ago the last object was asked to go.
	waited time.Duration
	// objects are those that are still there, by resource. A resource that has
	// none is not in it, nor is one that could not be cleared.
	objects map[schema.GroupVersionResource][]metav1.PartialObjectMetadata
	// discovery and parsing are why some resources may not be known.
	discovery, parsing error
	// failures are why resources could not be cleared.
	failures []error
}

// empty asks what is in the namespace to go, as far as its turn has come, and
// returns what is left. What fails keeps nothing else of the same phase from
// being done.
func (c *NamespaceController) empty(ctx context.Context, ns *corev1.Namespace, elapsed time.Duration) remains {
	left := remains{namespace: ns, now: time.Now(), elapsed: elapsed,
		objects: map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{}}
	var all []resource
	all, left.discovery, left.parsing = c.resources()
	for _, phase := range phases(all, elapsed, feature.DefaultFeatureGate.Enabled(orderedNamespaceDeletion)) {
		if len(left.failures) > 0 || len(left.objects) > 0 && !c.haveEnded(ctx, ns.Name) {
			break // what is left of the phase before keeps this one waiting
		}
		var mu sync.Mutex
		var clearing errgroup.Group
		clearing.SetLimit(atATime)
		for _, alike := range byName(phase) {
			clearing.Go(func() error {
				for _, r := range alike {
					var objects []metav1.PartialObjectMetadata
					err := controller.Recovered(ctx, func() (err error) {
						objects, err = c.clear(ctx, ns, r)
						return err
					}, "namespace", ns.Name, "resource", r.GroupVersionResource)()
					mu.Lock()
					left.add(r, objects, err)
					mu.Unlock()
				}
				return nil
			})
		}
		_ = clearing.Wait() // each failure is among those of left
	}
	left.waited = c.asked.since(ns.UID)
	return left
}

// haveEnded tells whether all pods of a namespace have, and use nothing of it any
// more. One that its Job holds may wait for a successor, which cannot come here.
func (c *NamespaceController) haveEnded(ctx context.Context, namespace string) bool {
	running := metav1.ListOptions{FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}
	list, err := c.metadata.Resource(pods).Namespace(namespace).List(ctx, running)
	return err == nil && len(list.Items) == 0
}

// resources returns those that may have objects in a namespace: all that discovery
// has ever named, but for those that the API server has since said it does not have.
// Discovery may leave a group out without an error, when an API server has just begun.
func (c *NamespaceController) resources() (all []resource, discovery, parsing error) {
	lists, discovery := controller.Discovered(c.discover)
	now, parsing := emptiable(lists)
	for _, r := range now {
		c.named.Store(r.GroupResource(), r)
	}
	c.named.Range(func(_, r any) bool {
		all = append(all, r.(resource))
		return true
	})
	return all, discovery, parsing
}

// byName puts resources of the same name together. They are cleared one after the
// other: they may show the same objects in two groups of the API, as those of
// events do, and then clearing both at once asks for everything twice.
func byName(all []resource) map[string][]resource {
	groups := map[string][]resource{}
	for _, r := range all {
		groups[r.Resource] = append(groups[r.Resource], r)
	}
	return groups
}

func (l *remains) add(r resource, objects []metav1.PartialObjectMetadata, err error) {
	if len(objects) > 0 {
		l.objects[r.GroupVersionResource] = objects
	}
	if err != nil {
		l.failures = append(l.failures, err)
	}
}

// clear asks the objects of a resource to go, as far as they have to be asked, and
// returns what is there afterwards. Its errors are told to the user as they are.
func (c *NamespaceController) clear(ctx context.Context, ns *corev1.Namespace, r resource) ([]metav1.PartialObjectMetadata, error) {
	objects, err := c.list(ctx, ns.Name, r)
	if err != nil {
		return nil, err
	}
	doomed := unasked(objects)
	if len(doomed) == 0 {
		return objects, nil
	}
	if err := c.delete(ctx, ns.Name, r, doomed); err != nil {
		return nil, err
	}
	c.asked.forget(ns.UID) // and begins anew
	return c.list(ctx, ns.Name, r)
}

// list returns the objects of a resource in the namespace.
func (c *NamespaceController) list(ctx context.Context, namespace string, r resource) ([]metav1.PartialObjectMetadata, error) {
	list, err := c.metadata.Resource(r.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case isUnsupported(err):
		// The resource is gone by now, with its definition; or it cannot be listed,
		// and never could, and would hold every namespace.
		c.named.Delete(r.GroupResource())
		return nil, nil
	case err != nil:
		return nil, err
	}
	return list.Items, nil
}

// isUnsupported tells whether an API server answers that it does not have what
// discovery says it has: the resource, or the verb. Some say NotFound for either
// (https://issues.k8s.io/22413).
func isUnsupported(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// unasked returns the objects that have to be asked to go, for the first time or
// once more.
func unasked(objects []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	var unasked []metav1.PartialObjectMetadata
	for _, object := range objects {
		isGoing := object.DeletionTimestamp != nil
		// The dependents of what waits for them are going as well.
		waits := slices.Contains(object.Finalizers, metav1.FinalizerOrphanDependents) ||
			slices.Contains(object.Finalizers, metav1.FinalizerDeleteDependents)
		grace := object.DeletionGracePeriodSeconds
		isStopping := grace != nil && *grace > 0 // and another deletion changes nothing
		if !isGoing || waits && !isStopping {
			unasked = append(unasked, object)
		}
	}
	return unasked
}

// delete asks objects of one resource to go: all that unasked has returned.
func (c *NamespaceController) delete(ctx context.Context, namespace string, r resource, objects []metav1.PartialObjectMetadata) error {
	client := c.metadata.Resource(r.GroupVersionResource).Namespace(namespace)
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if r.asOne {
		err := client.DeleteCollection(ctx, options, metav1.ListOptions{})
		if !isUnsupported(err) {
			return err
		}
		// Not every API server can do what it says that it can.
	}
	var errs []error
	for _, object := range objects {
		// What is not there any more is as it should be.
		if err := client.Delete(ctx, object.Name, options); err != nil && !controller.IsGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
