package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// model is a cluster with one DaemonSet and its loop. The loop is the real one,
// from the handlers of its informers to its client. What surrounds it moves when
// it is told to: what the caches show and the handlers hear, how the API server
// answers, what becomes of pods and nodes, what the user does.
type model struct {
	sets      *latecache.Store[*appsv1.DaemonSet]
	revisions *latecache.Store[*appsv1.ControllerRevision]
	pods      *latecache.Store[*corev1.Pod]
	nodes     *latecache.Store[*corev1.Node]

	setCache      *latecache.Informer[*appsv1.DaemonSet]
	revisionCache *latecache.Informer[*appsv1.ControllerRevision]
	podCache      *latecache.Informer[*corev1.Pod]
	nodeCache     *latecache.Informer[*corev1.Node]
	clock         *clocktesting.FakeClock
	loop          *Controller

	surge, unavailable intstr.IntOrString
	// cachesTell says that the caches know which version they show. The loop
	// then has a second guard beside its expectations.
	cachesTell bool

	how             outcome // how requests of the present sync are answered
	after           int     // how many are well before that
	refusal         error   // what is refused is refused so
	requests, named int
	// unanswered are the nodes for which a pod was created without an answer.
	unanswered sets.Set[string]
	// taken are the nodes from which the loop has taken an available pod and
	// that have had none since.
	taken sets.Set[string]
	// worked are the pods that were ever available.
	worked sets.Set[types.UID]

	trace []string
	wrong string
}

type outcome string

const (
	well    outcome = "all is done"
	refused outcome = "refused"
	lost    outcome = "done, but the answer is lost"
)

// refusals are those of an API server: of a quota, of a policy, of a webhook that
// calls it a conflict, and of one that cannot be reached.
var refusals = []error{
	apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota")),
	apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil),
	apierrors.NewConflict(corev1.Resource("pods"), "", errors.New("not now")),
	apierrors.NewInternalError(errors.New("failed calling webhook")),
}

func drawModel(t *rapid.T) *model {
	m := &model{
		sets:       latecache.NewStore[*appsv1.DaemonSet](appsv1.Resource("daemonsets")),
		revisions:  latecache.NewStore[*appsv1.ControllerRevision](appsv1.Resource("controllerrevisions")),
		pods:       latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
		nodes:      latecache.NewStore[*corev1.Node](corev1.Resource("nodes")),
		clock:      clocktesting.NewFakeClock(testNow),
		cachesTell: rapid.Bool().Draw(t, "cachesTell"),
		unanswered: sets.New[string](),
		taken:      sets.New[string](),
		worked:     sets.New[types.UID](),
	}
	limit := rapid.SampledFrom([]intstr.IntOrString{
		intstr.FromInt(1), intstr.FromInt(2), intstr.FromString("20%"), intstr.FromString("40%"),
	}).Draw(t, "limit of nodes")
	if rapid.Bool().Draw(t, "surges") {
		m.surge = limit
	} else {
		m.unavailable = limit
	}
	stored(m.sets.Create(testSet(func(set *appsv1.DaemonSet) {
		set.Spec.MinReadySeconds, set.Spec.RevisionHistoryLimit = 0, new(int32(rapid.IntRange(0, 1).Draw(t, "limit")))
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &m.surge, MaxUnavailable: &m.unavailable},
		}
	})))
	for _, name := range []string{"a", "b", "c"} {
		stored(m.nodes.Create(testNode(name)))
	}
	m.start(t)
	return m
}

