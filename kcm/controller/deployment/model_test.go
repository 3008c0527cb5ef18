package deployment

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
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// model is a cluster with one Deployment and the loop that rolls it out. The
// loop is the real one, from its caches to its client. What surrounds it moves
// when it is told to: what the caches show, how the API server answers, what
// users do, what the loop for ReplicaSets does, what becomes of pods.
//
// Within one process the cache of pods shows what a ReplicaSet's status tells of
// pods, because the loop that writes the status reads the same cache. But that
// may have been another process.
type model struct {
	deployments     *latecache.Store[*appsv1.Deployment]
	replicaSets     *latecache.Store[*appsv1.ReplicaSet]
	pods            *latecache.Store[*corev1.Pod]
	deploymentCache *latecache.Informer[*appsv1.Deployment]
	replicaSetCache *latecache.Informer[*appsv1.ReplicaSet]
	podCache        *latecache.Informer[*corev1.Pod]
	loop            *Controller
	// recent counts the changes of ReplicaSets since a loop was first shown the
	// deployment's present spec, and since somebody resized one.
	recent *latecache.Informer[*appsv1.ReplicaSet]

	answers answers
	writes  int  // of the present sync
	behind  int  // how many changes of ReplicaSets its cache did not show
	unsure  bool // whether the answer to a write was lost that may not be in the cache
	named   int  // pods and ReplicaSets that were ever created

	trace []string
	state string // as in the last line of the trace
	// wrong is the first promise that the loop broke, and how is by what.
	wrong, how string
}

// answers is how the API server answers the writes of one sync.
type answers struct {
	how outcome
	// after is how many writes are done before anything else comes.
	after int
	// late says that the cache catches up before the first write is done.
	late bool
}

type outcome string

const (
	well    outcome = "all is done"
	refused outcome = "refused"
	unsure  outcome = "done, but the answer is lost"
	killed  outcome = "the process is killed"
)

func (a answers) String() string {
	text := string(a.how)
	if a.how != well && a.after > 0 {
		text = fmt.Sprintf("%d done, then %s", a.after, a.how)
	}
	if a.late {
		text += ", the cache catches up meanwhile"
	}
	return text
}

// newModel returns a cluster in which the deployment has just been created.
func newModel(t *rapid.T, d *appsv1.Deployment) *model {
	m := &model{
		deployments: latecache.NewStore[*appsv1.Deployment](appsv1.Resource("deployments")),
		replicaSets: latecache.NewStore[*appsv1.ReplicaSet](appsv1.Resource("replicasets")),
		pods:        latecache.NewStore[*corev1.Pod](corev1.Resource("pods")),
	}
	d.Status.Conditions = nil
	stored(m.deployments.Create(d))
	m.recent = latecache.NewInformer(m.replicaSets)
	m.start(t, 0)
	m.note("the deployment is created")
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
// ago. Of ReplicaSets these are recent ones: a process that is shown a new spec,
// but not what the one before it has written under the former, asks for more pods
// than may be, see showDeployment.
func (m *model) start(t *rapid.T, behind int) {
	m.specIsShown()
	unshown, _ := m.recent.Behind()
	m.deploymentCache, m.podCache = latecache.NewInformer(m.deployments), latecache.NewLateInformer(m.pods, behind)
	m.replicaSetCache = latecache.NewLateInformer(m.replicaSets, min(behind, unshown))
	client := &fake.Clientset{}
	client.AddReactor("*", "*", m.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&appsv1.Deployment{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.deploymentCache })
	factory.InformerFor(&appsv1.ReplicaSet{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.replicaSetCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.podCache })

	apps := factory.Apps().V1()
	c := NewDeploymentController(t.Context(), apps.Deployments(), apps.ReplicaSets(), factory.Core().V1().Pods(), client)
	original := *c
	t.Cleanup(func() { shutDown(&original) })
	c.events = &controller.Events{EventRecorder: &record.FakeRecorder{}}
	m.loop = c
}

// shutDown ends what the constructor began.
func shutDown(c *Controller) {
	ended, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	cancel()
	c.Run(ended, 0)
}

// sync is one round of the loop. It may come at any moment.
func (m *model) sync(t *rapid.T, answers answers) error {
	m.answers, m.writes = answers, 0
	m.behind, _ = m.replicaSetCache.Behind()
	err := m.loop.sync(t.Context(), cache.NewObjectName("ns", "web"))
	did := fmt.Sprintf("%d writes, %s", m.writes, answers)
	if m.writes == 0 {
		did = "no write"
	}
	m.note("the loop syncs: %s", did)
	if m.wrong != "" {
		m.fail(t, m.wrong, "%s", m.how)
	}
	return err
}

// answer is the API server.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	if get, ok := action.(clienttesting.GetActionImpl); ok {
		rs, err := m.replicaSets.Get(get.Name)
		return true, rs, err
	}
	stops := m.answers.how == refused || m.answers.how == killed
	if m.answers.how != well && m.writes > m.answers.after || stops && m.writes == m.answers.after {
		return true, nil, errors.New("refused")
	}
	m.writes++
	if m.answers.late {
		m.replicaSetCache.CatchUp()
	}
	before := m.size()
	obj, err := m.write(action)
	m.checkWrite(before)
	if m.answers.how == unsure && m.writes > m.answers.after {
		m.unsure = true
		return true, nil, apierrors.NewTimeoutError("request did not complete", 0)
	}
	return true, obj, err
}

