package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// initialSyncTimeout is how long the workers wait for all informers. After that
// they begin: one kind whose objects cannot be listed must not stop everything.
const initialSyncTimeout = 30 * time.Second

// GarbageCollector deletes objects whose owners are gone.
type GarbageCollector struct {
	metadata  metadata.Interface
	mapper    meta.ResettableRESTMapper
	discovery discovery.ServerResourcesInterface
	ignored   map[schema.GroupResource]struct{}
	shared    map[schema.GroupVersionResource]cache.SharedIndexInformer
	events    *controller.Events

	// toDelete has objects, and owners that nobody has seen, to be looked at, and
	// toOrphan owners whose dependents are to be freed.
	toDelete, toOrphan *controller.Loop[key]

	// mu guards graph and undefined.
	mu    sync.Mutex
	graph *graph
	// undefined has the names of deleted definitions of kinds.
	undefined sets.Set[string]
	// monitors are stored as a whole: a map that others can see does not change
	// any more.
	monitors atomic.Pointer[map[schema.GroupResource]*monitor]
	// left has what stopped informers have shown. Only watchKinds knows of it.
	left map[schema.GroupResource][]any
	// kindsChanged has an element when there may be other kinds than before.
	kindsChanged chan struct{}
}

// NewGarbageCollector returns the loop. It watches all resources but the
// ignored ones; metadataClient is used for these and for what it writes, and
// kubeClient for events. Resources for which there is a shared informer, which
// the caller starts, are not watched once more.
func NewGarbageCollector(
	ctx context.Context,
	kubeClient kubernetes.Interface,
	metadataClient metadata.Interface,
	mapper meta.ResettableRESTMapper,
	discoveryClient discovery.ServerResourcesInterface,
	ignored map[schema.GroupResource]struct{},
	shared map[schema.GroupVersionResource]cache.SharedIndexInformer,
) *GarbageCollector {
	registerMetrics()
	gc := &GarbageCollector{
		metadata:     metadataClient,
		mapper:       mapper,
		discovery:    discoveryClient,
		ignored:      ignored,
		shared:       shared,
		events:       controller.NewEvents(ctx, kubeClient, "garbage-collector-controller"),
		graph:        newGraph(),
		undefined:    sets.New[string](),
		left:         map[schema.GroupResource][]any{},
		kindsChanged: make(chan struct{}, 1),
	}
	gc.monitors.Store(&map[schema.GroupResource]*monitor{})
	loop := func(queue string, sync func(context.Context, key) error) *controller.Loop[key] {
		return controller.NewLoop(controller.LoopConfig[key]{
			Name:       "garbage-collector-controller",
			QueueName:  queue,
			Sync:       sync,
			MaxRetries: controller.RetryForever,
		})
	}
	gc.toDelete = loop("garbage_collector_attempt_to_delete", gc.attemptToDelete)
	gc.toOrphan = loop("garbage_collector_attempt_to_orphan", gc.attemptToOrphan)
	return gc
}

// Run watches, and collects with as many workers as it is told, and as many
// that orphan. It returns when ctx has ended and all of them have finished.
func (gc *GarbageCollector) Run(ctx context.Context, workers int) {
	defer gc.events.Start()()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { gc.watchKinds(ctx) })

	begin := time.Now()
	ready := func() bool { return gc.synced() || time.Since(begin) > initialSyncTimeout }
	running.Go(func() { gc.toOrphan.Run(ctx, workers, ready) })
	gc.toDelete.Run(ctx, workers, ready)
}

// change lets one change of the graph be followed by the work that it gives.
func (gc *GarbageCollector) change(change func(*graph) work) {
	gc.enqueue(locked(gc, change))
}

// locked calls what reads or changes the graph.
func locked[T any](gc *GarbageCollector, use func(*graph) T) T {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	return use(gc.graph)
}

func (gc *GarbageCollector) enqueue(do work) {
	for _, k := range do.check {
		gc.toDelete.Add(k)
	}
	for _, k := range do.orphan {
		gc.toOrphan.Add(k)
	}
	for _, m := range do.misplaced {
		gc.warn(m)
	}
}