// stored stops the test when the API server refuses what the model itself
// wants.
func stored[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

// start starts the loop with the newest state, as all of kcm's informers do, and
// with a memory in which there is nothing.
func (m *model) start(t *rapid.T) {
	m.setCache, m.revisionCache = latecache.NewInformer(m.sets), latecache.NewInformer(m.revisions)
	m.podCache, m.nodeCache = latecache.NewInformer(m.pods), latecache.NewInformer(m.nodes)
	client := &fake.Clientset{}
	client.AddReactor("*", "*", m.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&appsv1.DaemonSet{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.setCache })
	factory.InformerFor(&appsv1.ControllerRevision{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.revisionCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.podCache })
	factory.InformerFor(&corev1.Node{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.nodeCache })

	apps, core := factory.Apps().V1(), factory.Core().V1()
	failures := flowcontrol.NewFakeBackOff(time.Second, time.Minute, m.clock)
	c := New(t.Context(), apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client, failures)
	recorded := *c
	t.Cleanup(func() { shutDown(&recorded) })
	c.events = &controller.Events{EventRecorder: &record.FakeRecorder{}}
	c.podControl = controller.NewPodControl(client, c.events)
	c.clock, c.expectations = m.clock, controller.NewExpectations(m.clock)
	c.shuffle = rand.New(rand.NewPCG(1, 2)).Shuffle
	c.synced = nil
	// The handlers were given the first expectations. They are told again of
	// all that there is by nobody, so they get the new ones here.
	c.watchOwned(m.podCache, m.revisionCache)
	if !m.cachesTell {
		c.setWrites, c.podWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(tellsNothing{})}, controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(tellsNothing{})}
		c.revisionWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(tellsNothing{})}
	}
	m.loop = c
	m.note("the loop starts")
}

// tellsNothing is a cache that cannot tell how far it is.
type tellsNothing struct{}

func (tellsNothing) LastStoreSyncResourceVersion() string { return "" }

// shutDown ends what the constructor began.
func shutDown(c *Controller) {
	ended, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	cancel()
	c.Run(ended, 0)
}

// sync is one round of the loop. It may come at any moment.
func (m *model) sync(t *rapid.T, how outcome, after int) error {
	m.how, m.after, m.requests = how, after, 0
	m.clock.Step(time.Second)
	err := m.loop.sync(t.Context(), cache.NewObjectName("ns", "agent"))
	m.note("the loop syncs: %d requests, %d done, then %s", m.requests, after, how)
	if how == refused && m.requests > after && err == nil {
		m.broke("what was refused counts as done: %v", m.refusal)
	}
	if m.wrong != "" {
		m.fail(t, m.wrong)
	}
	return err
}

// answer is the API server.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		if action.Resource.Resource == "controllerrevisions" {
			return result(m.revisions.Get(action.Name))
		}
		return result(m.sets.Get(action.Name))
	case clienttesting.ListActionImpl:
		pods := &corev1.PodList{}
		for _, pod := range m.pods.List() {
			pods.Items = append(pods.Items, *pod)
		}
		return true, pods, nil
	}
	m.requests++
	trouble := m.how != well && m.requests > m.after
	if trouble && m.how == refused {
		return true, nil, m.refusal
	}
	handled, obj, err := m.write(action, trouble)
	if trouble && err == nil {
		return true, nil, apierrors.NewTimeoutError("request did not complete", 0)
	}
	return handled, obj, err
}

// result brings what a store says into the form of a reaction: an interface of
// a nil pointer would not be nil.
func result[T runtime.Object](obj T, err error) (bool, runtime.Object, error) {
	if err != nil {
		return true, nil, err
	}
	return true, obj, nil
}

// write does what a request asks for.
func (m *model) write(action clienttesting.Action, unanswered bool) (bool, runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		if revision, ok := action.Object.(*appsv1.ControllerRevision); ok {
			return result(m.revisions.Create(revision))
		}
		return result(m.createPod(action.Object.(*corev1.Pod), unanswered))
	case clienttesting.UpdateActionImpl:
		if revision, ok := action.Object.(*appsv1.ControllerRevision); ok {
			return result(m.revisions.Update(revision))
		}
		return result(m.sets.Update(action.Object.(*appsv1.DaemonSet)))
	case clienttesting.DeleteActionImpl:
		if action.Resource.Resource == "controllerrevisions" {
			m.checkForgotten(action.Name)
			return true, nil, m.revisions.Delete(action.Name)
		}
		return true, nil, m.deletePod(action.Name, action.DeleteOptions.Preconditions)
	}
	panic(fmt.Sprintf("nobody asks for %T", action))
}

