package replication

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// fakeStore holds sets and answers status updates with the errors given, one
// after the other.
type fakeStore struct {
	cached  map[cache.ObjectName]*appsv1.ReplicaSet
	fresh   *appsv1.ReplicaSet
	answers []error
	written []*appsv1.ReplicaSet
}

func storeOf(sets ...*appsv1.ReplicaSet) *fakeStore {
	s := &fakeStore{cached: map[cache.ObjectName]*appsv1.ReplicaSet{}}
	for _, set := range sets {
		s.cached[cache.MetaObjectToName(set)] = set
	}
	return s
}

func (s *fakeStore) get(key cache.ObjectName) (*appsv1.ReplicaSet, error) {
	if set, ok := s.cached[key]; ok {
		return set, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "replicasets"}, key.Name)
}

func (s *fakeStore) list(string) ([]*appsv1.ReplicaSet, error) {
	return slices.Collect(maps.Values(s.cached)), nil
}

func (s *fakeStore) siblings(set *appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error) {
	informer := cache.NewSharedIndexInformer(nil, set, 0, cache.Indexers{})
	index := controller.NewOwnerIndex[*appsv1.ReplicaSet](informer)
	for _, set := range s.cached {
		if err := informer.GetStore().Add(set); err != nil {
			return nil, err
		}
	}
	return index.Siblings(set)
}

func (s *fakeStore) getFresh(context.Context, cache.ObjectName) (*appsv1.ReplicaSet, error) {
	return s.fresh, nil
}

func (s *fakeStore) updateStatus(_ context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	s.written = append(s.written, set)
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return set, answer
}

// fakePods answers every request for a pod with the same error.
type fakePods struct {
	controller.PodControl
	answer error

	mu       sync.Mutex
	requests int
	patched  []string
}

func (p *fakePods) Patch(_ context.Context, pod *corev1.Pod, _ []byte) (*corev1.Pod, error) {
	p.patched = append(p.patched, pod.Name)
	patched := pod.DeepCopy()
	patched.ResourceVersion = "100"
	return patched, p.answer
}

func (p *fakePods) Create(_ context.Context, _ runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	return pod, p.request()
}

func (p *fakePods) Delete(context.Context, runtime.Object, *corev1.Pod) error { return p.request() }

func (p *fakePods) request() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	return p.answer
}

// testController returns a controller without informers and without a loop.
func testController(sets store) *Controller {
	cached := version("")
	return &Controller{
		kind:         kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet")},
		clock:        clocktesting.NewFakePassiveClock(testNow),
		sets:         sets,
		setWrites:    newOwnWrites(corev1.Resource("pods"), &cached),
		podWrites:    newOwnWrites(corev1.Resource("pods"), &cached),
		expectations: controller.NewExpectations(clocktesting.NewFakePassiveClock(testNow)),
	}
}

// podOf returns a pod of the set with that UID, or of none.
func podOf(owner types.UID, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pod", UID: "pod", ResourceVersion: "1", Labels: map[string]string{"app": "web"},
	}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: string(owner[:len(owner)-2]), UID: owner, Controller: ptr.To(true)}}
	}
	for _, edit := range edit {
		edit(pod)
	}
	return pod
}

func TestActExpectsWhatItAsksForAndNothingThatWasRefused(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web")
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: "admission webhook denied the request"}}
	tests := map[string]struct {
		plan     plan
		answer   error
		err      error
		requests int
		mayAct   bool
	}{
		"creations are waited for":                       {plan: plan{create: 5}, requests: 5},
		"deletions are waited for":                       {plan: plan{delete: testPods(5)}, requests: 5},
		"deletions that are refused are not":             {plan: plan{delete: testPods(5)}, answer: refused, err: refused, requests: 5, mayAct: true},
		"deletions of pods that are gone are no failure": {plan: plan{delete: testPods(5)}, answer: notFound, requests: 5, mayAct: true},
		"deletions that a webhook denies with 404 are":   {plan: plan{delete: testPods(5)}, answer: denied, err: denied, requests: 5, mayAct: true},
		"an empty plan asks for nothing":                 {mayAct: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, pods := testSet(3), &fakePods{answer: tt.answer}
			c := testController(storeOf(set))
			c.podControl = pods
			assert.Equal(t, tt.err, c.act(t.Context(), observed{set: set}, tt.plan))
			assert.Equal(t, tt.requests, pods.requests)
			assert.Equal(t, tt.mayAct, c.expectations.Satisfied(set))
		})
	}
}

