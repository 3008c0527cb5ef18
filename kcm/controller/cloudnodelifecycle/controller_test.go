package cloudnodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

var errCloud = errors.New("the cloud does not answer")

// sky is a cloud whose machines are what a test says. Those that are not named are gone.
type sky struct {
	cloudprovider.Interface // of which no other method is called
	older                   bool

	mu       sync.Mutex
	machines map[string]machine
	failing  bool
	blind    bool // it does not tell what is shut down
	asked    map[string]int
}

func (s *sky) set(name string, m machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines[name] = m
}

func (s *sky) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines = nil
}

// questions is how often it was asked about a machine.
func (s *sky) questions(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

func (s *sky) answer(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = !yes
}

func (s *sky) ask(name string) (machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name]++
	if s.failing {
		return unknown, errCloud
	}
	if m, ok := s.machines[name]; ok {
		return m, nil
	}
	return gone, nil
}

func (s *sky) ProviderName() string { return "sky" }

func (s *sky) InstancesV2() (cloudprovider.InstancesV2, bool) { return newer{sky: s}, !s.older }

func (s *sky) Instances() (cloudprovider.Instances, bool) { return byID{sky: s}, s.older }

// newer is the cloud for those who know machines by their nodes.
type newer struct {
	cloudprovider.InstancesV2
	sky *sky
}

func (n newer) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	m, err := n.sky.ask(node.Name)
	return m != gone, err
}

func (n newer) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	m, err := n.sky.ask(node.Name)
	return m == shutDown, err
}

// byID is the cloud for those who know machines by their IDs.
type byID struct {
	cloudprovider.Instances
	sky *sky
}

func (b byID) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	m, err := b.sky.ask(string(name))
	if err == nil && m == gone {
		err = cloudprovider.InstanceNotFound
	}
	return string(name), err
}

func (b byID) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	m, err := b.sky.ask(strings.TrimPrefix(id, "sky://"))
	return m != gone, err
}

func (b byID) InstanceShutdownByProviderID(_ context.Context, id string) (bool, error) {
	if b.sky.blind {
		return false, cloudprovider.NotImplemented
	}
	m, err := b.sky.ask(strings.TrimPrefix(id, "sky://"))
	return m == shutDown, err
}

// world is an API server with nodes, a cloud, and a loop between them. Its clock
// is that of the bubble.
type world struct {
	t      *testing.T
	client *fake.Clientset
	sky    *sky

	mu      sync.Mutex
	story   []string
	refused error // what a deletion or a patch is answered with
}

// The loop of the library is played as well, where a test says nothing else: what both do is what Kubernetes does.
var loops = map[string]func(t *testing.T, ctx context.Context, w *world, factory informers.SharedInformerFactory) (run func()){
	"kcm": func(t *testing.T, ctx context.Context, w *world, factory informers.SharedInformerFactory) func() {
		c, err := New(factory.Core().V1().Nodes(), w.client, w.sky, 5*time.Second)
		require.NoError(t, err)
		return func() { c.Run(ctx, 1) }
	},
	"the library": func(t *testing.T, ctx context.Context, w *world, factory informers.SharedInformerFactory) func() {
		nodes := factory.Core().V1().Nodes()
		nodes.Informer()
		c, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, w.client, w.sky, 5*time.Second)
		require.NoError(t, err)
		return func() {
			factory.WaitForCacheSync(ctx.Done()) // it begins with what is there, and that may be nothing
			c.Run(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
		}
	},
}

// play calls body with a world in which a loop runs.
func play(t *testing.T, with string, s *sky, nodes []runtime.Object, body func(w *world)) {
	t.Helper()
	s.asked = map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fake.NewSimpleClientset(nodes...), sky: s}
		w.client.PrependReactor("*", "*", w.react)
		factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTransform(controller.Trim(Reads...)))
		ctx, stop := context.WithCancel(context.Background())
		run := loops[with](t, ctx, w, factory)
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		ended := make(chan struct{})
		go func() { defer close(ended); run() }()
		body(w)
		stop()
		<-ended
		factory.Shutdown()
	})
}

func (w *world) refuse(with error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = with
}

// react notes what is written, and refuses it if it is to.
func (w *world) react(a clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a := a.(type) {
	case clienttesting.CreateAction:
		if event, ok := a.GetObject().(*corev1.Event); ok {
			w.story = append(w.story, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
			return true, event, nil
		}
	case clienttesting.DeleteAction:
		w.story = append(w.story, "delete "+a.GetName())
		return w.refused != nil, nil, w.refused
	case clienttesting.PatchAction:
		w.story = append(w.story, "patch "+a.GetName())
		return w.refused != nil, nil, w.refused
	}
	return false, nil, nil
}

// after lets time pass, and returns what was written meanwhile, sorted.
func (w *world) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	story := w.story
	w.story = nil
	slices.Sort(story)
	return strings.Join(story, "; ")
}