func (m *model) createPod(pod *corev1.Pod, unanswered bool) (*corev1.Pod, error) {
	node := nodeOf(pod)
	for _, other := range m.podsOn(node) {
		switch {
		case m.unanswered.Has(node):
		case m.unanswered.Len() > 0 && !m.cachesTell:
			// Who only counts takes a pod of which it was told nothing for one that it waits for.
		case !surges(m.set()) && !hasEnded(other):
			m.broke("a node got a second pod: %s has %s", node, other.Name)
		case lives(other) && other.Labels[hashLabel] == pod.Labels[hashLabel]:
			m.broke("a node got a second pod of one version: %s has %s", node, other.Name)
		}
	}
	if unanswered {
		m.unanswered.Insert(node)
	}
	pod.Name = fmt.Sprint("agent-", m.named)
	pod.CreationTimestamp, pod.Status.Phase = metav1.NewTime(m.clock.Now()), corev1.PodPending
	m.named++
	return m.pods.Create(pod)
}

func (m *model) deletePod(name string, wanted *metav1.Preconditions) error {
	pod, err := m.pods.Get(name)
	switch {
	case err != nil:
		return err
	case *wanted.UID != pod.UID || *wanted.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("it has changed"))
	}
	m.checkDeleted(pod)
	m.terminate(pod)
	return nil
}

// checkDeleted wants no more nodes without an available pod through the loop's
// doing than there may be. A node that is not to have a pod does not count, and
// what others have broken is not the loop's doing. Where no node is to have a
// pod, a share of none lets nothing go that works and may stay.
func (m *model) checkDeleted(pod *corev1.Pod) {
	node := nodeOf(pod)
	v := m.verdict(node)
	if !works(pod) || !v.stay {
		return
	}
	others := slices.DeleteFunc(m.podsOn(node), func(other *corev1.Pod) bool { return other.UID == pod.UID || !m.worked.Has(other.UID) })
	if len(others) > 0 {
		return // one works beside it, or has until somebody broke it
	}
	desired := m.desired()
	unavailable := scaled(&m.unavailable, desired)
	switch {
	case v.run:
		m.taken.Insert(node)
		if m.taken.Len() > unavailable {
			m.broke("more nodes were made do without a pod than may be: %s, and %d may", strings.Join(sets.List(m.taken), " "), unavailable)
		}
	case desired == 0 && unavailable == 0 && scaled(&m.surge, desired) == 0:
		m.broke("a pod that may stay was taken for a share of no nodes: %s of %s", pod.Name, node)
	}
}

// checkForgotten wants no revision to go that pods are of, unless the loop was
// never told that it has created them.
func (m *model) checkForgotten(name string) {
	revision, err := m.revisions.Get(name)
	if err != nil {
		return
	}
	for _, pod := range m.pods.List() {
		if pod.Labels[hashLabel] == revisionHash(revision) && !m.unanswered.Has(nodeOf(pod)) {
			m.broke("a revision was deleted that is in use: %s by %s", name, pod.Name)
		}
	}
}

func lives(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !hasEnded(pod) }
func works(pod *corev1.Pod) bool { return lives(pod) && controller.IsPodReady(pod) }

func (m *model) verdict(node string) verdict {
	there, err := m.nodes.Get(node)
	if err != nil {
		return verdict{}
	}
	return demandsOf(m.set()).verdictOn(there)
}

// desired is how many nodes are to have a pod.
func (m *model) desired() int {
	desired := 0
	for _, node := range m.nodes.List() {
		if m.verdict(node.Name).run {
			desired++
		}
	}
	return desired
}

func (m *model) podsOn(node string) []*corev1.Pod {
	return slices.DeleteFunc(m.pods.List(), func(pod *corev1.Pod) bool { return nodeOf(pod) != node })
}

// terminate is what the API server does when a deletion is asked for.
func (m *model) terminate(pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
	case pod.Spec.NodeName == "" || hasEnded(pod):
		stored(pod, m.pods.Delete(pod.Name))
	default:
		pod.DeletionTimestamp = &metav1.Time{Time: m.clock.Now()}
		stored(m.pods.Update(pod))
	}
}