// warn records at the dependent that its reference leads nowhere.
func (gc *GarbageCollector) warn(m misplaced) {
	gc.events.Eventf(&corev1.ObjectReference{
		APIVersion: m.dependent.APIVersion, Kind: m.dependent.Kind,
		Namespace: m.dependent.Namespace, Name: m.dependent.Name, UID: m.dependent.UID,
	}, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef %s does not exist in namespace %q",
		claim(m.dependent, m.owner), m.dependent.Namespace)
}

// attemptToDelete looks at one object, or at an owner that nobody has seen.
func (gc *GarbageCollector) attemptToDelete(ctx context.Context, k key) error {
	check, err := gc.collect(ctx, k)
	gc.enqueue(work{check: check})
	if errors.Is(err, errNoSuchOwner) {
		return nil // and trying again does not change it
	}
	return err
}

// collect does what is to be done about one key, and returns those whose turn it
// is then.
func (gc *GarbageCollector) collect(ctx context.Context, k key) (check []key, err error) {
	if locked(gc, func(g *graph) bool { return g.isVirtual(k.uid) }) {
		return gc.verify(ctx, k)
	}
	seen, err := gc.observe(ctx, k)
	switch {
	case errors.Is(err, errMore):
		return []key{k}, nil
	case err != nil || seen.object == nil:
		return nil, err
	case seen.isPartial() && !seen.isKept():
		return nil, fmt.Errorf("%w: %s has too many owners", controller.ErrStaleCache, referenceTo(seen.object))
	}
	plan := decide(seen)
	if err = gc.act(ctx, seen, plan); err == nil && seen.isPartial() {
		err = fmt.Errorf("%w: %s has too many owners", controller.ErrStaleCache, referenceTo(seen.object))
	}
	return plan.check, err
}

// verify asks the API server for an owner that no informer shows, under each
// name that the objects of a namespace have for it. It returns the objects that
// name what is not there. An owner that is there is asked for until its informer
// shows it: it may be deleted again before, and then no informer will ever tell.
// Only one name can be right, and if there are more than a few, each object is
// asked about by itself.
func (gc *GarbageCollector) verify(ctx context.Context, k key) ([]key, error) {
	claims := locked(gc, func(g *graph) []reference { return g.claims(k) })
	if len(claims) > asks {
		return locked(gc, func(g *graph) []key { return keysOf(g.naming(k)) }),
			fmt.Errorf("%w: %s has too many names", controller.ErrStaleCache, k.uid)
	}
	var failed error
	for _, claim := range claims {
		is, err := gc.lookUp(ctx, claim)
		switch {
		case errors.Is(err, errNoSuchOwner), err == nil && is == dangling:
			continue
		case err == nil:
			err = fmt.Errorf("%w: %s exists and no informer shows it", controller.ErrStaleCache, claim)
		}
		if failed == nil || errors.Is(failed, controller.ErrStaleCache) {
			failed = err
		}
	}
	return locked(gc, func(g *graph) []key { return g.misled(k) }), failed
}

// attemptToOrphan frees the dependents of an owner of itself, and lets the
// owner go when that was done for all.
func (gc *GarbageCollector) attemptToOrphan(ctx context.Context, k key) error {
	var dependents []*object
	owner := locked(gc, func(g *graph) *object {
		n := g.nodes[k.uid]
		if n == nil || phaseOf(n.object) != orphaning {
			return nil
		}
		for _, d := range n.dependents {
			if !isElsewhere(n.object, d.object) {
				dependents = append(dependents, d.object)
			}
		}
		return n.object
	})
	if owner == nil {
		return nil
	}
	var errs []error
	for _, d := range dependents {
		if err := gc.setOwners(ctx, d, without(k.uid)); err != nil {
			errs = append(errs, fmt.Errorf("free %s of its owner: %w", referenceTo(d), err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return gc.removeFinalizer(ctx, owner, metav1.FinalizerOrphanDependents)
}
