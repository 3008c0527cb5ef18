package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// model is a cluster with one Job and the loop that runs it. The loop is the real
// one, from the handlers of its informers to its client. What surrounds it moves
// when it is told to: what its caches show and its handlers hear, between which
// two requests its process is killed, how its pods end.
type model struct {
	jobs     *latecache.Store[*batchv1.Job]
	pods     *latecache.Store[*corev1.Pod]
	jobCache *latecache.Informer[*batchv1.Job]
	podCache *latecache.Informer[*corev1.Pod]
	clock    *clocktesting.FakePassiveClock
	loop     *Controller
	// cachesTell says that the caches know which version they show.
	cachesTell bool

	answers  answers
	requests int // of the present sync
	named    int // pods that were ever created
	// unheard counts the pods that were created, and no answer came.
	unheard int
	// ranOut says that the expectations of the loop may have run out.
	ranOut bool
	// written are the pods that ever stood in the status by UID, and counted those
	// that the counters took over.
	written, counted map[types.UID]bool
	// nobodys are the pods that are not to be counted: the loop itself has stopped them, they have lost
	// their labels or their finalizer, or their index was settled by another pod.
	nobodys map[types.UID]bool
	// succeeded and failed are the pods that truly have. One that shows one phase after the other may be both.
	succeeded, failed map[types.UID]bool
	// odd are the pods that somebody has done to what no kubelet does.
	odd map[types.UID]bool

	trace []string
	// wrong is the first promise that the loop broke, and how.
	wrong, how string
}

// answers is how the API server answers the requests of one sync.
type answers struct {
	how outcome
	// after is how many requests are answered before that.
	after int
	// refusal is what is said of those that are refused.
	refusal error
}

// refusals are those of an API server: of a quota, of a ValidatingAdmissionPolicy, of
// another writer, and of a webhook that cannot be reached.
var refusals = []error{
	apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota")),
	apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil),
	apierrors.NewConflict(corev1.Resource("pods"), "", errors.New("it has changed")),
	apierrors.NewInternalError(errors.New("failed calling webhook")),
}

type outcome string

const (
	well    outcome = "all is done"
	refused outcome = "the rest is refused"
	denied  outcome = "the rest is refused if it is about pods"
	unsure  outcome = "the next is done, but its answer is lost"
	killed  outcome = "the process is killed"
)

const namespace, name = "shop", "report"

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newModel(cachesTell bool, edits ...func(*batchv1.Job)) *model {
	m := &model{
		jobs:       latecache.NewStore[*batchv1.Job](batchv1.Resource("jobs")),
		pods:       latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
		clock:      clocktesting.NewFakePassiveClock(testNow),
		cachesTell: cachesTell,
		written:    map[types.UID]bool{},
		counted:    map[types.UID]bool{},
		nobodys:    map[types.UID]bool{},
		succeeded:  map[types.UID]bool{},
		failed:     map[types.UID]bool{},
		odd:        map[types.UID]bool{},
	}
	job := testJob(edits...)
	job.UID, job.Status = "", batchv1.JobStatus{}
	job = stored(m.jobs.Create(job))
	// As the API server makes them, the labels bear the UID.
	labels := map[string]string{batchv1.ControllerUidLabel: string(job.UID)}
	job.Spec.Selector.MatchLabels, job.Spec.Template.Labels = labels, labels
	stored(m.jobs.Update(job))
	return m
}

// stored stops the test when the API server refuses what the model itself wants.
func stored[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

// start starts the loop, with caches that have just been filled and with a memory
// in which there is nothing.
func (m *model) start(t *rapid.T) {
	m.jobCache, m.podCache = latecache.NewInformer(m.jobs), latecache.NewInformer(m.pods)
	client := &fake.Clientset{}
	client.AddReactor("*", "*", m.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&batchv1.Job{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.jobCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.podCache })
	m.loop = newController(t.Context(), client, m.clock, factory.Core().V1().Pods(), factory.Batch().V1().Jobs())
	if !m.cachesTell {
		m.loop.podWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(tellsNothing{})}
	}
	c := m.loop
	t.Cleanup(func() { shutDown(c) })
	m.ranOut = false
}

// shutDown ends what the constructor began.
func shutDown(c *Controller) {
	ended, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	cancel()
	c.Run(ended, 0)
}