func (m *model) write(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		rs := action.Object.(*appsv1.ReplicaSet)
		m.named++
		rs.Generation, rs.CreationTimestamp = 1, metav1.NewTime(noon.Add(time.Duration(m.named)*time.Second))
		return m.replicaSets.Create(rs)
	case clienttesting.DeleteActionImpl:
		return nil, m.deleteReplicaSet(action.Name, *action.DeleteOptions.Preconditions.ResourceVersion)
	case clienttesting.UpdateActionImpl:
		switch obj := action.Object.(type) {
		case *appsv1.ReplicaSet:
			return m.updateReplicaSet(obj)
		case *appsv1.Deployment: // its status, and its annotations with it
			d := stored(m.deployments.Get(obj.Name))
			obj.Spec = d.Spec
			return m.deployments.Update(obj)
		}
	}
	return nil, fmt.Errorf("the model knows no %v", action)
}

func (m *model) deleteReplicaSet(name, version string) error {
	rs, err := m.replicaSets.Get(name)
	if err != nil {
		return err
	}
	if rs.ResourceVersion != version {
		return apierrors.NewConflict(appsv1.Resource("replicasets"), name, errors.New("the object has been modified"))
	}
	if active, _ := split(m.podsOf(rs)); len(active) > 0 {
		m.wrong, m.how = "a ReplicaSet is deleted that has pods", versionOf(rs)
	}
	return m.replicaSets.Delete(name)
}

// updateReplicaSet leaves the status as it is, and counts changes of the spec.
func (m *model) updateReplicaSet(rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	there, err := m.replicaSets.Get(rs.Name)
	if err != nil {
		return nil, err
	}
	rs.Status = there.Status
	if !equality.Semantic.DeepEqual(rs.Spec, there.Spec) {
		rs.Generation++
	}
	return m.replicaSets.Update(rs)
}

// checkWrite wants no ReplicaSet to grow beyond what the deployment that the
// loop was shown allows them together, whatever their sizes were before, and
// no two of them to have one template. Nobody else takes names here, so there
// are no collisions.
func (m *model) checkWrite(before int32) {
	_, most := promised(m.deploymentCache.Cached()[0])
	if now := m.size(); now > before && now > most {
		m.wrong, m.how = "more pods are asked for than may be", fmt.Sprintf("%d, and before that %d; at most %d may be", now, before, most)
	}
	if collisions := m.deployment().Status.CollisionCount; collisions != nil {
		m.wrong, m.how = "a collision is counted where there was none", fmt.Sprintf("%d", *collisions)
	}
	all := m.replicaSets.List()
	for i, rs := range all {
		for _, other := range all[:i] {
			if sameTemplate(rs.Spec.Template, other.Spec.Template) {
				m.wrong, m.how = "two ReplicaSets have one template", fmt.Sprintf("%s and %s", rs.Name, other.Name)
			}
		}
	}
}

// size is what all ReplicaSets are to have together.
func (m *model) size() int32 { return sum(m.replicaSets.List(), size) }

// checkAvailable wants the pods of a rolling update that are promised. Those
// that somebody takes away are not the loop's doing.
func (m *model) checkAvailable(t *rapid.T) {
	now := count(m.pods.List(), isAvailable)
	if least, _ := promised(m.deployment()); now < least {
		m.fail(t, "fewer pods are available than were promised", "%d of %d", now, least)
	}
}

// checkOneVersion wants what Recreate is there for.
func (m *model) checkOneVersion(t *rapid.T) {
	versions := map[string]bool{}
	for _, rs := range m.replicaSets.List() {
		if len(m.podsOf(rs)) > 0 {
			versions[versionOf(rs)] = true
		}
	}
	if len(versions) > 1 {
		m.fail(t, "pods of two versions are there at a time", "%v", versions)
	}
}

