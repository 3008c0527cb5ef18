package garbagecollector

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// discoveryPeriod is how often the API server is asked for its kinds.
	discoveryPeriod = 30 * time.Second
	// discoveryDelay is how long the API server may take to serve a kind after
	// it was defined. Definitions often come many at a time, too.
	discoveryDelay = time.Second
)

// monitor is the informer of one resource.
type monitor struct {
	synced cache.InformerSynced
	// own is nil for an informer of other loops, which is theirs to stop.
	own *controller.MetadataInformer
}

// watchKinds keeps an informer for each resource, until ctx ends and all of
// them have stopped. It asks which there are when a definition of kinds has changed, and
// else from time to time.
func (gc *GarbageCollector) watchKinds(ctx context.Context) {
	for ctx.Err() == nil {
		if err := gc.syncMonitors(ctx); err != nil {
			resourcesSyncErrors.Inc()
			utilruntime.HandleErrorWithContext(ctx, err, "Could not find out about all kinds")
		}
		select {
		case <-ctx.Done():
		case <-time.After(discoveryPeriod):
		case <-gc.kindsChanged:
			select {
			case <-ctx.Done():
			case <-time.After(discoveryDelay):
			}
		}
	}
	for _, m := range gc.monitors {
		if m.own != nil {
			m.own.Stop()
		}
	}
}

// syncMonitors starts an informer for each resource that has none and stops
// those whose resource is gone. One that the API server could not tell about
// just now, because the program behind it does not answer, keeps its informer.
func (gc *GarbageCollector) syncMonitors(ctx context.Context) error {
	resources, unknown, err := controller.Resources(gc.discovery.ServerPreferredResources, "delete", "list", "watch")
	if err != nil {
		return err
	}
	gc.mapper.Reset() // it forgets what it knows, and asks when it is asked
	for resource, kind := range resources {
		_, ignored := gc.ignored[resource.GroupResource()]
		if _, exists := gc.monitors[resource]; !exists && !ignored {
			gc.startMonitor(ctx, resource, kind)
		}
	}
	for _, resource := range gc.superfluous(resources, unknown) {
		gc.stopMonitor(ctx, resource, gc.monitors[resource].own)
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the API server could not tell about some groups: %v", unknown)
	}
	return nil
}

// superfluous returns the resources that are gone, or none as long as an informer
// of those that are left has not told what there is: another version may show the
// same objects.
func (gc *GarbageCollector) superfluous(resources map[schema.GroupVersionResource]schema.GroupVersionKind,
	unknown map[schema.GroupVersion]error) (gone []schema.GroupVersionResource) {
	for resource, m := range gc.monitors {
		_, exists := resources[resource]
		_, failed := unknown[resource.GroupVersion()]
		switch {
		case (exists || failed) && !m.synced():
			return nil
		case !exists && !failed && m.own != nil:
			gone = append(gone, resource)
		}
	}
	return gone
}

func (gc *GarbageCollector) startMonitor(ctx context.Context, resource schema.GroupVersionResource, kind schema.GroupVersionKind) {
	klog.FromContext(ctx).V(2).Info("Watching", "resource", resource)
	var m *monitor
	if informer, ok := gc.shared[resource]; ok {
		m = gc.follow(informer, kind)
	} else {
		m = gc.watch(ctx, resource, kind)
	}
	gc.mu.Lock()
	gc.monitors[resource] = m
	gc.mu.Unlock()
}

// follow has the graph follow an informer that other loops have.
func (gc *GarbageCollector) follow(informer cache.SharedIndexInformer, kind schema.GroupVersionKind) *monitor {
	trimmed := func(obj metav1.Object) *object { return trim(obj, kind) }
	return &monitor{synced: controller.Handle(informer, controller.Handlers[metav1.Object]{
		Add:    func(obj metav1.Object) { gc.appeared(trimmed(obj)) },
		Update: func(old, obj metav1.Object) { gc.changed(trimmed(old), trimmed(obj)) },
		Delete: func(obj metav1.Object) { gc.gone(trimmed(obj)) },
	})}
}

// watch starts an informer whose only handlers are the graph's.
func (gc *GarbageCollector) watch(ctx context.Context, resource schema.GroupVersionResource, kind schema.GroupVersionKind) *monitor {
	trimmed := func(full *object) *object { return trim(full, kind) }
	own := controller.WatchMetadata(ctx, gc.metadata, resource, trimmed, controller.Handlers[*object]{
		Add: gc.appeared, Update: gc.changed, Delete: gc.gone,
	})
	return &monitor{synced: own.HasSynced, own: own}
}

// trim returns what the collector reads of an object. The API server sends
// metadata without the kind.
func trim(full metav1.Object, kind schema.GroupVersionKind) *object {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return &object{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: name},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: full.GetNamespace(), Name: full.GetName(), UID: full.GetUID(), ResourceVersion: full.GetResourceVersion(),
			DeletionTimestamp: full.GetDeletionTimestamp(), Finalizers: full.GetFinalizers(), OwnerReferences: full.GetOwnerReferences(),
		},
	}
}

// appeared, changed and gone have the graph follow an informer.
func (gc *GarbageCollector) appeared(obj *object) {
	gc.change(func(g *graph) work { return g.put(obj) })
	gc.noticeKinds(obj)
}

func (gc *GarbageCollector) changed(old, obj *object) {
	gc.change(func(g *graph) work { return g.replace(old, obj) })
	gc.noticeKinds(obj)
}

func (gc *GarbageCollector) gone(obj *object) {
	gc.change(func(g *graph) work { return g.remove(obj) })
	gc.noticeKinds(obj)
}

// noticeKinds has the kinds looked up soon when an object defines some.
func (gc *GarbageCollector) noticeKinds(obj *object) {
	if obj.Kind != "CustomResourceDefinition" && obj.Kind != "APIService" {
		return
	}
	select {
	case gc.kindsChanged <- struct{}{}:
	default: // they will be looked up anyway
	}
}

// stopMonitor stops an informer whose resource is gone. What it showed may have
// been deleted, and is forgotten, unless the informer of another version shows it.
func (gc *GarbageCollector) stopMonitor(ctx context.Context, resource schema.GroupVersionResource, own *controller.MetadataInformer) {
	klog.FromContext(ctx).V(2).Info("Watching no more", "resource", resource)
	own.Stop()
	gc.mu.Lock()
	delete(gc.monitors, resource)
	gc.mu.Unlock()
	for _, obj := range own.List() {
		shown := obj.(*object)
		gc.change(func(g *graph) work {
			if n := g.nodes[shown.UID]; n != nil && n.object == shown {
				return g.forget(shown)
			}
			return work{}
		})
	}
}

// synced tells whether the graph shows all that there was when the informers
// were started.
func (gc *GarbageCollector) synced() bool {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	for _, m := range gc.monitors {
		if !m.synced() {
			return false
		}
	}
	return len(gc.monitors) > 0
}
