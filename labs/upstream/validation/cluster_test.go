package validation

//lint:file-ignore SA1019 Endpoints are deprecated, and two of the loops are about them.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"
	"unsafe"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/signer"
	"github.com/kcm-book/kcm-book/kcm/controller/clusterroleaggregation"
	"github.com/kcm-book/kcm-book/kcm/controller/cronjob"
	"github.com/kcm-book/kcm-book/kcm/controller/daemon"
	"github.com/kcm-book/kcm-book/kcm/controller/deployment"
	"github.com/kcm-book/kcm-book/kcm/controller/endpoint"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslicemirroring"
	"github.com/kcm-book/kcm-book/kcm/controller/job"
	"github.com/kcm-book/kcm-book/kcm/controller/podgc"
	"github.com/kcm-book/kcm-book/kcm/controller/replication"
	"github.com/kcm-book/kcm-book/kcm/controller/resourcequota"
	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
)

// cluster is an API server that validates as the original's does, with kcm's loops.
type cluster struct {
	*fake.Clientset
	about     string // the kind, where loops run only for some
	version   int
	denied    string // what a policy keeps loops from writing, as "update jobs/status"
	informers []*informer
	queues    []keys
	stop      func()
	refused   string // what a loop has written that the API server does not take
}

const (
	// namespace is where everything is.
	namespace = "ns"
	// maxEndpoints is how many endpoints a slice may have, and burstReplicas how many pods a sync creates or deletes: few,
	// so that it matters.
	maxEndpoints, burstReplicas = 3, 3
	// aWhile is for how long caches stay as they are at most. Who has no queue looks at them by the clock.
	aWhile = 10 * time.Second
	// enough is how many syncs the loops may need to come to rest. None needs a tenth of them that ever will.
	enough = 500
)

// loop is a loop of kcm.
type loop interface {
	Run(ctx context.Context, workers int)
}

