package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// model is a cluster with one ReplicaSet and the loop that keeps its pods. The
// loop is the real one, from the handlers of its informers to its client. What
// surrounds it moves when it is told to: what the caches show and the handlers
// hear, how the API server answers, what becomes of pods.
type model struct {
	sets     *latecache.Store[*appsv1.ReplicaSet]
	pods     *latecache.Store[*corev1.Pod]
	setCache *latecache.Informer[*appsv1.ReplicaSet]
	podCache *latecache.Informer[*corev1.Pod]
	// sinceCreation counts the changes of the set since it was created.
	sinceCreation *latecache.Informer[*appsv1.ReplicaSet]
	clock         *clocktesting.FakePassiveClock
	loop          *Controller
	burst         int
	// cachesTell says that the caches know which version they show. The loop
	// then has a second guard beside its expectations.
	cachesTell bool

	answers  answers
	requests int // of the present sync
	created  int // by the present sync
	named    int // pods that were ever created
	// lost are the pods that ended through no doing of the loop.
	lost map[types.UID]bool
	// unanswered counts the pods that the loop has created or deleted since it
	// was started and had no answer about.
	unanswered struct{ created, deleted int }
	// unheard counts the pods that the loop has created since it was started
	// and that its cache will never show.
	unheard int
	// ranOut says that the expectations of the loop may have run out.
	ranOut bool

	trace []string
	// wrong is the first promise that the loop broke, and how is by what.
	wrong, how string
}

// answers is how the API server answers the requests of one sync.
type answers struct {
	how outcome
	// after is how many pods are created before anything else comes.
	after int
	// late says that the loop hears of each creation before its answer.
	late bool
}

type outcome string

const (
	well    outcome = "all is done"
	refused outcome = "refused"
	unsure  outcome = "done, but the answer is lost" // of one creation, or of all deletions
	cutOff  outcome = "the process is killed"
)

func (a answers) String() string {
	text := string(a.how)
	if a.how != well && a.after > 0 {
		text = fmt.Sprintf("%d done, then %s", a.after, a.how)
	}
	if a.late {
		text += ", heard of before it was answered"
	}
	return text
}

func newModel(replicas int32, burst int, cachesTell bool) *model {
	m := &model{
		sets:       latecache.NewStore[*appsv1.ReplicaSet](appsv1.Resource("replicasets")),
		pods:       latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
		clock:      clocktesting.NewFakePassiveClock(testNow),
		burst:      burst,
		cachesTell: cachesTell,
		lost:       map[types.UID]bool{},
	}
	stored(m.sets.Create(testSet(replicas)))
	m.sinceCreation = latecache.NewInformer(m.sets)
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

// start starts the loop: with caches that show what was there that many changes
// ago, and with a memory in which there is nothing.
func (m *model) start(t *rapid.T, behind int) {
	unshown, _ := m.sinceCreation.Behind()
	m.setCache, m.podCache = latecache.NewLateInformer(m.sets, min(behind, unshown)), latecache.NewLateInformer(m.pods, behind)
	client := &fake.Clientset{}
	client.AddReactor("*", "*", m.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&appsv1.ReplicaSet{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.setCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.podCache })

	sets, pods := factory.Apps().V1().ReplicaSets(), factory.Core().V1().Pods()
	replicaSet := kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), countsTerminating: true}
	c := newController(t.Context(), replicaSet, pods, client, m.burst)
	t.Cleanup(func() { shutDown(c) })
	c.clock, c.expectations = m.clock, controller.NewExpectations(m.clock)
	c.sets = replicaSets{
		lister: sets.Lister(),
		index:  controller.NewOwnerIndex[*appsv1.ReplicaSet](sets.Informer()),
		client: client.AppsV1(),
	}
	watchSets[*appsv1.ReplicaSet](c, sets.Informer())
	c.watchPods(pods.Informer())
	if !m.cachesTell {
		c.setWrites, c.podWrites = newOwnWrites(corev1.Resource("pods"), tellsNothing{}), newOwnWrites(corev1.Resource("pods"), tellsNothing{})
	}
	m.loop, m.unheard, m.ranOut = c, 0, false
	m.unanswered.created, m.unanswered.deleted = m.unknown(behind)
}