// This is not parallel: in all other tests a panic ends the process.
func TestADeletionThatPanicsIsOneThatHasFailed(t *testing.T) {
	controller.ReallyCrash.Store(false)
	defer controller.ReallyCrash.Store(true)
	set := testSet(3)
	c := testController(storeOf(set))
	c.podControl = panicking{}
	assert.ErrorContains(t, c.act(t.Context(), observed{set: set}, plan{delete: testPods(5)}), "a defect")
	assert.True(t, c.expectations.Satisfied(set), "what has panicked is waited for no more")
}

type panicking struct{ controller.PodControl }

func (panicking) Delete(context.Context, runtime.Object, *corev1.Pod) error { panic("a defect") }

// changedPods are pods that have changed since they were counted: each of the
// first deletions is a conflict, and latest is what is read then.
type changedPods struct {
	controller.PodControl
	conflicts int
	latest    *corev1.Pod
	gone      error
	deleted   []string // the versions in which deletions were asked for
}

func (p *changedPods) Delete(_ context.Context, _ runtime.Object, pod *corev1.Pod) error {
	p.deleted = append(p.deleted, pod.ResourceVersion)
	if len(p.deleted) <= p.conflicts {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errors.New("it has changed"))
	}
	return nil
}

func (p *changedPods) Read(context.Context, *corev1.Pod) (*corev1.Pod, error) {
	return p.latest, p.gone
}

func TestAPodThatHasChangedIsDeletedIfItIsStillTheSets(t *testing.T) {
	t.Parallel()
	changed := func(p *corev1.Pod) { p.ResourceVersion = "2" }
	going := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	tests := map[string]struct {
		counted, latest *corev1.Pod
		gone            error
		conflicts       int
		deleted         []string
		waits           bool
		// stale says that the next sync waits for the cache.
		stale bool
		err   string
	}{
		"a new status does not save it":                      {latest: podOf("web-1", changed), conflicts: 1, deleted: []string{"1", "2"}, waits: true},
		"nor do several":                                     {latest: podOf("web-1", changed), conflicts: 4, deleted: []string{"1", "2", "2", "2", "2"}, waits: true},
		"that it never stands still is told":                 {latest: podOf("web-1", changed), conflicts: 9, deleted: []string{"1", "2", "2", "2", "2"}, err: "it has changed"},
		"one that the set has adopted is the set's":          {counted: podOf(""), latest: podOf("web-1", changed), conflicts: 1, deleted: []string{"1", "2"}, waits: true},
		"one that is going by now is not waited for":         {latest: podOf("web-1", changed, going), conflicts: 1, deleted: []string{"1"}, stale: true},
		"one that has no owner by now lives":                 {latest: podOf("", changed), conflicts: 1, deleted: []string{"1"}, stale: true},
		"one of another owner lives":                         {latest: podOf("web-0", changed), conflicts: 1, deleted: []string{"1"}, stale: true},
		"one that was taken out by its labels lives":         {latest: podOf("web-1", changed, labelled("debug")), conflicts: 1, deleted: []string{"1"}, stale: true},
		"one that is gone is no failure, and not waited for": {gone: apierrors.NewNotFound(corev1.Resource("pods"), "pod"), conflicts: 1, deleted: []string{"1"}},
		"that it cannot be read is told":                     {gone: errors.New("timeout"), conflicts: 1, deleted: []string{"1"}, err: "timeout"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, pods := testSet(0), &changedPods{conflicts: tt.conflicts, latest: tt.latest, gone: tt.gone}
			c := testController(storeOf(set))
			cached := version("1")
			c.podControl, c.podWrites = pods, newOwnWrites(corev1.Resource("pods"), &cached)
			err := c.deletePods(t.Context(), set, []*corev1.Pod{cmp.Or(tt.counted, podOf("web-1"))})
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
			assert.Equal(t, tt.deleted, pods.deleted)
			assert.Equal(t, tt.waits, !c.expectations.Satisfied(set))
			assert.Equal(t, tt.stale, errors.Is(c.podWrites.Observed(cache.MetaObjectToName(set)), controller.ErrStaleCache))
		})
	}
}