// start starts the loops with empty memories.
func (c *cluster) start() {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	factory := informers.NewSharedInformerFactory(c, 0)
	c.informers, c.queues = nil, nil
	for _, obj := range []object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.ReplicationController{},
		&batchv1.Job{}, &batchv1.CronJob{},
		&appsv1.DaemonSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{}, &corev1.Node{},
		&corev1.Service{}, &corev1.Endpoints{},
		&discoveryv1.EndpointSlice{}, &corev1.ResourceQuota{}, &corev1.PersistentVolumeClaim{}, &coordinationv1.Lease{},
		&corev1.Namespace{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.ServiceAccount{},
		&certificatesv1.CertificateSigningRequest{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		informer := &informer{SharedIndexInformer: cache.NewSharedIndexInformer(nil, obj, 0, byNamespace), of: obj, shown: -1}
		c.informers = append(c.informers, informer)
		factory.InformerFor(obj, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	apps, batch, core := factory.Apps().V1(), factory.Batch().V1(), factory.Core().V1()
	slices := factory.Discovery().V1().EndpointSlices()
	pods, services, nodes, sets := core.Pods(), core.Services(), core.Nodes(), apps.ReplicaSets()
	loops := []loop{
		deployment.NewDeploymentController(ctx, apps.Deployments(), sets, pods, c),
		replication.NewReplicaSetController(ctx, sets, pods, c, burstReplicas),
		replication.NewReplicationManager(ctx, pods, core.ReplicationControllers(), c, burstReplicas),
		job.NewController(ctx, c, pods, batch.Jobs()),
		cronjob.NewController(ctx, batch.Jobs(), batch.CronJobs(), c),
		daemon.New(ctx, apps.DaemonSets(), apps.ControllerRevisions(), pods, nodes, c,
			flowcontrol.NewBackOff(time.Second, time.Minute)),
		endpoint.NewEndpointController(ctx, pods, services, core.Endpoints(), c, 0),
		endpointslice.NewController(ctx, pods, services, nodes, slices, maxEndpoints, c, 0),
		endpointslicemirroring.NewController(ctx, core.Endpoints(), slices, services, maxEndpoints, c, 0),
		resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
			QuotaClient: c.CoreV1(), ResourceQuotaInformer: core.ResourceQuotas(), InformerFactory: factory,
			ResyncPeriod:  func() time.Duration { return 0 },
			DiscoveryFunc: func() ([]*metav1.APIResourceList, error) { return nil, nil },
		}),
	}
	switch c.about {
	case "Nodes": // those of other runs fall silent, as nobody has written their kubelets' Leases
		loops = append(loops, c.loopsOfNodes(ctx, factory)...)
	case "Accounts":
		loops = append(loops, c.loopsOfAccounts(factory)...)
	case "Certificates":
		loops = append(loops, c.loopsOfCertificates(ctx, factory)...)
	case "Roles":
		loops = append(loops, clusterroleaggregation.New(factory.Rbac().V1().ClusterRoles(), c.RbacV1()))
	case "Tokens":
		loops = append(loops, c.loopsOfTokens(factory)...)
	}
	for _, loop := range loops {
		c.takeOver(loop)
	}
	synctest.Wait() // until handlers were told of caches that are empty
	for _, informer := range c.informers {
		informer.show(c)
	}
	var running sync.WaitGroup
	for _, loop := range loops {
		running.Go(func() { loop.Run(ctx, 1) })
	}
	synctest.Wait() // until who has an informer of its own watches with it
	c.stop = func() { cancel(); running.Wait() }
}

// takeOver gives a loop queues from which a test has it sync, and a recorder that forgets its events. kcm has no door
// for this.
func (c *cluster) takeOver(loop loop) {
	before := len(c.queues)
	for _, place := range fields(loop) {
		switch place := place.(type) {
		case **controller.Events:
			(*place).EventRecorder = &record.FakeRecorder{}
		case **controller.Loop[cache.ObjectName]:
			c.queues = append(c.queues, replaceQueue(*place))
		case **controller.Loop[string]:
			// That of endpointslice looks at nodes by itself. Before it has, no worker takes a Service.
			if _, looks := loop.(*endpointslice.Controller); !looks {
				c.queues = append(c.queues, replaceQueue(*place))
			}
		case **signer.Controller:
			c.takeOver(*place)
		}
	}
	_, hasRounds := loop.(*podgc.Controller)
	_, ofTokens := loop.(*serviceaccount.TokensController) // nobody can name the types of its keys, so it keeps its queues
	if len(c.queues) == before && !hasRounds && !ofTokens {
		panic(fmt.Sprintf("%T has no queue any more where takeOver looks for it", loop))
	}
}

// fields returns the places of a struct's fields, also of those that are not exported.
func fields(of any) (places []any) {
	for _, field := range reflect.ValueOf(of).Elem().Fields() {
		places = append(places, reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Interface())
	}
	return places
}

// replaceQueue gives a loop another queue.
func replaceQueue[K comparable](loop *controller.Loop[K]) (its *queue[K]) {
	for _, place := range fields(loop) {
		if place, ok := place.(*workqueue.TypedRateLimitingInterface[K]); ok {
			(*place).ShutDown()
			its = &queue[K]{keys: make(chan K), done: make(chan struct{})}
			its.due, its.failures = map[K]time.Time{}, map[K]int{}
			*place = its
		}
	}
	return its
}

// run lets the loops work for a while. Caches show all there is whenever a loop begins to sync.
func (c *cluster) run(period time.Duration) {
	end := time.Now().Add(period)
	for range enough {
		for _, informer := range c.informers {
			synctest.Wait() // for what loops do besides the syncs of their objects
			informer.show(c)
		}
		synctest.Wait()
		if slices.ContainsFunc(c.queues, keys.sync) && c.refused == "" {
			continue
		}
		next := time.Now().Add(aWhile)
		if next.After(end) {
			next = end
		}
		for _, q := range c.queues {
			if at := q.next(); !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if time.Sleep(time.Until(next)); next == end || c.refused != "" {
			return
		}
	}
}

// keys is a queue, whatever its keys are.
type keys interface {
	sync() bool
	next() time.Time
}

// queue is a loop's work queue that gives out a key when it is told to.
type queue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K] // nil: no loop calls anything else

	keys chan K
	done chan struct{}

	mu       sync.Mutex
	due      map[K]time.Time
	failures map[K]int
}

// Add adds a key that is due at once.
func (q *queue[K]) Add(key K) { q.AddAfter(key, 0) }

// AddAfter adds a key that is due later. Of two times the earlier counts.
func (q *queue[K]) AddAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(delay)
	if due, waits := q.due[key]; !waits || at.Before(due) {
		q.due[key] = at
	}
}

// AddRateLimited adds a key that is due after 5 ms, and with each failure after twice the time.
func (q *queue[K]) AddRateLimited(key K) {
	q.AddAfter(key, 5*time.Millisecond<<min(q.NumRequeues(key), 17))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failures[key]++
}

// NumRequeues returns how often a key has failed.
func (q *queue[K]) NumRequeues(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures[key]
}

// Forget has the next failure of a key be its first.
func (q *queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, key)
}

// Get is a worker's.
func (q *queue[K]) Get() (key K, shutdown bool) {
	key, open := <-q.keys
	return key, !open
}

