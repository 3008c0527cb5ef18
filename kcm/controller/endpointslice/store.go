package endpointslice

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	endpointsliceutil "k8s.io/endpointslice/util"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// serviceIndex is the name of the index behind [Store.Of].
const serviceIndex = "service"

// Store has the slices that one controller manages: it finds those of a
// Service, writes them, and tells when somebody else has.
type Store struct {
	client    kubernetes.Interface
	indexer   cache.Indexer
	tracker   *endpointsliceutil.EndpointSliceTracker
	managedBy string
	// count is told of each write: create, update or delete.
	count func(operation string)
	// awaited has the Services whose slices the cache does not show as they were written.
	awaited sync.Map
}

// NewStore returns the slices whose label endpointslice.kubernetes.io/managed-by
// names the controller. It calls count after each write.
func NewStore(client kubernetes.Interface, informer discoveryinformers.EndpointSliceInformer, managedBy string, count func(operation string)) *Store {
	indexer := informer.Informer().GetIndexer()
	if _, exists := indexer.GetIndexers()[serviceIndex]; !exists {
		if err := informer.Informer().AddIndexers(cache.Indexers{serviceIndex: serviceKeys}); err != nil {
			// Only an informer that was stopped refuses an index.
			utilruntime.HandleError(fmt.Errorf("index EndpointSlices by Service: %w", err))
		}
	}
	return &Store{client: client, indexer: indexer, tracker: endpointsliceutil.NewEndpointSliceTracker(), managedBy: managedBy, count: count}
}

// serviceKeys returns the Service that a slice says it is of, if it says so.
func serviceKeys(obj any) ([]string, error) {
	service := serviceOf(obj.(*discoveryv1.EndpointSlice))
	if service.Name == "" {
		return nil, nil
	}
	return []string{service.String()}, nil
}

func serviceOf(slice *discoveryv1.EndpointSlice) cache.ObjectName {
	return cache.NewObjectName(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
}

// Of returns the slices of a Service but for those that are being deleted. They
// are the cache's. It returns [controller.ErrStaleCache] while the cache lacks
// something that this Store has written for the Service.
func (s *Store) Of(service *corev1.Service) ([]*discoveryv1.EndpointSlice, error) {
	key := cache.MetaObjectToName(service)
	slices, err := s.cached(key)
	if err != nil {
		return nil, err
	}
	if s.tracker.StaleSlices(service, slices) {
		s.awaited.Store(key, true)
		return nil, fmt.Errorf("%w: it lacks slices that were written", controller.ErrStaleCache)
	}
	s.awaited.Delete(key)
	return slices, nil
}

func (s *Store) cached(service cache.ObjectName) ([]*discoveryv1.EndpointSlice, error) {
	found, err := s.indexer.ByIndex(serviceIndex, service.String())
	if err != nil {
		return nil, fmt.Errorf("look up the slices of Service %s: %w", service, err)
	}
	var slices []*discoveryv1.EndpointSlice
	for _, obj := range found {
		if slice := obj.(*discoveryv1.EndpointSlice); s.manages(slice) && slice.DeletionTimestamp == nil {
			slices = append(slices, slice)
		}
	}
	return slices, nil
}

func (s *Store) manages(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == s.managedBy
}

// Write carries out a plan: first what makes endpoints appear, last what makes
// them go, so that none is missing in between. It creates nothing if the
// namespace is being deleted, which is no failure.
func (s *Store) Write(ctx context.Context, namespace string, plan Plan) error {
	client := s.client.DiscoveryV1().EndpointSlices(namespace)
	for _, slice := range plan.Create {
		created, err := client.Create(ctx, slice, metav1.CreateOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create an EndpointSlice: %w", err)
		}
		s.wrote("create", created)
	}
	for _, slice := range plan.Update {
		updated, err := client.Update(ctx, slice, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("update EndpointSlice %s: %w", slice.Name, err)
		}
		s.wrote("update", updated)
	}
	for _, slice := range plan.Delete {
		if err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete EndpointSlice %s: %w", slice.Name, err)
		}
		s.tracker.ExpectDeletion(slice)
		s.count("delete")
	}
	return nil
}

func (s *Store) wrote(operation string, slice *discoveryv1.EndpointSlice) {
	s.tracker.Update(slice)
	s.count(operation)
}

// Clear deletes the slices of a Service that is not to have any, and forgets
// what was written for it.
func (s *Store) Clear(ctx context.Context, service cache.ObjectName) error {
	s.Forget(service)
	slices, err := s.cached(service)
	if err != nil {
		return err
	}
	client := s.client.DiscoveryV1().EndpointSlices(service.Namespace)
	for _, slice := range slices {
		if err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete EndpointSlice %s: %w", slice.Name, err)
		}
	}
	return nil
}

// Forget drops what was noted for a Service that is gone.
func (s *Store) Forget(service cache.ObjectName) {
	s.tracker.DeleteService(service.Namespace, service.Name)
	s.awaited.Delete(service)
}

// Watch calls changed with each Service of which somebody else has changed a
// slice, or has given one to this controller or taken it away, and with one that
// waits for its slices when it is shown one. For what was taken
// away the Service does not wait any more, and gets another slice. A slice that
// names no Service concerns none.
func (s *Store) Watch(informer cache.SharedIndexInformer, changed func(service cache.ObjectName)) cache.InformerSynced {
	tell := func(slice *discoveryv1.EndpointSlice) {
		if service := serviceOf(slice); service.Name != "" {
			changed(service)
		}
	}
	concerns := func(slice *discoveryv1.EndpointSlice) bool {
		_, isAwaited := s.awaited.Load(serviceOf(slice))
		return isAwaited || s.tracker.ShouldSync(slice)
	}
	return controller.Handle(informer, controller.Handlers[*discoveryv1.EndpointSlice]{
		Add: func(slice *discoveryv1.EndpointSlice) {
			if s.manages(slice) && concerns(slice) {
				tell(slice)
			}
		},
		Update: func(old, slice *discoveryv1.EndpointSlice) {
			isMoved, isOurs := serviceOf(old) != serviceOf(slice), s.manages(slice)
			if isMoved || !isOurs {
				s.tracker.HandleDeletion(old)
			}
			if isMoved {
				tell(old)
			}
			if isMoved || s.manages(old) != isOurs || isOurs && concerns(slice) {
				tell(slice)
			}
		},
		Delete: func(slice *discoveryv1.EndpointSlice) {
			if s.manages(slice) && s.tracker.Has(slice) && !s.tracker.HandleDeletion(slice) {
				tell(slice)
			}
		},
	})
}
