package nodelifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// world is an API server with nodes, their Leases and pods, kubelets that renew the Leases, and a loop.
// What the loop's caches show comes at once, unless it is late. All of it is in a bubble.
type world struct {
	nodes      *latecache.Store[*corev1.Node]
	leases     *latecache.Store[*coordinationv1.Lease]
	pods       *latecache.Store[*corev1.Pod]
	nodeCache  *latecache.Informer[*corev1.Node]
	leaseCache *latecache.Informer[*coordinationv1.Lease]
	podCache   *latecache.Informer[*corev1.Pod]
	loop       *Controller
	stop       func()

	period, startup, grace time.Duration
	rates                  rates
	// alive are the nodes whose kubelets renew their Leases every ten seconds.
	alive map[string]bool
	// blind is a loop that may not look at Leases itself.
	blind bool
	// beats is when a heartbeat of each node was written last.
	beats map[string]time.Time
	// late are the resources whose changes no cache shows.
	late map[string]bool

	mu       sync.Mutex // of what requests use
	story    []string
	requests int
	// refuse is what a request is answered with, "patch nodes/status", unless it is nil.
	refuse func(request string) error
	// lost has a request that is answered so be carried out all the same.
	lost bool
	// asked is called before each write.
	asked func(resource, name string, patched runtime.Object)
}

func newWorld() *world {
	return &world{
		nodes:  latecache.NewStore[*corev1.Node](corev1.Resource("nodes")),
		leases: latecache.NewStore[*coordinationv1.Lease](coordinationv1.Resource("leases")),
		pods:   latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
		period: 5 * time.Second, startup: time.Minute, grace: 50 * time.Second, rates: defaults,
		alive:  map[string]bool{},
		beats:  map[string]time.Time{},
		late:   map[string]bool{},
		refuse: func(string) error { return nil },
		asked:  func(string, string, runtime.Object) {},
	}
}

// play has a loop work on these objects while body happens.
func play(t *testing.T, body func(w *world), objects ...runtime.Object) {
	t.Helper()
	playWith(t, func(*world) {}, body, objects...)
}

// playWith edits the world before the loop starts.
func playWith(t *testing.T, edit, body func(w *world), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld()
		for _, obj := range objects {
			w.add(obj)
		}
		edit(w)
		w.run(func() { body(w) })
	})
}

// start starts a loop, with caches that have just been filled and a memory in which there is nothing.
func (w *world) start() {
	w.nodeCache, w.podCache, w.leaseCache = latecache.NewInformer(w.nodes), latecache.NewInformer(w.pods), latecache.NewInformer(w.leases)
	client, root := &fake.Clientset{}, &fake.Clientset{}
	client.AddReactor("*", "*", w.answer)
	root.AddReactor("list", "leases", w.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&corev1.Node{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return w.nodeCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return w.podCache })
	factory.InformerFor(&coordinationv1.Lease{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return w.leaseCache })
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	core := factory.Core().V1()
	w.loop = stored(NewNodeLifecycleController(ctx, factory.Coordination().V1().Leases(), core.Pods(), core.Nodes(), factory.Apps().V1().DaemonSets(), client,
		w.period, w.startup, w.grace, w.rates.usual, w.rates.secondary, int32(w.rates.large), w.rates.threshold))
	if !w.blind {
		w.loop.Confirm(root.CoordinationV1().Leases(corev1.NamespaceNodeLease))
	}
	ended := make(chan struct{})
	go func() { defer close(ended); w.loop.Run(ctx, 2) }()
	synctest.Wait()
	w.stop = func() { cancel(); <-ended }
}

// rest lets the loop work while time passes. All else that a test does it does with the lock held, so
// that no request comes in between.
func (w *world) rest(d time.Duration) {
	w.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
}

// restart has another process take over.
func (w *world) restart() {
	w.mu.Unlock()
	w.stop()
	w.start()
	w.mu.Lock()
}

// run has a loop work while body happens.
func (w *world) run(body func()) {
	w.start()
	w.mu.Lock()
	defer func() {
		w.mu.Unlock()
		w.stop()
	}()
	body()
}

// stored stops the test when something fails that the test itself wants.
func stored[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

func (w *world) add(obj runtime.Object) {
	switch obj := obj.(type) {
	case *corev1.Node:
		stored(w.nodes.Create(obj))
		w.alive[obj.Name] = true
	case *corev1.Pod:
		stored(w.pods.Create(obj))
	case *coordinationv1.Lease:
		stored(w.leases.Create(obj))
	}
}

// show has the caches show all that there is, but for what is late.
func (w *world) show() {
	for resource, catchUp := range map[string]func(){
		"nodes": w.nodeCache.CatchUp, "leases": w.leaseCache.CatchUp, "pods": w.podCache.CatchUp,
	} {
		if !w.late[resource] {
			catchUp()
		}
	}
	w.rest(0)
}

func (w *world) comes(obj runtime.Object) {
	w.add(obj)
	w.show()
}

// node changes a node, and pod a pod.
func (w *world) node(name string, edits ...func(*corev1.Node)) {
	node := stored(w.nodes.Get(name))
	for _, edit := range edits {
		edit(node)
	}
	stored(w.nodes.Update(node))
	w.show()
}

func (w *world) pod(name string, edit func(*corev1.Pod)) {
	pod := stored(w.pods.Get(name))
	edit(pod)
	stored(w.pods.Update(pod))
	w.show()
}

// beat renews the Lease of a node.
func (w *world) beat(name string) {
	lease, err := w.leases.Get(name)
	if err != nil {
		lease = stored(w.leases.Create(testLease(name)))
	}
	lease.Spec.RenewTime = new(metav1.NowMicro())
	stored(w.leases.Update(lease))
	w.beats[name] = time.Now()
}

func testLease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
}