// sync is one round of the loop. It may come at any moment.
func (m *model) sync(t *rapid.T, answers answers) error {
	m.answers, m.requests = answers, 0
	m.clock.SetTime(m.clock.Now().Add(time.Second))
	err := m.loop.sync(t.Context(), cache.NewObjectName(namespace, name))
	text := string(answers.how)
	if answers.how != well {
		text = fmt.Sprintf("%d requests, then %s", answers.after, answers.how)
	}
	if answers.refusal != nil {
		text += ": " + string(apierrors.ReasonForError(answers.refusal))
	}
	m.note("the loop syncs, with %d requests: %s", m.requests, text)
	if m.wrong != "" {
		m.fail(t, m.wrong, "%s", m.how)
	}
	return err
}

// answer is the API server.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	if get, ok := action.(clienttesting.GetActionImpl); ok {
		job, err := m.jobs.Get(get.Name)
		return true, job, err
	}
	m.requests++
	if m.requests > m.answers.after && m.answers.how == killed {
		return true, nil, errors.New("the process is no more")
	}
	if m.requests > m.answers.after && (m.answers.how == refused || m.answers.how == denied && action.GetResource().Resource == "pods") {
		return true, nil, m.answers.refusal
	}
	obj, err := m.do(action)
	if m.requests == m.answers.after+1 && m.answers.how == unsure {
		if action.GetVerb() == "create" {
			m.unheard++
		}
		return true, nil, apierrors.NewTimeoutError("request did not complete", 0)
	}
	return true, obj, err
}

func (m *model) do(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		return m.createPod(action.Object.(*corev1.Pod)), nil
	case clienttesting.PatchActionImpl:
		return m.patchPod(action.Name, action.Patch)
	case clienttesting.DeleteActionImpl:
		return nil, m.deletePod(action.Name, action.DeleteOptions.Preconditions)
	case clienttesting.UpdateActionImpl: // of the status
		return m.updateStatus(action.Object.(*batchv1.Job))
	}
	panic(fmt.Sprintf("the model knows no %s", action.GetVerb()))
}

func (m *model) createPod(pod *corev1.Pod) *corev1.Pod {
	pod.Name = fmt.Sprint(name, "-", m.named)
	pod.CreationTimestamp, pod.Status.Phase = metav1.NewTime(m.clock.Now()), corev1.PodPending
	m.named++
	created := stored(m.pods.Create(pod))
	job := m.job()
	if !hasFinalizer(created) {
		m.broke("a pod could end uncounted", "created %s without finalizer", created.Name)
	}
	if m.ranOut && !m.cachesTell {
		return created // nothing tells the loop what it has created
	}
	if isIndexed(job) {
		m.checkIndex(created)
	} else if have := m.needed(); have > int(*job.Spec.Completions)+m.unheard {
		m.broke("a pod was created that is not needed", "created %s: %d pods are active or have succeeded, and %d completions are wanted",
			created.Name, have, *job.Spec.Completions)
	}
	return created
}

// needed counts the pods that are active or have succeeded. Odd ones the cache may show otherwise.
func (m *model) needed() int {
	needed := maps.Clone(m.succeeded)
	for _, pod := range m.active() {
		needed[pod.UID] = true
	}
	maps.DeleteFunc(needed, func(uid types.UID, _ bool) bool { return m.odd[uid] })
	return len(needed)
}

// checkIndex wants no pod for an index for which another one runs or has
// succeeded, but for those of whose creation the loop has never heard.
func (m *model) checkIndex(created *corev1.Pod) {
	status, number := m.seen().Status, indexNumber(created)
	if parseIndexes(status.CompletedIndexes, 100).has(number) || parseIndexes(ptr.Deref(status.FailedIndexes, ""), 100).has(number) {
		m.broke("a pod was created that is not needed", "created %s for index %d, which is settled in the status", created.Name, number)
	}
	for _, pod := range m.pods.List() {
		busy := (m.succeeded[pod.UID] && !m.nobodys[pod.UID] || controller.IsPodActive(pod)) && !m.odd[pod.UID]
		if pod.UID != created.UID && busy && m.unheard == 0 && index(pod) == index(created) {
			m.broke("a pod was created that is not needed", "created %s for index %s, which %s has", created.Name, index(created), pod.Name)
		}
	}
}