// comeToRest lets everything happen until nothing does any more. In the worst case
// each round of the loop moves one pod of the rollout, twice: it makes room for
// it and it fills the room. A few rounds more go to what else there is to
// write.
func (m *model) comeToRest(t *rapid.T) {
	m.catchUp()
	bound := 2*int(m.size()+*m.deployment().Spec.Replicas) + 2*len(m.replicaSets.List()) + 8
	for rounds, moved := 0, true; moved; rounds++ {
		if rounds == bound {
			m.fail(t, "the rollout does not end", "after %d syncs", bound)
		}
		if err := m.sync(t, answers{how: well}); err != nil {
			m.fail(t, "a sync failed without need", "%v", err)
		}
		moved = m.writes > 0
		for _, rs := range m.replicaSets.List() {
			moved = m.syncReplicaSet(rs.Name) || moved
		}
		for _, pod := range m.pods.List() {
			moved = m.live(pod) || moved
		}
		for _, rs := range m.replicaSets.List() {
			moved = m.syncReplicaSet(rs.Name) || moved
		}
		m.catchUp()
	}
	m.checkDone(t)
	// What comes next does not depend on how it came to this.
	m.trace, m.state = nil, ""
	m.note("it is rolled out")
}

// checkDone wants exactly the pods that are asked for and a status that says
// so.
func (m *model) checkDone(t *rapid.T) {
	d, wanted := m.deployment(), *m.deployment().Spec.Replicas
	newRS, oldRSs := tellApart(d, m.replicaSets.List())
	condition := findCondition(d.Status, appsv1.DeploymentProgressing)
	switch {
	case newRS == nil || size(newRS) != wanted || sum(oldRSs, size) != 0:
		m.fail(t, "the loop rests before it is done", "sizes")
	case count(m.podsOf(newRS), isAvailable) != wanted || len(m.pods.List()) != int(wanted):
		m.fail(t, "the loop rests before it is done", "pods")
	case !complete(d, d.Status) || condition == nil || condition.Reason != reasonRolledOut:
		m.fail(t, "the status does not say that it is done", "%+v", d.Status)
	case d.Annotations[revisionAnnotation] != newRS.Annotations[revisionAnnotation]:
		m.fail(t, "the deployment has another revision than its ReplicaSet", "%s, %s", d.Annotations[revisionAnnotation], newRS.Annotations[revisionAnnotation])
	}
}

// specIsShown notes that a loop is now shown the deployment's spec.
func (m *model) specIsShown() {
	if m.deploymentCache == nil || m.deploymentCache.Cached()[0].Generation != m.deployment().Generation {
		m.recent.CatchUp()
	}
}

// catchUp shows the loop everything.
func (m *model) catchUp() {
	m.specIsShown()
	m.deploymentCache.CatchUp()
	m.replicaSetCache.CatchUp()
	m.podCache.CatchUp()
	m.note("the loop is shown everything")
}

// edit is what a user does to the deployment.
func (m *model) edit(change func(spec *appsv1.DeploymentSpec)) {
	d := m.deployment()
	if change(&d.Spec); !equality.Semantic.DeepEqual(d.Spec, m.deployment().Spec) {
		d.Generation++
	}
	stored(m.deployments.Update(d))
}

func (m *model) rollOut(version string) {
	m.edit(func(spec *appsv1.DeploymentSpec) { spec.Template = template(version) })
	m.note("the user rolls out %s", version)
}

func (m *model) scale(replicas int32) {
	m.edit(func(spec *appsv1.DeploymentSpec) { spec.Replicas = &replicas })
	m.note("the user scales to %d", replicas)
}

func (m *model) pause(paused bool) {
	m.edit(func(spec *appsv1.DeploymentSpec) { spec.Paused = paused })
	m.note("paused: %t", paused)
}

// resize is what somebody does to a ReplicaSet behind the deployment's back.
// The loop is shown it at once, and so is one of another process: for what it
// cannot know it cannot answer.
func (m *model) resize(rs *appsv1.ReplicaSet, replicas int32) {
	rs.Spec.Replicas = &replicas
	stored(m.updateReplicaSet(rs))
	m.replicaSetCache.CatchUp()
	m.recent.CatchUp()
	m.note("somebody resizes %s to %d", versionOf(rs), replicas)
}

// syncReplicaSet is what the loop for ReplicaSets does: it reports the pods that
// it has found, and makes up the number or deletes those that are not
// available first. It tells whether anything has changed.
func (m *model) syncReplicaSet(name string) bool {
	rs := stored(m.replicaSets.Get(name))
	active, terminating := split(m.podsOf(rs))
	available := count(active, isAvailable)
	rs.Status = appsv1.ReplicaSetStatus{
		ObservedGeneration: rs.Generation, Replicas: int32(len(active)),
		ReadyReplicas: available, AvailableReplicas: available, TerminatingReplicas: new(int32(len(terminating))),
	}
	for range int(size(rs)) - len(active) {
		m.named++
		stored(m.pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("%s-%03d", name, m.named), Labels: map[string]string{"version": versionOf(rs)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}}))
	}
	slices.SortStableFunc(active, func(a, b *corev1.Pod) int { return cmp.Compare(len(a.Status.Conditions), len(b.Status.Conditions)) })
	for _, pod := range active[:max(0, len(active)-int(size(rs)))] {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
		stored(m.pods.Update(pod))
	}
	moved := int(size(rs)) != len(active) || !equality.Semantic.DeepEqual(rs.Status, stored(m.replicaSets.Get(name)).Status)
	stored(m.replicaSets.Update(rs))
	m.note("the loop for ReplicaSets syncs %s", versionOf(rs))
	return moved
}