// Done tells whoever has asked for the sync that it is done.
func (q *queue[K]) Done(K) { q.done <- struct{}{} }

// ShutDown ends the workers.
func (q *queue[K]) ShutDown() { close(q.keys) }

// sync has a worker sync the first key that is due, and waits for it. It returns false when there is none. Of several
// it is the first by name: which one came first may be by chance.
func (q *queue[K]) sync() bool {
	q.mu.Lock()
	var ready []K
	for key, at := range q.due {
		if !at.After(time.Now()) {
			ready = append(ready, key)
		}
	}
	if len(ready) == 0 {
		q.mu.Unlock()
		return false
	}
	key := slices.MinFunc(ready, func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	delete(q.due, key)
	q.mu.Unlock()
	q.keys <- key
	<-q.done
	return true
}

// next returns when the next key is due, or the zero time.
func (q *queue[K]) next() (first time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range q.due {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// informer is an informer whose watch breaks all the time: of several changes of an object it tells as of one.
type informer struct {
	cache.SharedIndexInformer // never run: it holds the cache
	of                        runtime.Object
	shown                     int // the version that the cache shows
	handlers                  []cache.ResourceEventHandler
}

// RunWithContext has nothing to do: the test calls show.
func (i *informer) RunWithContext(context.Context) {}

// AddEventHandler keeps the handler for show. It tells it of all that is in the cache, which the caller does not wait
// for.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	go func() {
		for _, obj := range sorted(i.GetStore().List()) {
			handler.OnAdd(obj, true)
		}
	}()
	i.handlers = append(i.handlers, handler)
	return i, nil
}

// HasSynced is true: no loop runs before show.
func (i *informer) HasSynced() bool { return true }

// GetIndexer returns an index that gives out objects in the order of their names.
func (i *informer) GetIndexer() cache.Indexer { return inOrder{i.SharedIndexInformer.GetIndexer()} }

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
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(a.(object).GetName(), b.(object).GetName()) })
	return objects
}

// show fills the cache and tells the handlers what is new.
func (i *informer) show(c *cluster) {
	if i.shown == c.version {
		return
	}
	before, gone, now := map[string]object{}, sorted(i.GetStore().List()), c.list(i.of)
	for _, old := range gone {
		before[old.(object).GetName()] = old.(object)
	}
	i.shown = c.version
	if err := i.GetStore().Replace(now, strconv.Itoa(i.shown)); err != nil {
		panic(err)
	}
	gone = slices.DeleteFunc(gone, func(old any) bool { _, exists, _ := i.GetStore().Get(old); return exists })
	for _, handler := range i.handlers {
		for _, obj := range now {
			if old := before[obj.(object).GetName()]; old == nil {
				handler.OnAdd(obj, false)
			} else if old.GetResourceVersion() != obj.(object).GetResourceVersion() {
				handler.OnUpdate(old, obj)
			}
		}
		for _, old := range gone {
			handler.OnDelete(old)
		}
	}
}

// list returns the objects of a kind, by their names.
func (c *cluster) list(of runtime.Object) (all []any) {
	kinds, _, err := scheme.Scheme.ObjectKinds(of)
	for _, obj := range done(meta.ExtractList(done(c.Tracker().List(resourceOf(of), done(kinds, err)[0], "")))) {
		all = append(all, obj)
	}
	return sorted(all)
}

func resourceOf(obj runtime.Object) schema.GroupVersionResource {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	resource, _ := meta.UnsafeGuessKindToResource(done(kinds, err)[0])
	return resource
}

// answer is the answer to a loop's request. Its caches have shown everything when the sync began, and no other loop has
// written since: what it has changed itself has to be the only thing that it could be in conflict with.
func (c *cluster) answer(action clienttesting.Action) (handled bool, obj runtime.Object, err error) {
	what := strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	if what == "create events" || what == "patch events" {
		return true, &corev1.Event{}, nil
	}
	if what == c.denied {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "",
			errors.New("a policy keeps it as it is"))
	}
	if what == "create subjectaccessreviews" {
		return true, c.reviewed(action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)), nil
	}
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		obj, err = c.write(action.Subresource, action.Object.(object))
	case clienttesting.UpdateActionImpl:
		obj, err = c.write(action.Subresource, action.Object.(object))
	case clienttesting.PatchActionImpl:
		if obj, err = c.Tracker().Get(action.Resource, action.Namespace, action.Name); err == nil {
			obj, err = patched(obj.(object), action)
		}
		if err == nil {
			obj, err = c.write(action.Subresource, obj.(object))
		}
	case clienttesting.DeleteActionImpl:
		err = c.remove(action.Resource, action.Namespace, action.Name, action.DeleteOptions)
	default:
		return false, nil, nil // reads the store
	}
	if (what == "update secrets" || what == "update serviceaccounts") && apierrors.IsConflict(err) {
		return true, nil, err // the loop of the tokens keeps its queues, so several of its syncs may see the same cache
	}
	if (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err)) && c.refused == "" {
		c.refused = what + ": " + err.Error()
	}
	return true, obj, err
}

