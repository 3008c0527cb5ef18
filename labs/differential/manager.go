package differential

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/controller"
	updeployment "k8s.io/kubernetes/pkg/controller/deployment"
	upreplicaset "k8s.io/kubernetes/pkg/controller/replicaset"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/deployment"
	"github.com/kcm-book/kcm-book/kcm/controller/replication"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// burstReplicas is how many pods a sync creates or deletes at most: fewer than in truth, so that it matters.
const burstReplicas = 5

// manager is a running manager: its two loops, its caches and the queues that make it move.
type manager struct {
	deployments *informer[*appsv1.Deployment]
	replicaSets *informer[*appsv1.ReplicaSet]
	pods        *informer[*corev1.Pod]

	deploymentQueue, replicaSetQueue workQueue
	stop                             func()
}

// workQueue is a [queue] of whatever keys.
type workQueue interface {
	Len() int
	sync() bool
	next() time.Time
	allFailures() int
}

// loop is what both managers' loops have.
type loop interface {
	Run(ctx context.Context, workers int)
}

// loops starts the two loops of one manager.
type loops func(ctx context.Context, from informers.SharedInformerFactory, client kubernetes.Interface, events record.EventRecorder) (deployments, replicaSets loop, deploymentQueue, replicaSetQueue workQueue)

// startManager starts a manager whose caches show the API as it was at some time.
func startManager(s *server, loops loops, client kubernetes.Interface, then moment) *manager {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	m := &manager{
		deployments: newInformer(s.deployments, since(then.deployments)),
		replicaSets: newInformer(s.replicaSets, since(then.replicaSets)),
		pods:        newInformer(s.pods, since(then.pods)),
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.InformerFor(&appsv1.Deployment{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.deployments })
	factory.InformerFor(&appsv1.ReplicaSet{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.replicaSets })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.pods })

	var d, rs loop
	d, rs, m.deploymentQueue, m.replicaSetQueue = loops(ctx, factory, client, s)
	m.deployments.tellHandlers()
	m.replicaSets.tellHandlers()
	m.pods.tellHandlers()
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx, 1) })
	running.Go(func() { rs.Run(ctx, 1) })
	m.stop = func() { cancel(); running.Wait() }
	return m
}

// kcm is the program under test.
func kcm(ctx context.Context, from informers.SharedInformerFactory, client kubernetes.Interface, events record.EventRecorder) (loop, loop, workQueue, workQueue) {
	apps, pods := from.Apps().V1(), from.Core().V1().Pods()
	d := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), pods, client)
	rs := replication.NewReplicaSetController(ctx, apps.ReplicaSets(), pods, client, burstReplicas)
	(*field[*controller.Events](d, "events")).EventRecorder = events
	(*field[*controller.Events](rs, "events")).EventRecorder = events
	return d, rs,
		replaceQueue[cache.ObjectName](*field[*controller.Loop[cache.ObjectName]](d, "loop"), eager),
		replaceQueue[cache.ObjectName](*field[*controller.Loop[cache.ObjectName]](rs, "loop"), 0)
}

// original is Kubernetes' own.
func original(ctx context.Context, from informers.SharedInformerFactory, client kubernetes.Interface, events record.EventRecorder) (loop, loop, workQueue, workQueue) {
	apps, pods := from.Apps().V1(), from.Core().V1().Pods()
	d, err := updeployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), pods, client)
	if err != nil {
		panic(err)
	}
	rs := upreplicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), pods, client, burstReplicas)
	*field[record.EventRecorder](d, "eventRecorder") = events
	podControl := field[upstream.PodControlInterface](rs, "podControl")
	withEvents := (*podControl).(upstream.RealPodControl)
	withEvents.Recorder = events
	*podControl = withEvents
	return d, rs, replaceQueue[string](d, eager), replaceQueue[string](rs, 0)
}

// eager is how often a failed sync of a Deployment is tried again at once. The original fails whenever it writes the same
// object twice in a round, where kcm goes on, and nothing else is to happen before it tries again.
const eager = 4