func index(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

// patchPod takes the finalizer off, adopts and releases.
func (m *model) patchPod(name string, patch []byte) (*corev1.Pod, error) {
	var wanted struct {
		Metadata struct {
			UID     types.UID `json:"uid"`
			Version string    `json:"resourceVersion"`
			Take    []string  `json:"$deleteFromPrimitiveList/finalizers"`
			Give    []string  `json:"finalizers"`
			Owners  []struct {
				metav1.OwnerReference
				Patch string `json:"$patch"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &wanted); err != nil {
		return nil, err
	}
	pod, err := m.pods.Get(name)
	switch {
	case err != nil:
		return nil, err
	case pod.UID != wanted.Metadata.UID:
		return nil, apierrors.NewInvalid(schemaOf(pod), name, field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), pod.UID, "field is immutable")})
	case wanted.Metadata.Version != "" && wanted.Metadata.Version != pod.ResourceVersion:
		return nil, apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("it has changed"))
	}
	if pod.DeletionTimestamp != nil && len(wanted.Metadata.Give) > 0 && !hasFinalizer(pod) {
		path := field.NewPath("metadata", "finalizers")
		return nil, apierrors.NewInvalid(schemaOf(pod), name, field.ErrorList{field.Forbidden(path, "no new finalizers can be added if the object is being deleted")})
	}
	for _, owner := range wanted.Metadata.Owners {
		if pod.OwnerReferences = nil; owner.Patch == "" {
			pod.OwnerReferences = []metav1.OwnerReference{owner.OwnerReference}
		}
	}
	switch {
	case len(wanted.Metadata.Give) > 0 && ended(pod):
		pod.Finalizers = wanted.Metadata.Give
		m.end(pod, pod.Status.Phase)
	case len(wanted.Metadata.Give) > 0:
		pod.Finalizers = wanted.Metadata.Give
		delete(m.nobodys, pod.UID)
	case len(wanted.Metadata.Take) > 0 && len(wanted.Metadata.Owners) > 0:
		m.let(pod)
	case len(wanted.Metadata.Take) > 0 && hasFinalizer(pod):
		m.checkReleased(pod)
		m.let(pod)
	}
	if pod.DeletionTimestamp != nil && ended(pod) && !hasFinalizer(pod) {
		stored(pod, m.pods.Delete(name))
		return pod, nil
	}
	return stored(m.pods.Update(pod)), nil
}

// let takes the finalizer off a pod. If the status has never had it, nobody counts it any more.
func (m *model) let(pod *corev1.Pod) {
	pod.Finalizers = nil
	if !m.written[pod.UID] {
		m.nobodys[pod.UID] = true
	}
}

// checkReleased wants the end of a pod to stand in the status before its finalizer
// goes. A pod that runs is stopped, and is nobody's any more.
func (m *model) checkReleased(pod *corev1.Pod) {
	job := m.job()
	completed := parseIndexes(job.Status.CompletedIndexes, 100)
	settled := completed.union(parseIndexes(ptr.Deref(job.Status.FailedIndexes, ""), 100))
	_, valid := indexOf(job, pod)
	_, seenValid := indexOf(m.seen(), pod) // with fewer completions, perhaps
	switch {
	case m.written[pod.UID] || isFinished(job) || !valid || !seenValid || !ended(pod) && pod.DeletionTimestamp == nil:
	case isIndexed(job) && pod.Status.Phase == corev1.PodSucceeded && !settled.has(indexNumber(pod)):
		m.broke("a pod was let go of uncounted", "took the finalizer off %s, whose index %s is not completed in the status", pod.Name, index(pod))
	case isIndexed(job) && (pod.Status.Phase == corev1.PodSucceeded || completed.has(indexNumber(pod))):
	case !ended(pod) && isTrue(job.Status, batchv1.JobSuccessCriteriaMet): // it ran, and had nothing left to do
	default:
		m.broke("a pod was let go of uncounted", "took the finalizer off %s, which the status has never had", pod.Name)
	}
}

func indexNumber(pod *corev1.Pod) int {
	var n int
	fmt.Sscan(index(pod), &n)
	return n
}

func (m *model) deletePod(name string, wanted *metav1.Preconditions) error {
	pod, err := m.pods.Get(name)
	switch {
	case err != nil:
		return err
	case wanted != nil && (*wanted.UID != pod.UID || *wanted.ResourceVersion != pod.ResourceVersion):
		return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("it has changed"))
	}
	m.terminate(pod)
	return nil
}

// terminate is what the API server does when a deletion is asked for.
func (m *model) terminate(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = &metav1.Time{Time: m.clock.Now()}
		if !ended(pod) && hasFinalizer(pod) && !isFinished(m.job()) {
			m.failed[pod.UID] = true
		}
		pod = stored(m.pods.Update(pod))
	}
	if ended(pod) && !hasFinalizer(pod) {
		stored(pod, m.pods.Delete(pod.Name))
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// updateStatus is where each pod is to come in once, and be counted once.
func (m *model) updateStatus(job *batchv1.Job) (*batchv1.Job, error) {
	before := m.job()
	if job.ResourceVersion == before.ResourceVersion {
		if refusal := refusesStatus(before, job); refusal != "" {
			m.broke("a status was written that the API server does not take", "wrote a status, and %s", refusal)
			return nil, apierrors.NewInvalid(kind.GroupKind(), job.Name, field.ErrorList{field.Forbidden(field.NewPath("status"), refusal)})
		}
	}
	updated, err := m.jobs.Update(job)
	if err != nil {
		return nil, err
	}
	was, is := cmp.Or(before.Status.UncountedTerminatedPods, &batchv1.UncountedTerminatedPods{}), updated.Status.UncountedTerminatedPods
	counted := m.move(was.Succeeded, is.Succeeded, m.succeeded, "succeeded")
	if grown := updated.Status.Succeeded - before.Status.Succeeded; !isIndexed(job) && grown != counted {
		m.broke("the counters do not grow by what leaves the lists", "took %d succeeded pods out of the list and added %d", counted, grown)
	}
	counted = m.move(was.Failed, is.Failed, m.failed, "failed")
	if grown := updated.Status.Failed - before.Status.Failed; grown != counted {
		m.broke("the counters do not grow by what leaves the lists", "took %d failed pods out of the list and added %d", counted, grown)
	}
	m.checkStands(before, updated)
	if running := m.running(); int(updated.Status.Active) < running {
		m.broke("a pod was taken for deleted that runs", "wrote that %d pods are active, and of those in your cache %d are, and nobody has deleted them", updated.Status.Active, running)
	}
	for _, pod := range m.pods.List() {
		// A cache that cannot tell how late it is may not show what the loop has created, once the expectation of it has run out.
		if _, shown, _ := m.podCache.GetStore().Get(pod); !shown && !m.cachesTell && isFinished(updated) {
			m.odd[pod.UID] = true
		}
	}
	return updated, nil
}

// running counts the pods that the cache shows as active, and that are.
func (m *model) running() int {
	shown := map[types.UID]bool{}
	for _, pod := range filter(m.podCache.Cached(), controller.IsPodActive) {
		shown[pod.UID] = !m.odd[pod.UID]
	}
	return len(filter(m.active(), func(pod *corev1.Pod) bool { return shown[pod.UID] }))
}

// checkStands wants what the status says of indexes to stand, and a Job to end with what the status says and nothing else.
func (m *model) checkStands(before, job *batchv1.Job) {
	failures := int(job.Status.Failed) + len(job.Status.UncountedTerminatedPods.Failed)
	if v := saidBefore(job, batchv1.JobFailureTarget); v != nil && v.reason == batchv1.JobReasonBackoffLimitExceeded && failures <= int(*job.Spec.BackoffLimit) {
		m.broke("the Job fails without need", "said that it has failed too often with %d failures, and %d are let pass", failures, *job.Spec.BackoffLimit)
	}
	if !isIndexed(job) {
		has := int(job.Status.Succeeded) + len(job.Status.UncountedTerminatedPods.Succeeded)
		if isTrue(job.Status, batchv1.JobSuccessCriteriaMet) && has < int(*job.Spec.Completions) {
			m.broke("the Job is over too early", "said that %d succeeded pods are enough", has)
		}
		return
	}
	n := int(*job.Spec.Completions)
	completed := parseIndexes(job.Status.CompletedIndexes, n)
	if was := parseIndexes(before.Status.CompletedIndexes, n); was.common(completed) < was.len() {
		m.broke("an index was completed, and is not any more", "wrote completed indexes %q after %q", job.Status.CompletedIndexes, before.Status.CompletedIndexes)
	}
	for _, pod := range m.pods.List() {
		was := cmp.Or(before.Status.UncountedTerminatedPods, &batchv1.UncountedTerminatedPods{}).Failed
		fresh := slices.Contains(job.Status.UncountedTerminatedPods.Failed, pod.UID) && !slices.Contains(was, pod.UID)
		if fresh && parseIndexes(before.Status.CompletedIndexes, n).has(indexNumber(pod)) {
			m.broke("a pod was counted twice", "wrote down that %s has failed, whose index %s is completed", pod.Name, index(pod))
		}
	}
	failed := parseIndexes(ptr.Deref(job.Status.FailedIndexes, ""), n)
	if was := parseIndexes(ptr.Deref(before.Status.FailedIndexes, ""), n); was.common(failed) < was.len() {
		m.broke("an index had failed, and has not any more", "wrote failed indexes %q after %q", *job.Status.FailedIndexes, *before.Status.FailedIndexes)
	}
	if has := completed.len(); isTrue(job.Status, batchv1.JobSuccessCriteriaMet) && !isTrue(before.Status, batchv1.JobSuccessCriteriaMet) && has < n {
		m.broke("the Job is over too early", "said that it is enough with the indexes %q of %d", job.Status.CompletedIndexes, n)
	}
}

// move notes which pods came into a list and which left it.
func (m *model) move(was, is []types.UID, truly map[types.UID]bool, how string) (left int32) {
	for _, uid := range is {
		if slices.Contains(was, uid) {
			continue
		}
		if m.written[uid] {
			m.broke("a pod was counted twice", "wrote %s into the status a second time", uid)
		}
		if !truly[uid] {
			m.broke("a pod was counted that has not ended", "wrote down that %s has %s", uid, how)
		}
		m.written[uid] = true
	}
	for _, uid := range was {
		if !slices.Contains(is, uid) {
			left++
			m.counted[uid] = true
		}
	}
	return left
}

// broke notes the first promise that the loop breaks.
func (m *model) broke(promise, did string, args ...any) {
	if m.wrong == "" {
		m.wrong, m.how = promise, "Your loop "+fmt.Sprintf(did, args...)
	}
}

// What may become of a pod.
const (
	runs     = "runs"
	succeeds = "succeeds"
	fails    = "fails"
	deleted  = "is deleted by somebody"
	ends     = "ends, as it was told to"
)

// What somebody else may do to it, besides having it show any phase.
const (
	losesLabels = "loses its labels"
	hasLabels   = "has its labels again"
	isAnother   = "is another one of its name"
)

// live lets that happen to a pod, if it can, and tells whether it could.
func (m *model) live(pod *corev1.Pod, what string) bool {
	active := controller.IsPodActive(pod)
	switch {
	case what == runs && active && pod.Status.Phase == corev1.PodPending:
		pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
	case what == succeeds && active:
		m.end(pod, corev1.PodSucceeded)
	case what == fails && active:
		m.end(pod, corev1.PodFailed)
	case what == ends && pod.DeletionTimestamp != nil && !ended(pod):
		m.end(pod, corev1.PodFailed)
		if !hasFinalizer(pod) {
			stored(pod, m.pods.Delete(pod.Name))
			return true
		}
	case what == deleted && active:
		m.terminate(pod)
		return true
	default:
		return false
	}
	stored(m.pods.Update(pod))
	return true
}

func (m *model) end(pod *corev1.Pod, phase corev1.PodPhase) {
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(m.clock.Now())}}}}
	switch {
	case !hasFinalizer(pod) || isFinished(m.job()):
	case phase == corev1.PodSucceeded:
		m.succeeded[pod.UID] = true
	default:
		m.failed[pod.UID] = true
	}
}

// befall has something happen to a pod that no kubelet does, and no controller.
func (m *model) befall(pod *corev1.Pod, what string) {
	switch m.odd[pod.UID] = true; what {
	case losesLabels:
		pod.Labels = nil
	case hasLabels:
		pod.Labels = m.job().Spec.Template.Labels
	case isAnother:
		m.let(pod)
		stored(pod, m.pods.Delete(pod.Name))
		another := pod.DeepCopy()
		another.ResourceVersion, another.DeletionTimestamp, another.Finalizers = "", nil, []string{batchv1.JobTrackingFinalizer}
		another.Status = corev1.PodStatus{Phase: corev1.PodPending}
		m.odd[stored(m.pods.Create(another)).UID] = true
		return
	default:
		m.turn(pod, corev1.PodPhase(what))
		return
	}
	stored(m.pods.Update(pod))
}

// turn has a pod show a phase after whichever other.
func (m *model) turn(pod *corev1.Pod, phase corev1.PodPhase) {
	pod.Status = corev1.PodStatus{Phase: phase}
	if ended(pod) {
		m.end(pod, phase)
	}
	pod = stored(m.pods.Update(pod))
	if pod.DeletionTimestamp != nil && ended(pod) && !hasFinalizer(pod) {
		stored(pod, m.pods.Delete(pod.Name))
	}
}

// wait lets the longest pause of the back-off pass, and the time that an
// expectation is kept.
func (m *model) wait() {
	m.clock.SetTime(m.clock.Now().Add(longestPause + time.Second))
	m.ranOut = true
	m.note("%s go by", longestPause)
}

// comeToRest lets the cluster come to rest: the caches catch up, failures have
// ended, and pods succeed.
func (m *model) comeToRest(t *rapid.T) {
	m.change(func(spec *batchv1.JobSpec) {
		spec.Suspend = nil
		spec.Parallelism = new(max(1, *spec.Parallelism))
	})
	for rounds := 0; !isFinished(m.job()); rounds++ {
		if rounds == 40 {
			m.fail(t, "the Job does not end", "All was well, and the Job was not over after %d syncs", rounds)
		}
		m.jobCache.CatchUp()
		m.podCache.CatchUp()
		m.wait()
		if err := m.sync(t, answers{how: well}); err != nil {
			m.fail(t, "a sync failed without need", "All was well, and your loop failed: %v", err)
		}
		for _, pod := range m.pods.List() {
			m.live(pod, cmp.Or(map[bool]string{true: ends}[pod.DeletionTimestamp != nil], succeeds))
		}
	}
	m.checkDone(t)
}

// change is what a user does to the Job.
func (m *model) change(edit func(*batchv1.JobSpec)) {
	job := m.job()
	if edit(&job.Spec); !isFinished(job) {
		stored(m.jobs.Update(job))
	}
}

// checkDone compares what the status says with what has happened.
func (m *model) checkDone(t *rapid.T) {
	job, status := m.job(), m.job().Status
	if int(status.Succeeded+status.Failed) != len(m.counted) && !isIndexed(job) || len(m.counted) < len(m.written) {
		m.fail(t, "the Job's counters are not what has happened", "The status says %d succeeded and %d failed, and %d came into the lists",
			status.Succeeded, status.Failed, len(m.written))
	}
	if completed := parseIndexes(status.CompletedIndexes, 100).len(); isIndexed(job) && int(status.Succeeded) < completed {
		m.fail(t, "the Job's counters are not what has happened", "The status says %d succeeded, and completed are %s", status.Succeeded, status.CompletedIndexes)
	}
	for _, pod := range filter(m.pods.List(), hasFinalizer) {
		if !m.isOdd(pod) {
			m.fail(t, "a pod is held for ever", "The Job is over, and %s has its finalizer", pod.Name)
		}
		m.nobodys[pod.UID] = true // it has come after the end
	}
	for _, pods := range []map[types.UID]bool{m.failed, m.succeeded} {
		for uid := range pods {
			if !m.written[uid] && !m.nobodys[uid] && !(isIndexed(job) && m.succeeded[uid]) {
				m.fail(t, "the Job's counters are not what has happened", "%s has ended, and was not counted", uid)
			}
		}
	}
	active := slices.DeleteFunc(m.active(), m.isOdd)
	if status.Active != 0 || len(active) > 0 || isTrue(status, batchv1.JobComplete) == isTrue(status, batchv1.JobFailed) {
		m.fail(t, "the Job is not over when it says so", "The Job is over, with %d active pods, and says %v", len(active), status.Conditions)
	}
}

func (m *model) job() *batchv1.Job          { return stored(m.jobs.Get(name)) }
func (m *model) isOdd(pod *corev1.Pod) bool { return m.odd[pod.UID] }
func (m *model) seen() *batchv1.Job         { return m.jobCache.Cached()[0] }
func (m *model) active() []*corev1.Pod      { return filter(m.pods.List(), controller.IsPodActive) }

// note adds a line to the trace: what has happened, and how things are now.
func (m *model) note(format string, args ...any) {
	status := m.job().Status
	uncounted := cmp.Or(status.UncountedTerminatedPods, &batchv1.UncountedTerminatedPods{})
	_, untold := m.podCache.Behind()
	m.trace = append(m.trace, fmt.Sprintf("%3d %-75s | %s | cache %s, untold %d | succeeded %d%v %s failed %d%v", len(m.trace), fmt.Sprintf(format, args...),
		podStates(m.pods.List()), podStates(m.podCache.Cached()), untold,
		status.Succeeded, uncounted.Succeeded, status.CompletedIndexes, status.Failed, uncounted.Failed))
}

// podStates writes the number of each pod, a letter for its state, and a + if it
// has its finalizer.
func podStates(pods []*corev1.Pod) string {
	var states []string
	for _, pod := range pods {
		state := "a"
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			state = "s"
		case pod.Status.Phase == corev1.PodFailed:
			state = "f"
		case pod.DeletionTimestamp != nil:
			state = "t"
		}
		if hasFinalizer(pod) {
			state += "+"
		}
		states = append(states, strings.TrimPrefix(pod.Name, name+"-")+state)
	}
	slices.Sort(states)
	return cmp.Or(strings.Join(states, " "), "-")
}

// fail says in one sentence what the loop did, and then what led to it. The
// failure itself is the promise alone, because rapid makes a case smaller only as
// long as it fails for the same reason, which it tells by the text.
func (m *model) fail(t *rapid.T, promise, how string, args ...any) {
	t.Logf("%s.\n\n%s\npods: a active, t being deleted, s succeeded, f failed, + with finalizer",
		fmt.Sprintf(how, args...), strings.Join(m.trace, "\n"))
	t.Fatal(promise)
}

// anything is what may happen, at any time.
func anything(m *model) map[string]func(*rapid.T) {
	few := rapid.IntRange(1, 4)
	return map[string]func(*rapid.T){
		"the loop syncs": func(t *rapid.T) { m.sync(t, answers{how: well}) },
		"the loop syncs in trouble": func(t *rapid.T) {
			how := rapid.SampledFrom([]outcome{refused, denied, unsure}).Draw(t, "how")
			answers := answers{how: how, after: rapid.IntRange(0, 5).Draw(t, "after")}
			if how != unsure {
				answers.refusal = rapid.SampledFrom(refusals).Draw(t, "refusal")
			}
			m.sync(t, answers)
		},
		"the process is killed in the middle of a sync": func(t *rapid.T) {
			m.sync(t, answers{how: killed, after: rapid.IntRange(0, 5).Draw(t, "after")})
			m.start(t)
			m.note("the loop starts")
		},
		"pods are shown": func(t *rapid.T) {
			if unshown, _ := m.podCache.Behind(); unshown == 0 {
				t.SkipNow()
			}
			m.podCache.Show(few.Draw(t, "changes"))
			m.note("changes of pods reach the cache")
		},
		"the loop is told": func(t *rapid.T) {
			if _, untold := m.podCache.Behind(); untold == 0 {
				t.SkipNow()
			}
			m.podCache.Tell(few.Draw(t, "changes"))
			m.note("the loop is told of changes in the cache")
		},
		"the Job is shown": func(t *rapid.T) {
			m.jobCache.CatchUp()
			m.note("the loop sees the Job as it is")
		},
		"time goes by": func(t *rapid.T) { m.wait() },
		"the watch breaks": func(t *rapid.T) {
			m.podCache.Relist()
			m.note("the watch breaks, pods are listed anew")
		},
		"pods live": func(t *rapid.T) {
			pods := m.pods.List()
			if len(pods) == 0 {
				t.SkipNow()
			}
			for range few.Draw(t, "changes") {
				pod := stored(m.pods.Get(pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")].Name))
				what := rapid.SampledFrom([]string{runs, succeeds, succeeds, fails, deleted, ends}).Draw(t, "what")
				if m.live(pod, what) {
					m.note("%s %s", pod.Name, what)
				}
				if pods = m.pods.List(); len(pods) == 0 {
					return
				}
			}
		},
	}
}

// strangers are others who have a hand in it: they change pods as no kubelet does, and the Job meanwhile.
func strangers(m *model) map[string]func(*rapid.T) {
	all := anything(m)
	all["what has ended is written down, and may not go"] = func(t *rapid.T) {
		m.jobCache.CatchUp()
		m.podCache.CatchUp()
		m.sync(t, answers{how: denied, refusal: refusals[1]})
	}
	all["pods are changed"] = func(t *rapid.T) {
		pods := m.pods.List()
		if len(pods) == 0 {
			t.SkipNow()
		}
		// Those that have ended and are held, if there are any: the status may know them.
		if held := filter(pods, func(pod *corev1.Pod) bool { return ended(pod) && hasFinalizer(pod) }); len(held) > 0 {
			pods = held
		}
		pod := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
		counted, owned := m.written[pod.UID] && !ended(pod), len(pod.OwnerReferences) > 0
		could := map[string]bool{
			string(corev1.PodPending): owned, string(corev1.PodRunning): owned,
			string(corev1.PodSucceeded): true, string(corev1.PodFailed): true,
			losesLabels: pod.Labels != nil && !counted,
			hasLabels:   pod.Labels == nil && !counted,
			isAnother:   owned,
		}
		maps.DeleteFunc(could, func(_ string, can bool) bool { return !can })
		what := rapid.SampledFrom(slices.Sorted(maps.Keys(could))).Draw(t, "what")
		m.befall(pod, what)
		m.note("%s %s", pod.Name, what)
	}
	all["the Job is changed"] = func(t *rapid.T) {
		n := rapid.Int32Range(0, 5).Draw(t, "number")
		m.change(func(spec *batchv1.JobSpec) {
			switch what := rapid.SampledFrom([]string{"parallelism", "both", "suspend"}).Draw(t, "what"); {
			case what == "suspend":
				spec.Suspend = new(!ptr.Deref(spec.Suspend, false))
			case what == "both" && isIndexed(m.job()):
				spec.Completions = new(n)
				fallthrough
			default:
				spec.Parallelism = new(n)
			}
		})
		spec := m.job().Spec
		m.note("completions %d, parallelism %d, suspended %t", *spec.Completions, *spec.Parallelism, ptr.Deref(spec.Suspend, false))
	}
	return all
}

func TestWhatIsWrittenDownStands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		promise string
		edits   []func(*batchv1.Job)
	}{
		{"a pod counts once, whatever it shows later", nil},
		{"an index counts once, whatever its pods show later and how many are wanted", []func(*batchv1.Job){indexed}},
		{"and one that has failed for good has", []func(*batchv1.Job){indexed, perIndex(1)}},
	} {
		t.Run(test.promise, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := newModel(true, append(test.edits,
					completions(rapid.Int32Range(2, 4).Draw(t, "completions")),
					parallelism(rapid.Int32Range(2, 4).Draw(t, "parallelism")),
					backoffLimit(rapid.Int32Range(0, 1).Draw(t, "backoffLimit")))...)
				m.start(t)
				m.note("the loop starts")
				t.Repeat(strangers(m))
				m.comeToRest(t)
			})
		})
	}
}

func TestAccountsOnALateCache(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		promise    string
		cachesTell bool
		edits      []func(*batchv1.Job)
	}{
		{"wherever the process is killed, however late its caches, each pod is counted once", true, nil},
		{"also if the caches cannot tell how late they are", false, nil},
		{"each failure is counted once in an Indexed Job, too", true, []func(*batchv1.Job){indexed}},
		{"and where each index has a limit of its own", true, []func(*batchv1.Job){indexed, perIndex(3)}},
	} {
		t.Run(test.promise, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				edits := append(test.edits,
					completions(rapid.Int32Range(1, 4).Draw(t, "completions")),
					parallelism(rapid.Int32Range(1, 4).Draw(t, "parallelism")),
					backoffLimit(rapid.Int32Range(0, 8).Draw(t, "backoffLimit")))
				m := newModel(test.cachesTell, edits...)
				m.start(t)
				m.note("the loop starts")
				t.Repeat(anything(m))
				m.comeToRest(t)
			})
		})
	}
}

// tellsNothing is a cache that cannot tell how far it is.
type tellsNothing struct{}

func (tellsNothing) LastStoreSyncResourceVersion() string { return "" }