// live lets a pod start, or end when it is to end. Pods of the version that is
// broken do not start.
func (m *model) live(pod *corev1.Pod) bool {
	version := pod.Labels["version"]
	switch {
	case pod.DeletionTimestamp != nil:
		stored(pod, m.pods.Delete(pod.Name))
		m.note("a pod of %s ends", version)
	case !isAvailable(pod) && version != broken:
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		stored(m.pods.Update(pod))
		m.note("a pod of %s starts", version)
	default:
		return false
	}
	return true
}

// broken is a version whose pods never become available.
const broken = "vX"

func (m *model) deployment() *appsv1.Deployment { return stored(m.deployments.Get("web")) }

// podsOf returns the pods of a ReplicaSet.
func (m *model) podsOf(rs *appsv1.ReplicaSet) []*corev1.Pod {
	return slices.DeleteFunc(m.pods.List(), func(pod *corev1.Pod) bool { return !metav1.IsControlledBy(pod, rs) })
}

func count(pods []*corev1.Pod, is func(*corev1.Pod) bool) (n int32) {
	for _, pod := range pods {
		if is(pod) {
			n++
		}
	}
	return n
}

func isAvailable(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && len(pod.Status.Conditions) > 0
}

// split tells the pods that are being deleted from the others.
func split(pods []*corev1.Pod) (active, terminating []*corev1.Pod) {
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			terminating = append(terminating, pod)
		} else {
			active = append(active, pod)
		}
	}
	return active, terminating
}

// note adds a line to the trace: what has happened, and how things are now.
// What has changed nothing that the table shows is left out.
func (m *model) note(format string, args ...any) {
	var server, cached []string
	for _, rs := range m.replicaSets.List() {
		active, terminating := split(m.podsOf(rs))
		available := count(active, isAvailable)
		server = append(server, fmt.Sprintf("%s=%d(%da %dn %dt)", versionOf(rs), size(rs), available, len(active)-int(available), len(terminating)))
	}
	for _, rs := range m.replicaSetCache.Cached() {
		cached = append(cached, fmt.Sprintf("%s=%d(%d/%da)", versionOf(rs), size(rs), rs.Status.AvailableReplicas, rs.Status.Replicas))
	}
	if unshown, _ := m.podCache.Behind(); unshown > 0 {
		cached = append(cached, fmt.Sprintf("~%d changes of pods not shown", unshown))
	}
	slices.Sort(server)
	slices.Sort(cached)
	state := strings.Join([]string{
		wants(m.deployment()), cmp.Or(strings.Join(server, " "), "-"),
		wants(m.deploymentCache.Cached()[0]), cmp.Or(strings.Join(cached, " "), "-"),
	}, "\t")
	if state != m.state {
		m.trace = append(m.trace, fmt.Sprintf(format, args...)+"\t"+state)
	}
	m.state = state
}

func wants(d *appsv1.Deployment) string {
	text := fmt.Sprintf("%d of %s", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image[len("web:"):])
	if d.Spec.Paused {
		text += ", paused"
	}
	return text
}

// fail says which promise was broken, how, and what led to it: in a sentence and
// then step by step. The promise alone is the failure, because rapid makes a
// case smaller only as long as it fails for the same reason, which it tells by
// the text.
func (m *model) fail(t *rapid.T, promise, how string, args ...any) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tserver\t\tcache")
	fmt.Fprintln(table, "step\twanted\tReplicaSets\twanted\tReplicaSets")
	fmt.Fprintln(table, strings.Join(m.trace, "\n"))
	table.Flush()
	d := m.deployment()
	least, most := promised(d)
	late := ""
	if m.behind > 0 {
		late = fmt.Sprintf(", after a sync in which the loop's cache was %d changes behind", m.behind)
	}
	t.Logf("%s: %s%s\n\n%s, %d to %d pods\n%s\nversion=size(pods: a available, n not available, t terminating), in the cache (available/all that the status tells of)",
		promise, fmt.Sprintf(how, args...), late, d.Spec.Strategy.Type, least, most, text.String())
	t.Fatal(promise)
}