// ready has the node's kubelet say whether it is Ready.
func (w *world) ready(name string, status corev1.ConditionStatus) {
	w.t.Helper()
	n, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	require.NoError(w.t, err)
	changed := n.(*corev1.Node).DeepCopy()
	changed.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	require.NoError(w.t, w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), changed, ""))
}

func (w *world) taints(name string) string {
	w.t.Helper()
	n, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	require.NoError(w.t, err)
	var taints []string
	for _, t := range n.(*corev1.Node).Spec.Taints {
		taints = append(taints, t.ToString())
	}
	return strings.Join(taints, " ")
}

// named is a node of a name.
func named(name string, ready corev1.ConditionStatus, taints ...corev1.Taint) runtime.Object {
	n := node(ready, taints...)
	n.Name, n.UID, n.ResourceVersion = name, types.UID(name), "7"
	return n
}

const (
	deleted = "Normal DeletingNode: Deleting node a because it does not exist in the cloud provider; delete a"
	shutTo  = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"
)

// No change wakes the loop: each round looks at all nodes, and asks the cloud for what no watch tells. So
// there is no table of what wakes it, as other loops have one.
func TestANodeFollowsItsMachine(t *testing.T) {
	t.Parallel()
	for with := range loops {
		for _, older := range []bool{false, true} {
			of := func(machines map[string]machine) *sky { return &sky{older: older, machines: machines} }
			run := func(name string, s *sky, nodes []runtime.Object, body func(t *testing.T, w *world)) {
				t.Run(fmt.Sprintf("%s, %s, a cloud of the older kind is %t", name, with, older), func(t *testing.T) {
					t.Parallel()
					play(t, with, s, nodes, func(w *world) { body(t, w) })
				})
			}
			run("a node whose machine is gone is deleted", of(nil), []runtime.Object{named("a", "False"), named("b", "True")}, func(t *testing.T, w *world) {
				assert.Equal(t, deleted, w.after(time.Second))
				assert.Empty(t, w.after(time.Minute))
				assert.Zero(t, w.sky.questions("b"), "it is Ready, so the cloud is not asked")
			})
			run("a node is deleted when its machine goes and it is not heard of any more", of(map[string]machine{"a": running}), []runtime.Object{named("a", "True")}, func(t *testing.T, w *world) {
				w.sky.clear()
				assert.Empty(t, w.after(time.Minute))
				w.ready("a", "Unknown")
				assert.Equal(t, deleted, w.after(5*time.Second))
			})
			run("an error of the cloud deletes nothing", &sky{older: older, failing: true}, []runtime.Object{named("a", "Unknown")}, func(t *testing.T, w *world) {
				assert.Empty(t, w.after(time.Minute))
				assert.GreaterOrEqual(t, w.sky.questions("a"), 12, "it is asked again every five seconds")
				w.sky.answer(true)
				assert.Equal(t, deleted, w.after(5*time.Second))
			})
			run("a machine that is shut down has its node tainted, until that is Ready", of(map[string]machine{"a": shutDown}), []runtime.Object{named("a", "Unknown")}, func(t *testing.T, w *world) {
				assert.Equal(t, "patch a", w.after(time.Second))
				assert.Equal(t, shutTo, w.taints("a"))
				assert.Empty(t, w.after(time.Minute), "it is tainted once")
				w.sky.set("a", running)
				assert.Empty(t, w.after(time.Minute), "it is not Ready yet")
				w.ready("a", "True")
				assert.Equal(t, "patch a", w.after(5*time.Second))
				assert.Empty(t, w.taints("a"))
			})
			run("taints of others stay", of(map[string]machine{"a": shutDown}),
				[]runtime.Object{named("a", "Unknown", corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoExecute})}, func(t *testing.T, w *world) {
					w.after(time.Second)
					assert.Equal(t, "mine:NoExecute "+shutTo, w.taints("a"))
				})
			run("a deletion that fails is told, and tried again", of(nil), []runtime.Object{named("a", "False")}, func(t *testing.T, w *world) {
				w.refuse(apierrors.NewForbidden(corev1.Resource("nodes"), "a", errors.New("not yours")))
				told := w.after(time.Second)
				assert.Contains(t, told, deleted[:len(deleted)-len("; delete a")])
				assert.Contains(t, told, `Warning DeletingNodeFailed: Failed deleting node a: nodes "a" is forbidden: not yours`)
				w.refuse(nil)
				assert.Contains(t, w.after(5*time.Second), "delete a")
				assert.Empty(t, w.after(time.Minute))
			})
		}
	}
}