// What may become of a pod.
const (
	starts = "starts"
	falter = "is ready no longer"
	fails  = "fails"
	killed = "is killed by somebody"
	ends   = "ends"
)

// live lets that happen to a pod, if it can, and tells whether it could.
func (m *model) live(pod *corev1.Pod, what string) bool {
	switch {
	case what == ends && pod.DeletionTimestamp != nil:
		stored(pod, m.pods.Delete(pod.Name))
		m.note("%s %s", pod.Name, what)
		return true
	case what == starts && lives(pod) && !works(pod):
		pod.Spec.NodeName, pod.Status.Phase = nodeOf(pod), corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		m.worked.Insert(pod.UID)
		m.taken.Delete(pod.Spec.NodeName)
	case what == falter && works(pod):
		pod.Status.Conditions = nil
	case what == fails && lives(pod) && pod.Spec.NodeName != "":
		pod.Status.Phase, pod.Status.Conditions = corev1.PodFailed, nil
	case what == killed && lives(pod):
		m.terminate(pod)
		m.note("%s %s", pod.Name, what)
		return true
	default:
		return false
	}
	stored(m.pods.Update(pod))
	m.note("%s %s", pod.Name, what)
	return true
}

func (m *model) set() *appsv1.DaemonSet { return stored(m.sets.Get("agent")) }

// change changes the spec, as a user does.
func (m *model) change(edit func(*appsv1.DaemonSet)) {
	set := m.set()
	edit(set)
	set.Generation++
	stored(m.sets.Update(set))
	m.note("the user changes the set")
}

// taint gives a node one taint, or none.
func (m *model) taint(name string, effect corev1.TaintEffect) {
	node := stored(m.nodes.Get(name))
	node.Spec.Taints = nil
	if effect != "" {
		node.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: effect}}
	}
	stored(m.nodes.Update(node))
	m.nodeCache.CatchUp()
	m.taken.Delete(name) // a node that is not to have a pod is not taken any more
	m.note("node %s has the taint %q", name, effect)
}

// anything is what may happen, at any time. Nodes are the only ones that the
// loop sees as they are: what it deletes by an old verdict it cannot know.
func anything(m *model) map[string]func(*rapid.T) {
	few := rapid.IntRange(1, 4)
	return map[string]func(*rapid.T){
		"the loop syncs": func(t *rapid.T) { _ = m.sync(t, well, 0) },
		"the loop syncs in trouble": func(t *rapid.T) {
			m.refusal = rapid.SampledFrom(refusals).Draw(t, "refusal")
			_ = m.sync(t, rapid.SampledFrom([]outcome{refused, lost}).Draw(t, "how"), rapid.IntRange(0, 3).Draw(t, "after"))
		},
		"pods are shown": func(t *rapid.T) {
			m.podCache.Show(few.Draw(t, "changes"))
			m.podCache.Tell(few.Draw(t, "told"))
			m.note("changes of pods reach the cache")
		},
		"revisions are shown": func(*rapid.T) {
			m.revisionCache.CatchUp()
			m.note("the loop sees the revisions as they are")
		},
		"the set is shown": func(*rapid.T) {
			m.setCache.CatchUp()
			m.note("the loop sees the set as it is")
		},
		"pods live": func(t *rapid.T) {
			for range few.Draw(t, "changes") {
				if pods := m.pods.List(); len(pods) > 0 {
					pod := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
					m.live(pod, rapid.SampledFrom([]string{starts, starts, starts, falter, fails, killed, ends, ends}).Draw(t, "what"))
				}
			}
		},
		"the user changes the template": func(t *rapid.T) {
			image := rapid.SampledFrom([]string{"agent:1", "agent:2", "agent:3"}).Draw(t, "image")
			if m.set().Spec.Template.Spec.Containers[0].Image != image {
				m.change(func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = image })
			}
		},
		"a node is tainted": func(t *rapid.T) {
			m.taint(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"),
				rapid.SampledFrom([]corev1.TaintEffect{"", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}).Draw(t, "effect"))
		},
		"another process leads": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				m.start(t)
			}
		},
	}
}