// unknown returns how many pods the cache does not show, and how many it shows, or
// will show for a while, that no longer count. What other processes have done before
// this one started it cannot know, any more than what was not answered.
func (m *model) unknown(behind int) (created, deleted int) {
	cached := map[types.UID]bool{}
	for _, pod := range m.podCache.Cached() {
		cached[pod.UID] = counts(pod)
	}
	gone := map[types.UID]bool{}
	for later := behind; later >= 0; later-- {
		for _, pod := range latecache.NewLateInformer(m.pods, later).Cached() {
			gone[pod.UID] = gone[pod.UID] || counts(pod)
		}
	}
	for _, pod := range m.active() {
		if !cached[pod.UID] {
			created++
		}
		delete(gone, pod.UID)
	}
	for uid, counted := range gone {
		if _, shown := cached[uid]; !shown && !m.cachesTell {
			created++ // a loop that only counts takes an old pod that the cache shows late for a new one
		}
		if counted && !m.lost[uid] {
			deleted++
		}
	}
	return created, deleted
}

// shutDown ends what the constructor began.
func shutDown(c *Controller) {
	ended, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	cancel()
	c.Run(ended, 0)
}

// sync is one round of the loop. It may come at any moment.
func (m *model) sync(t *rapid.T, answers answers) error {
	m.answers, m.requests, m.created = answers, 0, 0
	m.clock.SetTime(m.clock.Now().Add(time.Second))
	err := m.loop.sync(t.Context(), cache.NewObjectName("ns", "web"))
	did := fmt.Sprintf("%d requests, %s", m.requests, answers)
	if m.requests == 0 {
		did = "no request"
	}
	m.note("the loop syncs: %s", did)
	if m.wrong != "" {
		m.fail(t, m.wrong, "%s", m.how)
	}
	return err
}

// answer is the API server.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	if m.answers.how == cutOff && m.requests >= m.answers.after {
		return true, nil, errors.New("the process is no more")
	}
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		m.requests++
		pod, err := m.createPod(action.Object.(*corev1.Pod))
		return true, pod, err
	case clienttesting.DeleteActionImpl:
		m.requests++
		return true, nil, m.deletePod(action.Name, action.DeleteOptions.Preconditions)
	case clienttesting.ListActionImpl:
		pods := &corev1.PodList{}
		for _, pod := range m.pods.List() {
			pods.Items = append(pods.Items, *pod)
		}
		return true, pods, nil
	case clienttesting.UpdateActionImpl: // of the status
		m.requests++
		set, err := m.sets.Update(action.Object.(*appsv1.ReplicaSet))
		return true, set, err
	case clienttesting.GetActionImpl:
		set, err := m.sets.Get(action.Name)
		return true, set, err
	}
	return false, nil, nil
}

func (m *model) createPod(pod *corev1.Pod) (*corev1.Pod, error) {
	answerIsLost := m.answers.how == unsure && m.created == m.answers.after
	if m.answers.how != well && m.created >= m.answers.after && !answerIsLost {
		return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
	}
	created := m.addPod(pod)
	m.created++
	if answerIsLost {
		m.unanswered.created++
	}
	m.checkCreated(created)
	if m.answers.late {
		m.podCache.CatchUp()
	}
	if answerIsLost {
		return nil, apierrors.NewTimeoutError("request did not complete", 0)
	}
	return created, nil
}

// addPod completes the pod's name and stores it.
func (m *model) addPod(pod *corev1.Pod) *corev1.Pod {
	pod.Name = fmt.Sprint("web-", m.named)
	pod.CreationTimestamp = metav1.NewTime(m.clock.Now())
	pod.Status.Phase = cmp.Or(pod.Status.Phase, corev1.PodPending)
	m.named++
	return stored(m.pods.Create(pod))
}

func (m *model) deletePod(name string, wanted *metav1.Preconditions) error {
	pod, err := m.pods.Get(name)
	switch {
	case err != nil:
		return err
	case m.answers.how == refused:
		return errors.New("refused")
	case wanted != nil && (*wanted.UID != pod.UID || *wanted.ResourceVersion != pod.ResourceVersion):
		return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("it has changed"))
	}
	if !metav1.IsControlledBy(pod, m.set()) {
		m.broke("a pod was deleted that was not the set's", "deleted %s, which somebody had taken out of the set", pod.Name)
	}
	needed := counts(pod)
	m.terminate(pod)
	if needed && m.answers.how == unsure {
		m.unanswered.deleted++
	}
	if needed {
		m.checkDeleted(pod)
	}
	if m.answers.how == unsure {
		return apierrors.NewTimeoutError("request did not complete", 0)
	}
	return nil
}

// counts tells whether a pod is one of the replicas: it has an owner, has not
// ended and nobody has asked for its deletion.
func counts(pod *corev1.Pod) bool {
	return len(pod.OwnerReferences) > 0 && pod.Status.Phase != corev1.PodFailed && pod.DeletionTimestamp == nil
}