// patched applies a patch. A UID in it is a precondition.
func patched(obj object, action clienttesting.PatchActionImpl) (object, error) {
	result := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(object)
	data := done(json.Marshal(obj))
	if action.PatchType != types.StrategicMergePatchType { // what a loop applies is all its own, and is a merge patch, too
		data = done(jsonpatch.MergePatch(data, action.Patch))
	} else {
		data = done(strategicpatch.StrategicMergePatch(data, action.Patch, result))
	}
	if err := json.Unmarshal(data, result); err != nil {
		panic(err)
	}
	if result.GetUID() != obj.GetUID() {
		return nil, conflict(resourceOf(obj), obj, "the UID in the patch is another")
	}
	return result, nil
}

func conflict(resource schema.GroupVersionResource, obj object, why string) error {
	return apierrors.NewConflict(resource.GroupResource(), obj.GetName(), errors.New(why))
}

// write creates an object that has no UID, or updates it. The API server may refuse it.
func (c *cluster) write(subresource string, obj object) (runtime.Object, error) {
	resource, obj := resourceOf(obj), obj.DeepCopyObject().(object)
	c.version++
	creates := obj.GetUID() == ""
	if creates {
		obj.SetName(cmp.Or(obj.GetName(), fmt.Sprintf("%s%05d", obj.GetGenerateName(), c.version)))
		obj.SetUID(types.UID(fmt.Sprint("uid-", c.version)))
		obj.SetCreationTimestamp(metav1.Now())
	}
	found, err := c.Tracker().Get(resource, obj.GetNamespace(), obj.GetName())
	there, exists := found.(object)
	switch {
	case creates && exists:
		return nil, apierrors.NewAlreadyExists(resource.GroupResource(), obj.GetName())
	case !creates && !exists:
		return nil, err
	case exists && cmp.Or(obj.GetResourceVersion(), there.GetResourceVersion()) != there.GetResourceVersion():
		return nil, conflict(resource, obj, "the loop has changed it in the same sync")
	}
	if exists {
		obj.SetResourceVersion(there.GetResourceVersion())
	}
	stored, err := admit(resource, subresource, obj, there)
	if err != nil || exists && equality.Semantic.DeepEqual(stored, there) {
		return there, err
	}
	stored.SetResourceVersion(strconv.Itoa(c.version))
	switch {
	case creates:
		return stored, c.Tracker().Create(resource, stored, stored.GetNamespace())
	case stored.GetDeletionTimestamp() != nil && mayGo(stored):
		return stored, c.Tracker().Delete(resource, stored.GetNamespace(), stored.GetName())
	}
	return stored, c.Tracker().Update(resource, stored, stored.GetNamespace())
}

// remove removes an object, or asks for that if something holds it.
func (c *cluster) remove(
	resource schema.GroupVersionResource, namespace, name string, options metav1.DeleteOptions,
) error {
	found, err := c.Tracker().Get(resource, namespace, name)
	if err != nil {
		return err
	}
	obj, grace := found.(object), int64(30)
	if options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	if wanted := options.Preconditions; wanted != nil && (wanted.UID != nil && *wanted.UID != obj.GetUID() ||
		wanted.ResourceVersion != nil && *wanted.ResourceVersion != obj.GetResourceVersion()) {
		return conflict(resource, obj, "the loop has changed it in the same sync")
	}
	c.version++
	if mayGo(obj) || grace == 0 && len(obj.GetFinalizers()) == 0 {
		return c.Tracker().Delete(resource, namespace, name)
	}
	if obj.GetDeletionTimestamp() == nil || grace < *obj.GetDeletionGracePeriodSeconds() {
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Truncate(time.Second)})
		obj.SetDeletionGracePeriodSeconds(&grace)
		obj.SetResourceVersion(strconv.Itoa(c.version))
	}
	return c.Tracker().Update(resource, obj, namespace)
}

// mayGo tells whether nothing holds an object: no finalizer, and of a pod no kubelet.
func mayGo(obj object) bool {
	pod, isPod := obj.(*corev1.Pod)
	runs := isPod && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodFailed &&
		pod.Status.Phase != corev1.PodSucceeded
	return len(obj.GetFinalizers()) == 0 && !runs
}

// done stops the test when the API server refuses what the test itself wants.
func done[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}
