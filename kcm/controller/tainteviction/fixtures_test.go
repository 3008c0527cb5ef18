package tainteviction

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// midnight is when each bubble begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// world is an API server with nodes and pods, and a loop that works on it. What the loop's caches
// show comes as late as a test likes. All of it is in a bubble.
type world struct {
	nodes     *latecache.Store[*corev1.Node]
	pods      *latecache.Store[*corev1.Pod]
	nodeCache *latecache.Informer[*corev1.Node]
	podCache  *latecache.Informer[*corev1.Pod]
	loop      *Controller
	stop      func()

	mu       sync.Mutex // of what requests use
	story    []string
	requests int
	// refuse is what a request is answered with, "delete pods", unless it is nil.
	refuse func(request string) error
	// lost has a request that is answered so be carried out all the same.
	lost bool
	// asked is called with each deletion that is asked for.
	asked func(pod *corev1.Pod, options metav1.DeleteOptions)
	// slow is whether a pod that is deleted takes its time to go.
	slow bool
}

func newWorld() *world {
	return &world{
		nodes:  latecache.NewStore[*corev1.Node](corev1.Resource("nodes")),
		pods:   latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
		refuse: func(string) error { return nil },
		asked:  func(*corev1.Pod, metav1.DeleteOptions) {},
	}
}

// play has a loop work on these objects while body happens.
func play(t *testing.T, body func(w *world), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld()
		for _, obj := range objects {
			w.add(obj)
		}
		w.run(func() { body(w) })
	})
}

// start starts a loop, with caches that have just been filled and a memory in which there is nothing.
func (w *world) start() {
	w.nodeCache, w.podCache = latecache.NewInformer(w.nodes), latecache.NewInformer(w.pods)
	client := &fake.Clientset{}
	client.AddReactor("*", "*", w.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&corev1.Node{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return w.nodeCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return w.podCache })
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	w.loop = stored(New(ctx, client, factory.Core().V1().Pods(), factory.Core().V1().Nodes(), "taint-eviction-controller"))
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
	case *corev1.Pod:
		stored(w.pods.Create(obj))
	}
}

// show has the caches show all that there is.
func (w *world) show() {
	w.nodeCache.CatchUp()
	w.podCache.CatchUp()
	w.rest(0)
}

// comes has an object be there, and be seen.
func (w *world) comes(obj runtime.Object) {
	w.add(obj)
	w.show()
}

// node changes a node, and pod a pod, which is seen at once.
func (w *world) node(name string, edit func(*corev1.Node)) {
	w.changeNode(name, edit)
	w.show()
}

func (w *world) changeNode(name string, edit func(*corev1.Node)) {
	node := stored(w.nodes.Get(name))
	edit(node)
	stored(w.nodes.Update(node))
}

func (w *world) pod(name string, edit func(*corev1.Pod)) {
	pod := stored(w.pods.Get(name))
	edit(pod)
	stored(w.pods.Update(pod))
	w.show()
}

// at waits until so much time has passed since midnight, and returns what has happened until then.
func (w *world) at(after time.Duration) string {
	w.rest(time.Until(midnight.Add(after)))
	return cmp.Or(strings.Join(w.story, "; "), "nothing")
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, time.Now().UTC().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// may is what the role of the loop's account allows.
var may = []string{"get nodes", "patch pods/status", "delete pods", "create events", "patch events"}

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
		w.tell("%s %s for %s: %s", e.Type, e.Reason, e.InvolvedObject.UID, e.Message)
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
	obj, err := w.do(action)
	if refusal != nil {
		return true, nil, refusal
	}
	return true, obj, err
}

func (w *world) do(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		node, err := w.nodes.Get(action.Name)
		return node, err
	case clienttesting.PatchActionImpl:
		return w.patch(action)
	case clienttesting.DeleteActionImpl:
		return nil, w.delete(action.Name, action.DeleteOptions)
	}
	panic("nobody asks for " + action.GetVerb())
}

func (w *world) patch(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	pod, err := w.pods.Get(action.Name)
	if err != nil {
		return nil, err
	}
	patched := &corev1.Pod{}
	whole := stored(strategicpatch.StrategicMergePatch(stored(json.Marshal(pod)), action.Patch, corev1.Pod{}))
	if err := json.Unmarshal(whole, patched); err != nil {
		return nil, err
	}
	if patched.UID != pod.UID {
		wrong := field.Invalid(field.NewPath("metadata", "uid"), patched.UID, "field is immutable")
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, field.ErrorList{wrong})
	}
	return w.pods.Update(patched)
}

func (w *world) delete(name string, options metav1.DeleteOptions) error {
	pod, err := w.pods.Get(name)
	if err != nil {
		return err
	}
	p := options.Preconditions
	if p == nil || p.UID == nil {
		w.tell("delete %s, whoever that is", name)
		return w.pods.Delete(name)
	}
	if *p.UID != pod.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), name,
			errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2"))
	}
	w.asked(pod, options)
	var why []string
	for _, c := range pod.Status.Conditions {
		why = append(why, fmt.Sprintf("%s %s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	w.tell("delete %s, %s", name, cmp.Or(strings.Join(why, ", "), "without a word"))
	if !w.slow {
		return w.pods.Delete(name)
	}
	pod.DeletionTimestamp = new(metav1.Now())
	_, err = w.pods.Update(pod)
	return err
}

// testNode is a node with these taints.
func testNode(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
}

// testPod is one that was bound to node-1 long before midnight, and has these tolerations.
func testPod(name string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(midnight.Add(-24 * time.Hour))},
		Spec:       corev1.PodSpec{NodeName: "node-1", Tolerations: tolerations},
	}
}

// added is a taint that asks for evictions, and was added so long after midnight.
func added(key string, after time.Duration) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(midnight.Add(after)))}
}

// undated is one that does not say when.
func undated(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

// bears tolerates a taint for so many seconds, and always tolerates it for ever.
func bears(key string, seconds int64) corev1.Toleration {
	t := always(key)
	t.TolerationSeconds = &seconds
	return t
}

func always(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

// tainted gives a node these taints in place of those that it has.
func tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.Taints = taints }
}

// bound gives a pod a node now, as the API server does.
func bound(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = node
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}
}

func tolerating(tolerations ...corev1.Toleration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations }
}
