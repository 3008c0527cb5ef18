package endpointslice

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	endpointsliceutil "k8s.io/endpointslice/util"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/servicepods"
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
	// behind has since when the cache has lacked something, by Service, or when the
	// API server was last asked for it.
	behind sync.Map
	// count is told of each write: create, update or delete.
	count func(operation string)
}

// NewStore returns the slices whose label endpointslice.kubernetes.io/managed-by
// names the controller. It calls count after each write.
func NewStore(client kubernetes.Interface, informer discoveryinformers.EndpointSliceInformer, managedBy string, count func(operation string)) *Store {
	controller.AddIndex(informer.Informer(), serviceIndex, serviceKeys)
	return &Store{
		client: client, indexer: informer.Informer().GetIndexer(), tracker: endpointsliceutil.NewEndpointSliceTracker(),
		managedBy: managedBy, count: count,
	}
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
func (s *Store) Of(ctx context.Context, service *corev1.Service) ([]*discoveryv1.EndpointSlice, error) {
	key := cache.MetaObjectToName(service)
	slices, err := s.cached(key)
	if err != nil {
		return nil, err
	}
	if s.tracker.StaleSlices(service, slices) {
		if err := s.ask(ctx, service); err != nil {
			return nil, err
		}
		if s.tracker.StaleSlices(service, slices) {
			return nil, fmt.Errorf("%w: it lacks slices that were written", controller.ErrStaleCache)
		}
	}
	s.behind.Delete(key)
	return slices, nil
}

// ask asks the API server, once the cache has been behind for a while, which slices
// there are, and expects these and no others. A slice may have gone, and its Service
// with it, before the answer to its write came: the cache has told of that already,
// and will not show the slice.
func (s *Store) ask(ctx context.Context, service *corev1.Service) error {
	key := cache.MetaObjectToName(service)
	since, _ := s.behind.LoadOrStore(key, time.Now())
	if time.Since(since.(time.Time)) < controller.LookAgain {
		return nil
	}
	ours := labels.Set{discoveryv1.LabelServiceName: key.Name, discoveryv1.LabelManagedBy: s.managedBy}
	list, err := s.client.DiscoveryV1().EndpointSlices(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: ours.String()})
	if err != nil {
		return fmt.Errorf("list the slices of Service %s: %w", key, err)
	}
	s.tracker.DeleteService(key.Namespace, key.Name)
	s.behind.Store(key, time.Now())
	for i := range list.Items {
		if slice := &list.Items[i]; slice.DeletionTimestamp == nil {
			s.tracker.Update(slice)
		}
	}
	return nil
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
// them go, so that none is missing in between. A slice is deleted as it was when that
// was decided. Write creates nothing if the
// namespace is being deleted, which is no failure.
func (s *Store) Write(ctx context.Context, namespace string, plan Plan) error {
	client := s.client.DiscoveryV1().EndpointSlices(namespace)
	for _, slice := range plan.Create {
		created, err := client.Create(ctx, slice, metav1.CreateOptions{FieldManager: servicepods.FieldManager})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create an EndpointSlice: %w", err)
		}
		s.wrote("create", created)
	}
	for _, slice := range plan.Update {
		updated, err := client.Update(ctx, slice, metav1.UpdateOptions{FieldManager: servicepods.FieldManager})
		if err != nil {
			return fmt.Errorf("update EndpointSlice %s: %w", slice.Name, err)
		}
		s.wrote("update", updated)
	}
	for _, slice := range plan.Delete {
		err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion},
		})
		if err != nil && !controller.IsGone(err) {
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
		if err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil && !controller.IsGone(err) {
			return fmt.Errorf("delete EndpointSlice %s: %w", slice.Name, err)
		}
	}
	return nil
}

// Forget drops what was noted for a Service that is gone.
func (s *Store) Forget(service cache.ObjectName) {
	s.tracker.DeleteService(service.Namespace, service.Name)
	s.behind.Delete(service)
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
		_, isAwaited := s.behind.Load(serviceOf(slice))
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
