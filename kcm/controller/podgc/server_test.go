package podgc

import (
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

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// cluster is an API server with pods and nodes, and a loop that works on it.
// Its clock is that of the bubble, and a request takes no time unless told.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	// delay is how long a deletion takes.
	delay time.Duration
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	story   []string
	refused map[string]error // by verb and resource, or for a deletion by name
	// fieldManager is the last one of a patch.
	fieldManager string
	// questions is how often it was asked for a node.
	questions int
}

// play calls body with a cluster that has these pods and nodes.
func play(t *testing.T, body func(c *cluster), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, client: fake.NewSimpleClientset(objects...), refused: map[string]error{}}
		c.client.PrependReactor("*", "*", c.react)
		body(c)
		if c.stop != nil {
			c.stop()
			<-c.ended
		}
	})
}

// run has the loop work, which keeps so many pods that have ended.
func (c *cluster) run(threshold, workers int) {
	ctx, stop := context.WithCancel(c.t.Context())
	c.stop, c.ended = stop, make(chan struct{})
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim(Reads...)))
	loop := New(slow{c.client, c}, factory.Core().V1().Pods(), factory.Core().V1().Nodes(), threshold)
	factory.Start(ctx.Done())
	go func() {
		defer close(c.ended)
		loop.Run(ctx, workers)
		c.tell("the loop has ended")
		factory.Shutdown()
	}()
	synctest.Wait()
}

// after waits, and returns what has happened since the beginning.
func (c *cluster) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.story == nil {
		return "nothing"
	}
	return strings.Join(c.story, "; ")
}

// sorted is a story whose order does not matter.
func sorted(story string) string {
	parts := strings.Split(story, "; ")
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func (c *cluster) tell(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.story = append(c.story, what)
}

func (c *cluster) refuse(request string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[request] = err
}

// may is what the role of the loop's account allows.
var may = []string{"list pods", "watch pods", "delete pods", "get nodes", "list nodes", "watch nodes", "patch pods/status"}

// react answers what the account may not do, what does not fit the object of
// the name, and what the test refuses. The rest is the tracker's.
func (c *cluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := action.GetResource().Resource
	if action.GetSubresource() != "" {
		resource += "/" + action.GetSubresource()
	}
	request := action.GetVerb() + " " + resource
	c.mu.Lock()
	refused := c.refused[request]
	if deletion, ok := action.(clienttesting.DeleteActionImpl); ok && refused == nil {
		refused = c.refused["delete "+deletion.Name]
	}
	if request == "get nodes" {
		c.questions++
	}
	c.mu.Unlock()
	switch {
	case !slices.Contains(may, request):
		c.tell("may not " + request)
		return true, nil, apierrors.NewForbidden(corev1.Resource(resource), "", errors.New("the role does not allow it"))
	case refused != nil:
		return true, nil, refused
	}
	switch action := action.(type) {
	case clienttesting.PatchAction:
		return c.patch(action)
	case clienttesting.DeleteActionImpl:
		return c.delete(action)
	}
	return false, nil, nil
}

func (c *cluster) pod(namespace, name string) *corev1.Pod {
	found, err := c.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), namespace, name)
	if err != nil {
		return nil
	}
	return found.(*corev1.Pod)
}

func (c *cluster) patch(action clienttesting.PatchAction) (bool, runtime.Object, error) {
	var patch struct{ Metadata struct{ UID types.UID } }
	require.NoError(c.t, json.Unmarshal(action.GetPatch(), &patch))
	pod := c.pod(action.GetNamespace(), action.GetName())
	if pod != nil && patch.Metadata.UID != "" && patch.Metadata.UID != pod.UID {
		return true, nil, invalid("metadata", "uid")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fieldManager = action.(clienttesting.PatchActionImpl).PatchOptions.FieldManager
	return false, nil, nil
}

// hasAnotherUID is what it says of a deletion that was meant for another pod.
func hasAnotherUID(name string) error {
	return apierrors.NewConflict(corev1.Resource("pods"), name,
		errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2"))
}

// invalid is what the API server says of a pod with a field that cannot be so.
func invalid(path ...string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web",
		field.ErrorList{field.Invalid(field.NewPath(path[0], path[1:]...), "", "field is immutable")})
}

func (c *cluster) delete(action clienttesting.DeleteActionImpl) (bool, runtime.Object, error) {
	pod := c.pod(action.Namespace, action.Name)
	if pod == nil {
		return false, nil, nil
	}
	options := action.DeleteOptions
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != pod.UID {
		return true, nil, hasAnotherUID(pod.Name)
	}
	c.tell(last(pod, options))
	if len(pod.Finalizers) == 0 {
		return false, nil, nil
	}
	pod = pod.DeepCopy()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.Now()), options.GracePeriodSeconds
	return true, pod, c.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
}

// last says in which state a pod was when it was deleted, and how.
func last(pod *corev1.Pod, options metav1.DeleteOptions) string {
	story := fmt.Sprintf("%s goes, %s", pod.Name, pod.Status.Phase)
	for _, condition := range pod.Status.Conditions {
		story += fmt.Sprintf(", %s %s", condition.Type, condition.Status)
		if condition.Reason != "" {
			story += fmt.Sprintf(" (%s: %s)", condition.Reason, condition.Message)
		}
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds != 0 {
		story += ", with time to end"
	}
	return story
}

// slow is a client whose deletions take time. (A reactor may not: the fake
// client carries out one request at a time.)
type slow struct {
	kubernetes.Interface
	cluster *cluster
}

func (s slow) CoreV1() typedcorev1.CoreV1Interface { return slowCore{s.Interface.CoreV1(), s.cluster} }

type slowCore struct {
	typedcorev1.CoreV1Interface
	cluster *cluster
}

func (s slowCore) Pods(namespace string) typedcorev1.PodInterface {
	return slowPods{s.CoreV1Interface.Pods(namespace), s.cluster}
}

type slowPods struct {
	typedcorev1.PodInterface
	cluster *cluster
}

func (s slowPods) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	time.Sleep(s.cluster.delay) // also after ctx has ended: the server has the request already
	return s.PodInterface.Delete(ctx, name, options)
}

// lateFor lets what the loop sees of a resource stay as it is now.
func (c *cluster) lateFor(resource string) {
	c.client.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}

func (c *cluster) add(objects ...runtime.Object) {
	for _, o := range objects {
		require.NoError(c.t, c.client.Tracker().Add(o))
	}
}

// nodeIs puts a node there, in place of the one that has its name.
func (c *cluster) nodeIs(node *corev1.Node) {
	resource := corev1.SchemeGroupVersion.WithResource("nodes")
	err := c.client.Tracker().Update(resource, node, "")
	if apierrors.IsNotFound(err) {
		err = c.client.Tracker().Create(resource, node, "")
	}
	require.NoError(c.t, err)
}

func (c *cluster) removeNode(name string) {
	require.NoError(c.t, c.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", name))
}

// pod is one that runs on a node, or waits for one if it is "".
func pod(name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 3},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status.Phase = corev1.PodPending
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func going(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(3600))
}

func held(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// ended is a pod on a node that is there, which has ended, and was created so
// many minutes after the first ones.
func ended(name string, phase corev1.PodPhase, minute int, reason ...string) *corev1.Pod {
	return pod(name, "here", func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(time.Date(1999, 1, 1, 0, minute, 0, 0, time.UTC))
		p.Status.Phase, p.Status.Reason = phase, strings.Join(reason, "")
	})
}

// node has the Ready condition in this status, or none, and these taints.
func node(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "DiskPressure", Status: "True"}}
	if ready != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: ready})
	}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return n
}
