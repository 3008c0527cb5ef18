package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// errNoCore says that an answer of discovery is not to be believed.
var errNoCore = errors.New("the API server names no resources of the core group, which every one has")

// Discovered returns what is discovered. An answer without the core group, or one
// that is empty, is an error.
func Discovered(discover func() ([]*metav1.APIResourceList, error)) ([]*metav1.APIResourceList, error) {
	lists, err := discover()
	isCore := func(l *metav1.APIResourceList) bool { return l.GroupVersion == "v1" && len(l.APIResources) > 0 }
	if !slices.ContainsFunc(lists, isCore) {
		err = errors.Join(err, errNoCore)
	}
	return lists, err
}

// Resources returns those of the resources that are discovered that can do all
// of the verbs, with their kinds, and the versions of which the API server could
// not tell: the program behind them may not answer just now.
func Resources(discover func() ([]*metav1.APIResourceList, error), verbs ...string) (
	map[schema.GroupVersionResource]schema.GroupVersionKind, map[schema.GroupVersion]error, error) {
	lists, err := Discovered(discover)
	unknown, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly || errors.Is(err, errNoCore) {
		return nil, nil, fmt.Errorf("discover resources: %w", err)
	}
	resources := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: verbs}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, fmt.Errorf("discover resources: %w", err)
		}
		for _, r := range list.APIResources {
			resources[version.WithResource(r.Name)] = version.WithKind(r.Kind)
		}
	}
	return resources, unknown, nil
}

// MetadataInformer is the informer of one resource that nobody else has. One
// that is shared would keep a queue and two goroutines for whoever comes later,
// and could not be stopped.
type MetadataInformer struct {
	// Store has the metadata of the objects, as far as it was not trimmed.
	cache.Store
	// HasSynced tells whether every object of the first list has been handed to
	// the handlers. It waits for no lock, so it may be called with one held that
	// the handlers take.
	HasSynced cache.InformerSynced

	stop    context.CancelFunc
	stopped chan struct{}
}

// WatchMetadata starts an informer that runs until ctx ends or it is stopped. It
// keeps, and hands to the handlers, what trim returns of an object.
func WatchMetadata(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource,
	trim func(*metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata, h Handlers[*metav1.PartialObjectMetadata]) *MetadataInformer {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: metadataOf(client, resource),
		ObjectType:    &metav1.PartialObjectMetadata{},
		Handler:       eventsFor(h),
		Transform: func(obj any) (any, error) {
			if full, ok := obj.(*metav1.PartialObjectMetadata); ok {
				return trim(full), nil
			}
			return obj, nil // a tombstone has what was trimmed before
		},
	})
	ctx, stop := context.WithCancel(ctx)
	i := &MetadataInformer{
		Store:     store,
		HasSynced: isDone(informer.HasSyncedChecker().Done()),
		stop:      stop, stopped: make(chan struct{}),
	}
	go func() {
		defer close(i.stopped)
		informer.RunWithContext(ctx)
	}()
	return i
}

// isDone tells whether a channel is closed. The informer's own HasSynced takes
// the lock of its queue, and that lock may be held while a handler runs.
func isDone(done <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

func metadataOf(client metadata.Interface, resource schema.GroupVersionResource) cache.ListerWatcher {
	objects := client.Resource(resource)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			Newest(&options)
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: objects.Watch,
	}, client)
}

// Stop ends the informer, and returns when it has called its last handler. What
// it has shown stays in the store.
func (i *MetadataInformer) Stop() {
	i.stop()
	<-i.stopped
}