// labelled gives a pod another label app.
func labelled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func TestUpdateStatus(t *testing.T) {
	t.Parallel()
	key := cache.NewObjectName("ns", "web")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "replicasets"}, "web", errors.New("changed"))
	timeout := errors.New("timeout")
	scaled := testSet(9)
	scaled.Generation, scaled.ResourceVersion = 4, "100"
	recreated := testSet(3)
	recreated.UID = "web-2"
	tests := map[string]struct {
		status  appsv1.ReplicaSetStatus
		fresh   *appsv1.ReplicaSet
		answers []error
		writes  int
		err     string
	}{
		"what is there already is not written":  {status: appsv1.ReplicaSetStatus{Replicas: 1, ObservedGeneration: 3}},
		"what is new is written":                {status: appsv1.ReplicaSetStatus{Replicas: 2, ObservedGeneration: 3}, answers: []error{nil}, writes: 1},
		"a new generation alone is written":     {status: appsv1.ReplicaSetStatus{Replicas: 1, ObservedGeneration: 4}, answers: []error{nil}, writes: 1},
		"a conflict is tried once more":         {status: appsv1.ReplicaSetStatus{Replicas: 2, ObservedGeneration: 3}, fresh: scaled, answers: []error{conflict, nil}, writes: 2},
		"a second conflict is an error":         {status: appsv1.ReplicaSetStatus{Replicas: 2}, fresh: scaled, answers: []error{conflict, conflict}, writes: 2, err: "update status of ReplicaSet ns/web: "},
		"another set of the name is left alone": {status: appsv1.ReplicaSetStatus{Replicas: 2}, fresh: recreated, answers: []error{conflict}, writes: 1},
		"another error is returned":             {status: appsv1.ReplicaSetStatus{Replicas: 2}, answers: []error{timeout}, writes: 1, err: "timeout"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := testSet(3)
			set.Status = appsv1.ReplicaSetStatus{Replicas: 1, ObservedGeneration: 3}
			sets := storeOf(set)
			sets.fresh, sets.answers = tt.fresh, tt.answers
			c := testController(sets)

			err := c.updateStatus(t.Context(), set, tt.status)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
			require.Len(t, sets.written, tt.writes)
			if tt.writes > 0 {
				assert.Equal(t, tt.status, sets.written[tt.writes-1].Status)
			}
			assert.Equal(t, int32(1), set.Status.Replicas, "the cached set is not changed")
		})
	}

	t.Run("the next sync waits for what was written", func(t *testing.T) {
		t.Parallel()
		set := testSet(3)
		sets := storeOf(set)
		sets.answers, sets.fresh = []error{conflict, nil}, scaled
		c := testController(sets)
		cached := version("99")
		c.setWrites = newOwnWrites(corev1.Resource("pods"), &cached)
		require.NoError(t, c.updateStatus(t.Context(), set, appsv1.ReplicaSetStatus{Replicas: 2}))
		assert.ErrorIs(t, c.sync(t.Context(), key), controller.ErrStaleCache)
	})
}

func TestASetThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	set := testSet(3)
	c := testController(storeOf())
	c.expectations.Expect(set, 1)
	require.NoError(t, c.sync(t.Context(), cache.MetaObjectToName(set)))
	assert.True(t, c.expectations.Satisfied(set))
}

func TestAPodBecomesAvailableInTimeThoughAnotherCannotBeCreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := testSet(2)
		set.Spec.MinReadySeconds = 10
		store := storeOf(set)
		store.answers = []error{nil}
		c := testController(store)
		withPods(t, c, podOf(set.UID, ready, func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(testNow)
		})).answer = errors.New("refused")
		looked := make(chan time.Duration, 1)
		began, key := time.Now(), cache.MetaObjectToName(set)
		c.burstReplicas = 1
		c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{Sync: func(context.Context, cache.ObjectName) error {
			looked <- time.Since(began)
			return nil
		}})
		assert.ErrorContains(t, c.sync(t.Context(), key), "refused")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		c.loop.Run(ctx, 1)
		close(looked)
		assert.Equal(t, 10*time.Second, <-looked)
	})
}