// terminate is what the API server does when a deletion is asked for: a pod
// that runs on a node is marked, and goes when its containers have ended.
func (m *model) terminate(pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
	case pod.Spec.NodeName == "" || !counts(pod):
		stored(pod, m.pods.Delete(pod.Name))
	default:
		pod.DeletionTimestamp = &metav1.Time{Time: m.clock.Now()}
		stored(m.pods.Update(pod))
	}
}

// checkCreated wants no more pods than the loop was told to keep. It may take
// a pod for missing that it was never told it had created, and only then.
func (m *model) checkCreated(pod *corev1.Pod) {
	wanted := int(*m.cachedSet().Spec.Replicas)
	if have := len(m.active()); have > wanted+m.unanswered.created {
		m.broke("a pod was created that was not missing", "made pod number %d, %s, where %d are asked for", have, pod.Name, wanted)
	}
}

// checkDeleted wants no fewer pods than the loop was told to keep, apart from
// those whose end it cannot know of.
func (m *model) checkDeleted(pod *corev1.Pod) {
	have := len(m.active())
	for _, cached := range m.podCache.Cached() {
		if m.lost[cached.UID] && counts(cached) {
			have++
		}
	}
	wanted := int(*m.cachedSet().Spec.Replicas)
	if have+m.unanswered.deleted < wanted && !m.ranOut {
		m.broke("a pod was deleted that was needed", "deleted %s, which leaves %d pods where %d are asked for", pod.Name, have, wanted)
	}
}

// broke notes the first promise that the loop breaks, and how far behind its
// cache was then.
func (m *model) broke(promise, did string, args ...any) {
	if m.wrong != "" {
		return
	}
	view := "Your cache showed everything"
	if unshown, untold := m.podCache.Behind(); unshown > 0 {
		view = fmt.Sprintf("Your cache was %d behind", unshown)
	} else if untold > 0 {
		view = fmt.Sprintf("Your loop had not been told of the last %d changes", untold)
	}
	m.wrong, m.how = promise, view+", and your loop "+fmt.Sprintf(did, args...)
}

// comeToRest lets the cluster come to rest. When the caches have caught up and
// failures have ended, the loop needs one sync for each burst of pods that are
// missing or too many, two that write what becomes of the last of them into
// the status, and one that finds nothing to do.
func (m *model) comeToRest(t *rapid.T) {
	m.catchUp(t)
	missing := int(*m.set().Spec.Replicas) - len(m.active())
	bound := (max(missing, -missing)+m.burst-1)/m.burst + 3
	for rounds, moved := 0, true; moved; rounds++ {
		if rounds == bound {
			m.fail(t, "the loop does not come to rest", "All was well, and your loop was still at work after %d syncs", bound)
		}
		if err := m.sync(t, answers{how: well}); err != nil {
			m.fail(t, "a sync failed without need", "All was well, and your loop failed: %v", err)
		}
		moved = m.requests > 0
		for _, pod := range m.pods.List() {
			moved = m.live(pod, next(pod)) || moved
		}
		m.catchUp(t)
	}
	m.checkDone(t)
}

// checkDone wants the pods that the spec asks for and a status that says so.
func (m *model) checkDone(t *rapid.T) {
	set, have := m.set(), int32(len(m.active()))
	wanted, status := *set.Spec.Replicas, set.Status
	if have != wanted || status.Replicas != wanted || status.ReadyReplicas != wanted || status.ObservedGeneration != set.Generation {
		m.fail(t, "the loop rests before it is done", "Your loop has nothing more to do, with %d pods for %d replicas; the status says %d, %d of them ready, of generation %d, which is now %d",
			have, wanted, status.Replicas, status.ReadyReplicas, status.ObservedGeneration, set.Generation)
	}
}

// catchUp lets the loop see and hear everything. Afterwards it must not wait
// any more. There is one exception: what came and went while a watch was
// broken it never hears of, and waits for until the expectation runs out.
func (m *model) catchUp(t *rapid.T) {
	m.setCache.CatchUp()
	m.podCache.CatchUp()
	m.note("the loop has heard of everything")
	if m.loop.expectations.Satisfied(m.set()) {
		return
	}
	if m.unheard == 0 {
		m.fail(t, "the loop waits for what will never come", "Your loop has heard of all that there is, and still waits for pods")
	}
	m.wait()
	m.unheard = 0
}

func (m *model) wait() {
	m.clock.SetTime(m.clock.Now().Add(controller.ExpectationsTimeout + time.Second))
	m.ranOut = true
	m.note("%s go by", controller.ExpectationsTimeout)
}