// replaceQueue gives the owner of a field "queue" another one.
func replaceQueue[K comparable](owner any, eager int) workQueue {
	place, q := field[workqueue.TypedRateLimitingInterface[K]](owner, "queue"), newQueue[K](eager)
	(*place).ShutDown()
	*place = q
	return q
}

// field returns the place of a struct's field, also of one that is not exported: neither program has a door for this.
func field[T any](of any, name string) *T {
	place := reflect.ValueOf(of).Elem().FieldByName(name)
	if !place.IsValid() || place.Type() != reflect.TypeFor[T]() {
		panic(fmt.Sprintf("%T has no field %s of type %v any more: adapt %s", of, name, reflect.TypeFor[T](), "labs/differential/manager.go"))
	}
	return (*T)(unsafe.Pointer(place.UnsafeAddr()))
}

// moment remembers how the API is now: its informers see nothing of what comes later.
type moment struct {
	deployments *latecache.Informer[*appsv1.Deployment]
	replicaSets *latecache.Informer[*appsv1.ReplicaSet]
	pods        *latecache.Informer[*corev1.Pod]
}

func (s *server) now() moment {
	return moment{latecache.NewInformer(s.deployments), latecache.NewInformer(s.replicaSets), latecache.NewInformer(s.pods)}
}

// since returns how many changes there have been since an informer has listed.
func since[T latecache.Object[T]](i *latecache.Informer[T]) int {
	unshown, _ := i.Behind()
	return unshown
}

// resync tells the handlers of all that is in the cache, as informers do from time to time.
func (i *informer[T]) resync() {
	for _, obj := range sorted(i.GetStore().List()) {
		for _, handler := range i.handlers {
			handler.OnUpdate(obj, obj)
		}
	}
}

// showUpTo shows what has happened up to a version.
func (i *informer[T]) showUpTo(version string) {
	for isOlder(i.GetStore().LastStoreSyncResourceVersion(), version) && since(i.Informer) > 0 {
		i.Show(1)
	}
}

// isOlder compares versions. The empty one is older than all others.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return b != "" && err == nil && order < 0
}

// informer is a late informer that tells of what it has listed when all is set up.
type informer[T latecache.Object[T]] struct {
	*latecache.Informer[T]
	handlers []cache.ResourceEventHandler
}

func newInformer[T latecache.Object[T]](store *latecache.Store[T], behind int) *informer[T] {
	return &informer[T]{Informer: latecache.NewLateInformer(store, behind)}
}

// AddEventHandler keeps the handler until tellHandlers.
func (i *informer[T]) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return listed{}, nil
}

func (i *informer[T]) tellHandlers() {
	for _, handler := range i.handlers {
		i.Informer.AddEventHandler(handler)
	}
}

// GetIndexer returns an index that gives out objects in the order of their names. Pods that are alike in all that the
// original's choice of those to delete looks at it takes in the order of its cache, which is by chance in truth.
func (i *informer[T]) GetIndexer() cache.Indexer { return inOrder{i.Informer.GetIndexer()} }

type inOrder struct{ cache.Indexer }

func (x inOrder) List() []any { return sorted(x.Indexer.List()) }

func (x inOrder) Index(name string, obj any) ([]any, error) {
	found, err := x.Indexer.Index(name, obj)
	return sorted(found), err
}

func (x inOrder) ByIndex(name, value string) ([]any, error) {
	found, err := x.Indexer.ByIndex(name, value)
	return sorted(found), err
}

func sorted(objects []any) []any {
	slices.SortFunc(objects, func(a, b any) int {
		return strings.Compare(a.(metav1.Object).GetName(), b.(metav1.Object).GetName())
	})
	return objects
}

// HasSynced is true: it has listed.
func (i *informer[T]) HasSynced() bool { return true }

type listed struct {
	cache.ResourceEventHandlerRegistration
}

func (listed) HasSynced() bool { return true }

// Event implements [record.EventRecorder].
func (s *server) Event(about runtime.Object, kind, reason, message string) {
	s.recordEvent(about, kind, reason, message)
}

// Eventf implements [record.EventRecorder].
func (s *server) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	s.recordEvent(about, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements [record.EventRecorder].
func (s *server) AnnotatedEventf(about runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	s.recordEvent(about, kind, reason, fmt.Sprintf(format, args...))
}