// named gives a pod a name, and a UID of its own.
func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID = name, types.UID(name) }
}

// withPods gives the controller a cache of pods.
func withPods(t *testing.T, c *Controller, pods ...*corev1.Pod) *fakePods {
	t.Helper()
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	c.podIndex = controller.NewOwnerIndex[*corev1.Pod](informer)
	for _, pod := range pods {
		require.NoError(t, informer.GetStore().Add(pod))
	}
	podControl := &fakePods{}
	c.podControl = podControl
	return podControl
}

func TestObserveTellsPodsApart(t *testing.T) {
	t.Parallel()
	going := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	other := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "elsewhere" }

	set, sibling, stranger := testSet(0), testSet(1), testSet(1)
	sibling.Name, sibling.UID = "sibling", "sibling-1"
	stranger.Name, stranger.UID = "stranger", "stranger-1"
	owner := []metav1.OwnerReference{{Kind: "Deployment", UID: "d", Controller: ptr.To(true)}}
	set.OwnerReferences, sibling.OwnerReferences = owner, owner
	sets := storeOf(set, sibling, stranger)
	sets.fresh = set
	c := testController(sets)
	cached := version("")
	c.podWrites = newOwnWrites(corev1.Resource("pods"), &cached)
	podControl := withPods(t, c,
		podOf("web-1", named("mine")),
		podOf("web-1", named("mine-released"), other),
		podOf("web-1", named("mine-failed"), failed),
		podOf("web-1", named("mine-failed-relabelled"), failed, other),
		podOf("web-1", named("mine-going"), going),
		podOf("web-1", named("mine-going-relabelled"), going, other),
		podOf("web-1", named("mine-gone"), going, failed),
		podOf("web-0", named("predecessor's")),
		podOf("web-1", named("pretender"), elsewhere),
		podOf("sibling-1", named("sibling's")),
		podOf("stranger-1", named("stranger's")),
		podOf("", named("orphan")),
		podOf("", named("orphan-other"), other),
		podOf("", named("orphan-going"), going),
		podOf("", named("orphan-failed"), failed),
	)

	seen, err := c.observe(t.Context(), cache.MetaObjectToName(set))
	require.NoError(t, err)
	names := func(pods []*corev1.Pod) (names []string) {
		for _, pod := range pods {
			names = append(names, pod.Name)
		}
		return names
	}
	assert.ElementsMatch(t, []string{"mine", "orphan"}, names(seen.active))
	assert.ElementsMatch(t, []string{"mine-going"}, names(seen.terminating))
	assert.ElementsMatch(t, []string{"orphan", "mine-released"}, podControl.patched)
	assert.Contains(t, names(seen.related), "sibling's")
	assert.Contains(t, names(seen.related), "mine")
	assert.NotContains(t, names(seen.related), "stranger's")
	assert.True(t, seen.mayAct)
	assert.Equal(t, testNow, seen.now)

	t.Run("and waits for its own adoptions", func(t *testing.T) {
		t.Parallel()
		cached = "99"
		_, err := c.observe(t.Context(), cache.MetaObjectToName(set))
		assert.ErrorIs(t, err, controller.ErrStaleCache)
	})
}

func TestASetThatOnlyTheServerKnowsToBeDeletedDoesNotAdopt(t *testing.T) {
	t.Parallel()
	set := testSet(3)
	sets := storeOf(set)
	sets.fresh = set.DeepCopy()
	sets.fresh.DeletionTimestamp = ptr.To(metav1.Now())
	c := testController(sets)
	podControl := withPods(t, c, podOf("", named("orphan")))
	assert.ErrorContains(t, c.sync(t.Context(), cache.MetaObjectToName(set)), "ns/web has been deleted")
	assert.Empty(t, podControl.patched)
	assert.Zero(t, podControl.requests, "nor does it create pods in their place")
}