// silence ends the heartbeats of nodes.
func (w *world) silence(names ...string) {
	for _, name := range names {
		w.alive[name] = false
	}
}

// heal has a node be as before.
func (w *world) heal(name string) {
	w.alive[name] = true
	w.beat(name)
	w.node(name, say("Ready"), say("not MemoryPressure"), say("not DiskPressure"), say("not PIDPressure"))
}

// at waits until so much time has passed since midnight, while kubelets renew their Leases every ten
// seconds, and returns what has happened until then.
func (w *world) at(after time.Duration) *story {
	const every = 10 * time.Second
	for end := midnight.Add(after); ; {
		next := midnight.Add(time.Since(midnight).Truncate(every) + every)
		if next.After(end) {
			w.rest(time.Until(end))
			break
		}
		w.rest(time.Until(next))
		for _, name := range slices.Sorted(maps.Keys(w.alive)) {
			if w.alive[name] {
				w.beat(name)
			}
		}
		w.show()
	}
	return &story{slices.Clone(w.story)}
}

// story is what has been written.
type story struct{ lines []string }

// of returns what matches a pattern.
func (s *story) of(pattern string) string {
	matching := slices.DeleteFunc(slices.Clone(s.lines), func(line string) bool { return !regexp.MustCompile(pattern).MatchString(line) })
	return cmp.Or(strings.Join(matching, "; "), "nothing")
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, time.Now().UTC().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// may is what the roles of the loop's account, and of the manager's, allow.
var may = []string{"patch nodes", "patch nodes/status", "patch pods/status", "create events", "patch events", "list leases"}

// answer is the API server.
func (w *world) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := action.GetResource().Resource
	if action.GetSubresource() != "" {
		resource += "/" + action.GetSubresource()
	}
	request := action.GetVerb() + " " + resource
	if !slices.Contains(may, request) {
		panic("it may not " + request)
	}
	if event, ok := action.(clienttesting.CreateAction); ok {
		e := event.GetObject().(*corev1.Event)
		w.tell("event %s %s for %s: %s", e.Type, e.Reason, e.InvolvedObject.UID, e.Message)
		return true, e, nil
	}
	if resource == "events" {
		return true, &corev1.Event{}, nil // one that is told again
	}
	w.requests++
	refusal := w.refuse(request)
	if refusal != nil && !w.lost {
		return true, nil, refusal
	}
	obj, err := w.do(action, resource)
	if refusal != nil {
		return true, nil, refusal
	}
	return true, obj, err
}

func (w *world) do(action clienttesting.Action, resource string) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.ListActionImpl:
		list := &coordinationv1.LeaseList{}
		for _, lease := range w.leases.List() {
			if action.ListRestrictions.Fields.Matches(fieldsOf(lease)) {
				list.Items = append(list.Items, *lease)
			}
		}
		return list, nil
	case clienttesting.PatchActionImpl:
		if resource == "pods/status" {
			return patch(w, w.pods, action, &corev1.Pod{})
		}
		return patch(w, w.nodes, action, &corev1.Node{})
	}
	panic("nobody asks for " + action.GetVerb())
}

type fieldsOfLease struct{ name string }

func fieldsOf(lease *coordinationv1.Lease) fieldsOfLease { return fieldsOfLease{lease.Name} }

func (f fieldsOfLease) Has(string) bool   { return true }
func (f fieldsOfLease) Get(string) string { return f.name }

// patch does what the API server does with a strategic patch.
func patch[T latecache.Object[T]](w *world, store *latecache.Store[T], action clienttesting.PatchActionImpl, patched T) (runtime.Object, error) {
	there, err := store.Get(action.Name)
	if err != nil {
		return nil, err
	}
	whole := stored(strategicpatch.StrategicMergePatch(stored(json.Marshal(there)), action.Patch, patched))
	if err := json.Unmarshal(whole, patched); err != nil {
		return nil, err
	}
	if patched.GetUID() != there.GetUID() {
		return nil, apierrors.NewConflict(action.GetResource().GroupResource(), action.Name, errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2"))
	}
	if patched.GetResourceVersion() == there.GetResourceVersion() {
		w.asked(action.GetResource().Resource, action.Name, patched)
		w.note(there, patched)
	}
	return store.Update(patched)
}

// note tells what a patch has changed.
func (w *world) note(there, patched any) {
	switch patched := patched.(type) {
	case *corev1.Pod:
		w.tell("%s: %s", patched.Name, saysOf(patched.Status.Conditions[0].Type, patched.Status.Conditions[0].Status))
	case *corev1.Node:
		var says []string
		for _, c := range patched.Status.Conditions {
			if c.Status != statusOf(there.(*corev1.Node), c.Type) {
				says = append(says, saysOf(c.Type, c.Status))
			}
		}
		if says == nil {
			says = []string{"has " + cmp.Or(inWords(patched.Spec.Taints), "no taint")}
		}
		w.tell("%s: %s", patched.Name, strings.Join(says, ", "))
	}
}

func saysOf[T ~string](what T, status corev1.ConditionStatus) string {
	return map[corev1.ConditionStatus]string{yes: "", no: "not ", unsaid: "? "}[status] + string(what)
}

// testPod is a pod on a node, which is ready or not.
func testPod(name, node string, ready corev1.ConditionStatus) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if ready != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, Reason: "KubeletSays", Message: "as it says"}}
	}
	return pod
}

// well are nodes that say that all is well with them.
func well(names ...string) (nodes []runtime.Object) {
	for _, name := range names {
		nodes = append(nodes, testNode(name, "Ready", "not MemoryPressure", "not DiskPressure", "not PIDPressure"))
	}
	return nodes
}