func TestACloudThatCannotTellWhatIsShutDownSaysThatNothingIs(t *testing.T) {
	t.Parallel()
	for with := range loops {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			play(t, with, &sky{older: true, blind: true, machines: map[string]machine{"a": shutDown}}, []runtime.Object{named("a", "Unknown")}, func(w *world) {
				assert.Empty(t, w.after(time.Minute))
			})
		})
	}
}

// What was refused is told, and done when it may be. The library says nothing of a conflict.
func TestWhatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	nodes := corev1.Resource("nodes")
	for _, refusal := range []error{
		apierrors.NewForbidden(nodes, "a", errors.New("not now")),
		apierrors.NewConflict(nodes, "a", errors.New("not now")),
		apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "a", nil),
		apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		t.Run(string(apierrors.ReasonForError(refusal)), func(t *testing.T) {
			t.Parallel()
			play(t, "kcm", &sky{}, []runtime.Object{named("a", "False")}, func(w *world) {
				w.refuse(refusal)
				assert.Contains(t, w.after(10*time.Second), "Warning DeletingNodeFailed: Failed deleting node a: "+refusal.Error())
				w.refuse(nil)
				assert.Contains(t, w.after(5*time.Second), "delete a")
				assert.Empty(t, w.after(time.Minute), "the node is gone")
			})
			play(t, "kcm", &sky{machines: map[string]machine{"a": shutDown}}, []runtime.Object{named("a", "False")}, func(w *world) {
				w.refuse(refusal)
				assert.Contains(t, w.after(10*time.Second), "patch a")
				w.refuse(nil)
				w.after(5 * time.Second)
				assert.Equal(t, shutTo, w.taints("a"))
			})
		})
	}
	t.Run("another node of the name is no failure", func(t *testing.T) {
		t.Parallel()
		play(t, "kcm", &sky{}, []runtime.Object{named("a", "False")}, func(w *world) {
			w.refuse(apierrors.NewConflict(nodes, "a", errors.New("Precondition failed: UID in precondition: a, UID in object meta: b")))
			assert.NotContains(t, w.after(10*time.Second), "DeletingNodeFailed")
		})
	})
}

// What is kcm's alone: a deletion names the node that was judged, and is asked for once, and a patch names the version.
func TestWhatIsWrittenIsAboutTheNodeThatWasSeen(t *testing.T) {
	t.Parallel()
	t.Run("another node of the name is not deleted", func(t *testing.T) {
		t.Parallel()
		play(t, "kcm", &sky{}, []runtime.Object{named("a", "False")}, func(w *world) {
			w.after(time.Second)
			for _, a := range w.client.Actions() {
				if d, ok := a.(clienttesting.DeleteActionImpl); ok {
					require.NotNil(t, d.DeleteOptions.Preconditions)
					assert.EqualValues(t, "a", *d.DeleteOptions.Preconditions.UID)
					return
				}
			}
			assert.Fail(t, "nothing was deleted")
		})
	})
	t.Run("a node that a finalizer holds is not deleted again", func(t *testing.T) {
		t.Parallel()
		play(t, "kcm", &sky{}, []runtime.Object{going(named("a", "False").(*corev1.Node))}, func(w *world) {
			assert.Empty(t, w.after(time.Minute), "in a minute there are twelve rounds")
		})
	})
	t.Run("a node that has changed is left to the next round", func(t *testing.T) {
		t.Parallel()
		play(t, "kcm", &sky{machines: map[string]machine{"a": shutDown}}, []runtime.Object{named("a", "Unknown")}, func(w *world) {
			w.after(time.Second)
			for _, a := range w.client.Actions() {
				if p, ok := a.(clienttesting.PatchAction); ok {
					assert.JSONEq(t, `{"metadata": {"uid": "a", "resourceVersion": "7"}, "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}]}}`, string(p.GetPatch()))
					return
				}
			}
			assert.Fail(t, "nothing was patched")
		})
	})
}

func TestACloudWithoutInstancesIsRefused(t *testing.T) {
	t.Parallel()
	factory := informers.NewSharedInformerFactoryWithOptions(fake.NewSimpleClientset(), 0, informers.WithTransform(controller.Trim(Reads...)))
	_, err := New(factory.Core().V1().Nodes(), fake.NewSimpleClientset(), without{}, time.Second)
	assert.EqualError(t, err, "the cloud knows no instances")
}

type without struct{ cloudprovider.Interface }

func (without) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

func (without) Instances() (cloudprovider.Instances, bool) { return nil, false }
