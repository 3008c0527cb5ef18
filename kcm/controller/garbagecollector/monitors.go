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
	// settlingPeriod is how often those informers are asked whether they have
	// synced that have taken the place of others.
	settlingPeriod = time.Second
)

// monitor is the informer of one resource, in one of its versions.
type monitor struct {
	resource schema.GroupVersionResource
	store    cache.Store
	synced   cache.InformerSynced
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
		gc.awaitKinds(ctx)
	}
	for _, m := range *gc.monitors.Load() {
		if m.own != nil {
			m.own.Stop()
		}
	}
}

// awaitKinds returns when it is time to ask for the kinds. Meanwhile it settles
// what stopped informers have left.
func (gc *GarbageCollector) awaitKinds(ctx context.Context) {
	expired := time.After(discoveryPeriod)
	settling := time.NewTicker(settlingPeriod)
	defer settling.Stop()
	for {
		gc.settle()
		select {
		case <-ctx.Done():
			return
		case <-expired:
			return
		case <-settling.C:
		case <-gc.kindsChanged:
			select {
			case <-ctx.Done():
			case <-time.After(discoveryDelay):
			}
			return
		}
	}
}

// syncMonitors starts an informer for each resource that has none, and stops
// those whose resource is served no more or in another version. One that the API
// server could not tell about just now, because the program behind it does not
// answer, keeps its informer. There are never two of one resource: they would
// tell of the same objects, and one of them late.
func (gc *GarbageCollector) syncMonitors(ctx context.Context) error {
	resources, unknown, err := controller.Resources(gc.discovery.ServerPreferredResources, "delete", "list", "watch")
	if err != nil {
		return err
	}
	gc.mapper.Reset() // it forgets what it knows, and asks when it is asked
	monitors := map[schema.GroupResource]*monitor{}
	for resource, m := range *gc.monitors.Load() {
		_, served := resources[m.resource]
		_, failed := unknown[m.resource.GroupVersion()]
		if served || failed || m.own == nil {
			monitors[resource] = m
		} else {
			gc.stopMonitor(ctx, m)
		}
	}
	for served, kind := range resources {
		resource := served.GroupResource()
		_, ignored := gc.ignored[resource]
		if monitors[resource] == nil && !ignored {
			monitors[resource] = gc.startMonitor(ctx, served, kind)
		}
	}
	gc.monitors.Store(&monitors)
	if len(unknown) > 0 {
		return fmt.Errorf("the API server could not tell about some groups: %v", unknown)
	}
	return nil
}

// startMonitor follows the informer that other loops have, or one of its own.
func (gc *GarbageCollector) startMonitor(ctx context.Context, resource schema.GroupVersionResource, kind schema.GroupVersionKind) *monitor {
	klog.FromContext(ctx).V(2).Info("Watching", "resource", resource)
	if informer, ok := gc.shared[resource]; ok {
		return gc.follow(informer, resource, kind)
	}
	return gc.watch(ctx, resource, kind)
}

// follow has the graph follow an informer that other loops have.
func (gc *GarbageCollector) follow(informer cache.SharedIndexInformer,
	resource schema.GroupVersionResource, kind schema.GroupVersionKind) *monitor {
	trimmed := func(obj metav1.Object) *object { return trim(obj, kind) }
	synced := controller.Handle(informer, controller.Handlers[metav1.Object]{
		Add:    func(obj metav1.Object) { gc.appeared(trimmed(obj)) },
		Update: func(_, obj metav1.Object) { gc.changed(trimmed(obj)) },
		Delete: func(obj metav1.Object) { gc.gone(trimmed(obj)) },
		// Who is orphaned and who is deleted is read from the graph.
		MustNotPanic: true,
	})
	return &monitor{resource: resource, store: informer.GetStore(), synced: synced}
}

// watch starts an informer whose only handlers are the graph's.
func (gc *GarbageCollector) watch(ctx context.Context, resource schema.GroupVersionResource, kind schema.GroupVersionKind) *monitor {
	trimmed := func(full *object) *object { return trim(full, kind) }
	own := controller.WatchMetadata(ctx, gc.metadata, resource, trimmed, controller.Handlers[*object]{
		Add: gc.appeared, Update: func(_, obj *object) { gc.changed(obj) }, Delete: gc.gone,
		MustNotPanic: true,
	})
	return &monitor{resource: resource, store: own, synced: own.HasSynced, own: own}
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
	gc.define(obj, true)
	gc.noticeKinds(obj)
}

func (gc *GarbageCollector) changed(obj *object) {
	gc.change(func(g *graph) work { return g.put(obj) })
	gc.noticeKinds(obj)
}

func (gc *GarbageCollector) gone(obj *object) {
	gc.change(func(g *graph) work { return g.remove(obj) })
	gc.define(obj, false)
	gc.noticeKinds(obj)
}

// define notes which definitions are deleted. Their names are those of the
// resources.
func (gc *GarbageCollector) define(obj *object, exists bool) {
	if obj.Kind != "CustomResourceDefinition" {
		return
	}
	gc.mu.Lock()
	defer gc.mu.Unlock()
	if exists {
		gc.undefined.Delete(obj.Name)
	} else {
		gc.undefined.Insert(obj.Name)
	}
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

// stopMonitor stops an informer. What it has shown stays in the graph until it
// is known what has become of it.
func (gc *GarbageCollector) stopMonitor(ctx context.Context, m *monitor) {
	klog.FromContext(ctx).V(2).Info("Watching no more", "resource", m.resource)
	m.own.Stop()
	resource := m.resource.GroupResource()
	gc.left[resource] = append(gc.left[resource], m.store.List()...)
}

// settle takes out of the graph what stopped informers have shown and is gone:
// an informer that was started later does not show it. A resource that is not
// served has its objects still, unless its definition is deleted: they were
// deleted before. Whether that holds for each is not known, so what depends on
// them is not yet garbage.
func (gc *GarbageCollector) settle() {
	monitors := *gc.monitors.Load()
	for resource, objects := range gc.left {
		m := monitors[resource]
		switch {
		case m != nil && m.synced():
			gc.each(objects, func(g *graph, obj *object) (do work) {
				if !m.shows(obj) {
					do = g.remove(obj)
				}
				return do
			})
		case m == nil && gc.isUndefined(resource):
			gc.each(objects, (*graph).forget)
		default:
			continue
		}
		delete(gc.left, resource)
	}
}

func (gc *GarbageCollector) each(objects []any, change func(*graph, *object) work) {
	for _, obj := range objects {
		gc.change(func(g *graph) work { return change(g, obj.(*object)) })
	}
}

// shows tells whether an object, and not another of its name, is in the store.
func (m *monitor) shows(obj *object) bool {
	shown, exists, _ := m.store.GetByKey(cache.MetaObjectToName(obj).String())
	return exists && shown.(metav1.Object).GetUID() == obj.UID
}

// isUndefined tells whether the definition of a resource is deleted.
func (gc *GarbageCollector) isUndefined(resource schema.GroupResource) bool {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	return gc.undefined.Has(resource.String())
}

// synced tells whether the graph shows all that there was when the informers
// were started.
func (gc *GarbageCollector) synced() bool {
	monitors := *gc.monitors.Load()
	for _, m := range monitors {
		if !m.synced() {
			return false
		}
	}
	return len(monitors) > 0
}