// What may become of a pod.
const (
	starts = "starts"
	falter = "is ready no longer"
	fails  = "fails"
	killed = "is killed by somebody"
	ends   = "ends"
	freed  = "is taken out of the set"
)

// next is what becomes of a pod when all is well.
func next(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return ends
	case !controller.IsPodReady(pod) && counts(pod):
		return starts
	default:
		return ""
	}
}

// live lets that happen to a pod, if it can, and tells whether it could.
func (m *model) live(pod *corev1.Pod, what string) bool {
	active := counts(pod)
	switch {
	case what == ends && pod.DeletionTimestamp != nil:
		stored(pod, m.pods.Delete(pod.Name))
		return true
	case what == starts && active && !controller.IsPodReady(pod):
		pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
		setReady(pod, testNow.Sub(m.clock.Now()))
	case what == falter && controller.IsPodReady(pod):
		pod.Status.Conditions = nil
	case what == fails && active:
		m.lost[pod.UID] = true
		hasCrashed(pod)
	// One that the cache never shows as the set's is waited for until the expectation runs out.
	case what == freed && active && m.shown(pod):
		m.lost[pod.UID] = true
		pod.Labels, pod.OwnerReferences = map[string]string{"app": "debug"}, nil
	case what == killed && active:
		m.lost[pod.UID] = true
		m.terminate(pod)
		return true
	default:
		return false
	}
	stored(m.pods.Update(pod))
	return true
}

// shown tells whether the cache shows a pod.
func (m *model) shown(pod *corev1.Pod) bool {
	return slices.ContainsFunc(m.podCache.Cached(), func(cached *corev1.Pod) bool { return cached.UID == pod.UID })
}

// relist breaks the watch of pods.
func (m *model) relist() {
	m.unheard += len(m.podCache.Relist())
}

func (m *model) scale(replicas int32) {
	set := m.set()
	if *set.Spec.Replicas != replicas {
		set.Generation++
	}
	set.Spec.Replicas = &replicas
	stored(m.sets.Update(set))
}

func (m *model) set() *appsv1.ReplicaSet       { return stored(m.sets.Get("web")) }
func (m *model) cachedSet() *appsv1.ReplicaSet { return m.setCache.Cached()[0] }
func (m *model) active() []*corev1.Pod         { return filter(m.pods.List(), counts) }

// note adds a line to the trace: what has happened, and how things are now.
func (m *model) note(format string, args ...any) {
	_, untold := m.podCache.Behind()
	waits := "-"
	for _, pending := range m.loop.expectations.Pending() {
		waits = fmt.Sprintf("%d new", pending.Creations)
		for _, uid := range pending.Deletions {
			waits += " -" + strings.Split(string(uid), "-")[2]
		}
	}
	m.trace = append(m.trace, fmt.Sprintf("%d\t%s\t%d\t%s\t%d\t%s\t%d\t%s", len(m.trace), fmt.Sprintf(format, args...),
		*m.set().Spec.Replicas, podStates(m.pods.List()), *m.cachedSet().Spec.Replicas, podStates(m.podCache.Cached()), untold, waits))
}

// podStates writes the number of each pod and a letter for its state.
func podStates(pods []*corev1.Pod) string {
	var states []string
	for _, pod := range pods {
		state := "p"
		switch {
		case pod.DeletionTimestamp != nil:
			state = "t"
		case len(pod.OwnerReferences) == 0:
			state = "o"
		case !counts(pod):
			state = "f"
		case controller.IsPodReady(pod):
			state = "r"
		case pod.Status.Phase == corev1.PodRunning:
			state = "u"
		}
		states = append(states, strings.TrimPrefix(pod.Name, "web-")+state)
	}
	slices.Sort(states)
	return cmp.Or(strings.Join(states, " "), "-")
}

// fail says in one sentence what the loop did, and then what led to it. The
// failure itself is the promise alone, because rapid makes a case smaller only
// as long as it fails for the same reason, which it tells by the text.
func (m *model) fail(t *rapid.T, promise, how string, args ...any) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\t\tserver\t\tcache\t\t\tloop")
	fmt.Fprintln(table, "\tstep\twanted\tpods\twanted\tpods\tuntold\twaits for")
	fmt.Fprintln(table, strings.Join(m.trace, "\n"))
	table.Flush()
	t.Logf("%s.\n\n%s\npods: p pending, r ready, u not ready, t terminating, f failed, o taken out", fmt.Sprintf(how, args...), text.String())
	t.Fatal(promise)
}

// tellsNothing is a cache that cannot tell how far it is.
type tellsNothing struct{}

func (tellsNothing) LastStoreSyncResourceVersion() string { return "" }