// comeToRest lets all be well, and wants the loop to arrive.
func (m *model) comeToRest(t *rapid.T) {
	for rounds, moved := 0, true; moved; rounds++ {
		if rounds == 60 {
			m.fail(t, "the loop does not come to rest")
		}
		m.setCache.CatchUp()
		m.revisionCache.CatchUp()
		m.podCache.CatchUp()
		if !m.loop.expectations.Satisfied(m.set()) {
			m.fail(t, "the loop waits for what will never come")
		}
		m.clock.Step(time.Hour) // pauses end
		if err := m.sync(t, well, 0); err != nil && !errors.Is(err, controller.ErrStaleCache) {
			m.fail(t, fmt.Sprintf("a sync failed without need: %v", err))
		}
		moved = m.requests > 0
		for _, pod := range m.pods.List() {
			moved = m.live(pod, starts) || m.live(pod, ends) || moved
		}
	}
	m.checkDone(t)
}

// checkDone wants one pod of the current template on each node that is to have
// one, none on others but for those that may stay, which are of an old template
// only where the limits come to nothing, and a status that says so.
func (m *model) checkDone(t *rapid.T) {
	set, desired := m.set(), m.desired()
	stuck := desired == 0 && scaled(&m.unavailable, 0) == 0 && scaled(&m.surge, 0) == 0
	for _, node := range m.nodes.List() {
		v, pods := m.verdict(node.Name), m.podsOn(node.Name)
		right := len(pods) == 0 && !v.run
		right = right || len(pods) == 1 && v.stay &&
			(stuck || pods[0].Spec.Containers[0].Image == set.Spec.Template.Spec.Containers[0].Image)
		if !right {
			m.fail(t, "the loop rests before it is done: node "+node.Name)
		}
	}
	status := set.Status
	if int(status.DesiredNumberScheduled) != desired || int(status.NumberAvailable) != desired ||
		int(status.UpdatedNumberScheduled) != desired || status.ObservedGeneration != set.Generation {
		m.fail(t, fmt.Sprintf("the status does not say so: %+v", status))
	}
	templates := sets.New[string]()
	for _, revision := range m.revisions.List() {
		if templates.Has(string(revision.Data.Raw)) {
			m.fail(t, "two revisions have one template")
		}
		templates.Insert(string(revision.Data.Raw))
	}
}

func (m *model) broke(format string, args ...any) {
	m.wrong = cmp.Or(m.wrong, fmt.Sprintf(format, args...))
}

// note adds a line to the trace: what has happened, and how pods are now.
func (m *model) note(format string, args ...any) {
	var states []string
	for _, pod := range m.pods.List() {
		state := "waits"
		switch {
		case pod.DeletionTimestamp != nil:
			state = "goes"
		case hasEnded(pod):
			state = "failed"
		case works(pod):
			state = "works"
		}
		states = append(states, fmt.Sprintf("%s %s on %s %s", pod.Name, pod.Spec.Containers[0].Image, nodeOf(pod), state))
	}
	unshown, untold := m.podCache.Behind()
	m.trace = append(m.trace, fmt.Sprintf("%3d %s\n      now: %s; the cache lacks %d, %d are untold",
		len(m.trace), fmt.Sprintf(format, args...), strings.Join(states, ", "), unshown, untold))
}

func (m *model) fail(t *rapid.T, promise string) {
	t.Logf("maxSurge %s, maxUnavailable %s\n%s", m.surge.String(), m.unavailable.String(), strings.Join(m.trace, "\n"))
	kind, _, _ := strings.Cut(promise, ":")
	t.Log(promise)
	t.Fatal(kind)
}

// Whatever is late, lost or refused, and whichever process leads: no node gets a
// pod that it has, no more nodes are made do without one than may be, and no
// revision goes that is in use. When the disturbance has ended the loop arrives.
func TestTheLoopOnLateCaches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		t.Repeat(anything(m))
		m.comeToRest(t)
	})
}
