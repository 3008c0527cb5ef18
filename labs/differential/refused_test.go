package differential

//lint:file-ignore SA1019 Endpoints are deprecated, and two of the loops are about them.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/cronjob"
	"github.com/kcm-book/kcm-book/kcm/controller/daemon"
	"github.com/kcm-book/kcm-book/kcm/controller/endpoint"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslicemirroring"
	"github.com/kcm-book/kcm-book/kcm/controller/job"
)

// TestKcmWritesNothingThatTheAPIServerRefuses has users, kubelets and nodes do whatever the API server lets them, often several
// things before a loop looks. What the loops then write it has to take.
func TestKcmWritesNothingThatTheAPIServerRefuses(t *testing.T) {
	for about := range deedsAbout {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			for n := *seed; n < *seed+*runs; n++ {
				if deeds := randomDeeds(about, n); refusedAfter(t, deeds) != "" {
					deeds = reduce(deeds, func(fewer []deed) bool { return refusedAfter(t, fewer) != "" })
					t.Fatalf("kcm wrote what the API server refuses: %s\nagain: make prove-memory ARGS='-runs 1 -seed %d'", refusedAfter(t, deeds), n)
				}
			}
		})
	}
}

// A loop that writes what it may not is found, whatever it writes.
func TestWhatTheAPIServerRefusesIsFound(t *testing.T) {
	for _, wrong := range []struct {
		about, refusal string
		change         func(client *fake.Clientset)
	}{
		{"Jobs", "startTime: Required value", change("update", "jobs", func(job *batchv1.Job) { job.Status.StartTime = nil })},
		{"Jobs", "more ready pods than active", change("update", "jobs", func(job *batchv1.Job) { *job.Status.Ready = job.Status.Active + 1 })},
		{"Jobs", "finalizers", change("create", "pods", func(pod *corev1.Pod) { pod.Finalizers = []string{"no name"} })},
		{"CronJobs", "parallelism", change("create", "jobs", func(job *batchv1.Job) { job.Spec.Parallelism = new(int32(-1)) })},
		{"DaemonSets", "numberReady", change("update", "daemonsets", func(set *appsv1.DaemonSet) { set.Status.NumberReady = -1 })},
		{"DaemonSets", "data: Invalid value", change("update", "controllerrevisions", func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") })},
		{"Services", "port: Invalid value", change("update", "endpoints", func(e *corev1.Endpoints) {
			for _, subset := range e.Subsets {
				subset.Ports[0].Port = 0
			}
		})},
		{"Services", "Duplicate value", change("create", "endpointslices", func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports...) })},
	} {
		t.Run(wrong.refusal, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(200) {
				if told := refusedAfter(t, randomDeeds(wrong.about, n), wrong.change); told != "" {
					assert.Contains(t, told, wrong.refusal)
					return
				}
			}
			t.Fatal("it was not found in 200 runs")
		})
	}
}

// refusedAfter tells what the API server refused after deeds, and what had been done until then, or nothing.
func refusedAfter(t *testing.T, deeds []deed, wrong ...func(client *fake.Clientset)) (told string) {
	synctest.Test(t, func(*testing.T) {
		c := &cluster{Clientset: fake.NewSimpleClientset()}
		c.PrependReactor("*", "*", c.answer)
		for _, change := range wrong {
			change(c.Clientset)
		}
		c.start()
		for _, d := range slices.Concat(deeds, []deed{deny(""), pass(10 * time.Minute)}) {
			told += "\n  " + d.what
			if d.do(c); c.refused != "" {
				break
			}
		}
		if told = c.refused + ", after:" + told; c.refused == "" {
			told = ""
		}
		c.stop()
	})
	return told
}

// cluster is an API server that validates as the original's does, with kcm's loops.
type cluster struct {
	*fake.Clientset
	version   int
	denied    string // what a policy keeps loops from writing, as "update jobs/status"
	informers []*relisting
	queues    []workQueue
	stop      func()
	refused   string // what a loop has written that is invalid
}

// maxEndpoints is how many endpoints a slice may have: few, so that it matters.
const maxEndpoints = 3

// start starts the loops with empty memories.
func (c *cluster) start() {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	factory := informers.NewSharedInformerFactory(c, 0)
	c.informers, c.queues = nil, nil
	for _, obj := range []object{&batchv1.Job{}, &batchv1.CronJob{}, &appsv1.DaemonSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{}, &corev1.Node{},
		&corev1.Service{}, &corev1.Endpoints{}, &discoveryv1.EndpointSlice{}} {
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		informer := &relisting{SharedIndexInformer: cache.NewSharedIndexInformer(nil, obj, 0, byNamespace), of: obj}
		c.informers = append(c.informers, informer)
		factory.InformerFor(obj, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	apps, batch, core, slices := factory.Apps().V1(), factory.Batch().V1(), factory.Core().V1(), factory.Discovery().V1().EndpointSlices()
	pods, services, nodes := core.Pods(), core.Services(), core.Nodes()
	var running sync.WaitGroup
	for _, l := range []loop{
		job.NewController(ctx, c, pods, batch.Jobs()),
		cronjob.NewController(ctx, batch.Jobs(), batch.CronJobs(), c),
		daemon.New(ctx, apps.DaemonSets(), apps.ControllerRevisions(), pods, nodes, c, flowcontrol.NewBackOff(time.Second, time.Minute)),
		endpoint.NewEndpointController(ctx, pods, services, core.Endpoints(), c, 0),
		endpointslice.NewController(ctx, pods, services, nodes, slices, maxEndpoints, c, 0),
		endpointslicemirroring.NewController(ctx, core.Endpoints(), slices, services, maxEndpoints, c, 0),
	} {
		(*field[*controller.Events](l, "events")).EventRecorder = &record.FakeRecorder{}
		c.queues = append(c.queues, replaceQueue[cache.ObjectName](*field[*controller.Loop[cache.ObjectName]](l, "loop"), 0))
		running.Go(func() { l.Run(ctx, 1) })
	}
	c.stop = func() { cancel(); running.Wait() }
}

// run lets the loops work for a while. Caches show all there is whenever a loop begins to sync.
func (c *cluster) run(period time.Duration) {
	end := time.Now().Add(period)
	for range enough {
		for _, informer := range c.informers {
			informer.show(c.list(informer.of), c.version)
		}
		if slices.ContainsFunc(c.queues, workQueue.sync) && c.refused == "" {
			continue
		}
		next := end
		for _, q := range c.queues {
			next = earlier(q.next(), next)
		}
		if time.Sleep(time.Until(next)); next == end || c.refused != "" {
			return
		}
	}
}

// relisting is an informer whose watch breaks all the time: of several changes of an object it tells as of one.
type relisting struct {
	cache.SharedIndexInformer // never run: it holds the cache
	of                        runtime.Object
	handlers                  []cache.ResourceEventHandler
}

// AddEventHandler keeps the handler for show.
func (i *relisting) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return listed{}, nil
}

// HasSynced is true: nothing is synced before show.
func (i *relisting) HasSynced() bool { return true }

// GetIndexer returns an index that gives out objects in the order of their names.
func (i *relisting) GetIndexer() cache.Indexer { return inOrder{i.SharedIndexInformer.GetIndexer()} }

// show fills the cache and tells the handlers what is new.
func (i *relisting) show(now []any, version int) {
	before, gone := map[string]object{}, sorted(i.GetStore().List())
	for _, old := range gone {
		before[old.(object).GetName()] = old.(object)
	}
	if err := i.GetStore().Replace(now, strconv.Itoa(version)); err != nil {
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

// answer is the answer to a loop's request.
func (c *cluster) answer(action clienttesting.Action) (handled bool, obj runtime.Object, err error) {
	what := strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	if what == c.denied {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New("a policy keeps it as it is"))
	}
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		obj, err = c.write(action.Subresource, action.Object.(object))
	case clienttesting.UpdateActionImpl:
		obj, err = c.write(action.Subresource, action.Object.(object))
	case clienttesting.PatchActionImpl:
		if obj, err = c.Tracker().Get(action.Resource, action.Namespace, action.Name); err == nil {
			obj, err = patched(obj.(object), action.Patch)
		}
		if err == nil {
			obj, err = c.write(action.Subresource, obj.(object))
		}
	case clienttesting.DeleteActionImpl:
		err = c.remove(action.Resource, action.Namespace, action.Name)
	default:
		return false, nil, nil // reads the store
	}
	if apierrors.IsInvalid(err) && c.refused == "" {
		c.refused = what + ": " + err.Error()
	}
	return true, obj, err
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
		return nil, apierrors.NewConflict(resource.GroupResource(), obj.GetName(), errors.New("the object has been modified"))
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
func (c *cluster) remove(resource schema.GroupVersionResource, namespace, name string) error {
	found, err := c.Tracker().Get(resource, namespace, name)
	if err != nil {
		return err
	}
	obj := found.(object)
	if mayGo(obj) {
		return c.Tracker().Delete(resource, namespace, name)
	}
	c.version++
	obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Truncate(time.Second)})
	obj.SetDeletionGracePeriodSeconds(new(int64(30)))
	obj.SetResourceVersion(strconv.Itoa(c.version))
	return c.Tracker().Update(resource, obj, namespace)
}

// mayGo tells whether nothing holds an object: no finalizer, and of a pod no kubelet.
func mayGo(obj object) bool {
	pod, isPod := obj.(*corev1.Pod)
	runs := isPod && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
	return len(obj.GetFinalizers()) == 0 && !runs
}

// deed is what users, kubelets, nodes and time do.
type deed struct {
	what string
	do   func(c *cluster)
}

// deedsAbout are what may happen to objects of a kind. The first makes one.
var deedsAbout = map[string][]func(r *rand.Rand) deed{
	"Jobs": {someJob, editJob, editJob, ofPod, ofPod, ofPod, ofPod, strayPod(batchv1.ControllerUidLabel, "uid-1"),
		around("update jobs/status")},
	"CronJobs": {someCronJob, editJob, ofPod, around("update cronjobs/status", "create jobs"), around()},
	"DaemonSets": {someDaemonSet, ofNode, ofNode, ofPod, ofPod, strayPod("app", "web"),
		around("update daemonsets/status", "create controllerrevisions")},
	"Services": {someService, someEndpoints, someSlice, ofNode, ofPod, ofPod, strayPod("app", "web"), strayPod("app", "web"),
		around("update endpoints", "create endpointslices")},
}

// randomDeeds draws deeds about a kind. After about every second the loops look.
func randomDeeds(about string, n uint64) []deed {
	r, some := rand.New(rand.NewPCG(n, 0)), deedsAbout[about]
	deeds := []deed{some[0](r)}
	for range length {
		if deeds = append(deeds, pick(r, some...)(r)); r.IntN(2) == 0 {
			deeds = append(deeds, deed{"the loops look", func(c *cluster) { c.run(0) }})
		}
	}
	return deeds
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// orNil draws a value, or nil.
func orNil[T any](r *rand.Rand, values ...T) *T { return pick(r, nil, new(pick(r, values...))) }

// several draws less than a number of things.
func several[T any](r *rand.Rand, below int, one func() T) (all []T) {
	for range r.IntN(below) {
		all = append(all, one())
	}
	return all
}

// around draws what surrounds the loops that make some writes.
func around(writes ...string) func(r *rand.Rand) deed {
	return func(r *rand.Rand) deed {
		restart := deed{"another manager leads", func(c *cluster) { c.stop(); c.start() }}
		denied := pick(r, append(writes, "", "patch pods", "create pods", "delete pods")...)
		return pick(r, pass(pick(r, time.Second, 10*time.Second, 2*time.Minute)), deny(denied), deny(""), restart)
	}
}

func pass(period time.Duration) deed {
	return deed{fmt.Sprintf("%v pass", period), func(c *cluster) { c.run(period) }}
}

func deny(what string) deed {
	return deed{fmt.Sprintf("denied is %q", what), func(c *cluster) { c.denied = what }}
}

// put has a user write an object in the place of the one that is there.
func put(obj object) deed {
	return deed{fmt.Sprintf("put %s %s", resourceOf(obj).Resource, done(json.Marshal(obj))), func(c *cluster) {
		obj.SetUID("")
		if there, err := c.Tracker().Get(resourceOf(obj), obj.GetNamespace(), obj.GetName()); err == nil {
			obj.SetUID(there.(object).GetUID())
		}
		c.write("", obj)
	}}
}

// named draws metadata. Labels and annotations may be those that loops go by.
func named(r *rand.Rand, name string) metav1.ObjectMeta {
	labels := map[string]string{}
	for range r.IntN(3) {
		key := pick(r, "app", corev1.IsHeadlessService, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, corev1.AnnotationTopologyMode)
		labels[key] = pick(r, "", "web", "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io", "Auto")
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: maps.Clone(labels)}
}

func someJobSpec(r *rand.Rand) batchv1.JobSpec {
	spec := batchv1.JobSpec{
		Parallelism: orNil[int32](r, 0, 1, 2, 3, 5), Completions: orNil[int32](r, 0, 1, 2, 3, 5), BackoffLimit: orNil[int32](r, 0, 1, 3),
		ActiveDeadlineSeconds: pick(r, nil, nil, nil, new(int64(1)), new(int64(90))), Suspend: pick(r, nil, nil, new(true), new(false)),
		Template: template("job", "job:v1"), PodReplacementPolicy: orNil(r, batchv1.Failed, batchv1.TerminatingOrFailed),
	}
	spec.Template.Spec.RestartPolicy = pick[corev1.RestartPolicy](r, "Never", "Never", "OnFailure")
	actions := []batchv1.PodFailurePolicyAction{"FailJob", "Ignore", "Count"}
	if r.IntN(3) > 0 {
		spec.CompletionMode, spec.Completions = new(batchv1.IndexedCompletion), new(int32(r.IntN(6)))
		spec.Parallelism = pick(r, spec.Parallelism, spec.Completions)
		if spec.BackoffLimitPerIndex = orNil[int32](r, 0, 1); spec.BackoffLimitPerIndex != nil {
			spec.MaxFailedIndexes, spec.BackoffLimit, actions = orNil[int32](r, 0, 1), nil, append(actions, "FailIndex")
		}
		rules := []batchv1.SuccessPolicyRule{{SucceededIndexes: pick(r, new("0"), new("0-1")), SucceededCount: orNil[int32](r, 0, 1, 2)}}
		spec.SuccessPolicy = pick(r, nil, nil, &batchv1.SuccessPolicy{Rules: rules})
	}
	if r.IntN(2) == 0 {
		spec.Template.Spec.RestartPolicy, spec.PodReplacementPolicy = corev1.RestartPolicyNever, nil
		exit := &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{3, 4}}
		spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: pick(r, actions...), OnExitCodes: exit}}}
	}
	return spec
}

func someJob(r *rand.Rand) deed {
	return put(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"}, Spec: someJobSpec(r)})
}

// editJob is what may be changed of a Job. It may also go.
func editJob(r *rand.Rand) deed {
	what, n := pick(r, "parallelism", "indexes", "indexes", "suspension", "limits", "deadline", "end"), int32(r.IntN(6))
	return deed{fmt.Sprintf("the %s of a Job: %d", what, n), func(c *cluster) {
		all := c.list(&batchv1.Job{})
		if len(all) == 0 {
			return
		}
		switch job := all[0].(*batchv1.Job); what {
		case "parallelism":
			job.Spec.Parallelism = &n
		case "indexes":
			job.Spec.Parallelism, job.Spec.Completions = &n, &n
		case "suspension":
			job.Spec.Suspend = new(n%2 == 0)
		case "limits":
			job.Spec.BackoffLimit, job.Spec.MaxFailedIndexes = &n, new(n/2)
		case "deadline":
			job.Spec.ActiveDeadlineSeconds = new(int64(n * 30))
		case "end":
			c.remove(resourceOf(job), namespace, job.Name)
		}
		c.write("", all[0].(object))
	}}
}

func someCronJob(r *rand.Rand) deed {
	cron := &batchv1.CronJob{ObjectMeta: named(r, pick(r, "cron", strings.Repeat("c", 52)))}
	cron.Spec = batchv1.CronJobSpec{
		Schedule: pick(r, "* * * * *", "@every 90s", "*/5 * * * *"), ConcurrencyPolicy: pick[batchv1.ConcurrencyPolicy](r, "Allow", "Forbid", "Replace"),
		TimeZone: orNil(r, "Etc/UTC", "Asia/Kathmandu"), Suspend: orNil(r, true, false), StartingDeadlineSeconds: orNil[int64](r, 0, 30, 200),
		FailedJobsHistoryLimit: orNil[int32](r, 0, 1), JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: named(r, ""), Spec: someJobSpec(r)},
	}
	cron.Spec.JobTemplate.Namespace, cron.Spec.JobTemplate.Finalizers = "", pick(r, nil, []string{"example.com/held"})
	return put(cron)
}

func someDaemonSet(r *rand.Rand) deed {
	set := &appsv1.DaemonSet{ObjectMeta: named(r, "agent")}
	set.Spec.Selector, set.Spec.Template = metav1.SetAsLabelSelector(map[string]string{"app": "web"}), template("web", pick(r, "web:v1", "web:v2", "web:v3"))
	set.Spec.MinReadySeconds, set.Spec.RevisionHistoryLimit = int32(r.IntN(5)), orNil[int32](r, 0, 1, 2)
	surge, unavailable := orNil(r, intstr.FromInt32(0), intstr.FromString("50%")), orNil(r, intstr.FromInt32(0), intstr.FromInt32(2))
	set.Spec.UpdateStrategy = pick(r, appsv1.DaemonSetUpdateStrategy{Type: "OnDelete"},
		appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: surge, MaxUnavailable: unavailable}})
	if r.IntN(4) == 0 {
		set.Name, set.Spec.Template.Labels = "unlabelled", nil
		without := metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{without}}
	}
	return put(set)
}

func ofNode(r *rand.Rand) deed {
	zone := map[string]string{corev1.LabelTopologyZone: pick(r, "", "a", "b")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", r.IntN(3)), Labels: zone}}
	node.Spec.Unschedulable, node.Spec.Taints = r.IntN(2) == 0, pick(r, nil, nil, []corev1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}})
	return pick(r, put(node), put(node), put(node), deed{node.Name + " goes", func(c *cluster) { c.remove(resourceOf(node), "", node.Name) }})
}

func protocol(r *rand.Rand) corev1.Protocol { return pick[corev1.Protocol](r, "TCP", "UDP", "SCTP") }

func address(r *rand.Rand) string {
	return pick(r, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "fd00::1", "fd00::2")
}

// strayPod draws a pod that a user makes, with a label for which a loop may take it for its own.
func strayPod(label, value string) func(r *rand.Rand) deed {
	return func(r *rand.Rand) deed {
		pod := &corev1.Pod{ObjectMeta: named(r, fmt.Sprint("stray-", r.IntN(6))), Spec: template("web", "web:v1").Spec}
		pod.Labels[label], pod.Annotations[batchv1.JobCompletionIndexAnnotation] = value, pick(r, "0", "1", "-1", "01", "9")
		pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.NodeName = pick(r, "", "host"), pick(r, "", "svc", "other"), pick(r, "", "node-0", "node-9")
		pod.Spec.Containers[0].Ports = several(r, 3, func() corev1.ContainerPort {
			return corev1.ContainerPort{Name: pick(r, "", "http", "dns"), ContainerPort: 80 + int32(r.IntN(3)), Protocol: protocol(r)}
		})
		return put(pod)
	}
}

// ofPod is what kubelets and users do to a pod.
func ofPod(r *rand.Rand) deed {
	what := pick(r, "start", "start", "run unbound", "succeed", "succeed", "fail", "fail", "evict", "delete", "unlabel", "label", "release", "reindex")
	n, ips := r.IntN(10), []corev1.PodIP{{IP: address(r)}, {IP: address(r)}}[:1+r.IntN(2)]
	return deed{fmt.Sprintf("%s pod %d %v", what, n, ips), func(c *cluster) {
		var pods []*corev1.Pod
		for _, obj := range c.list(&corev1.Pod{}) {
			pods = append(pods, obj.(*corev1.Pod))
		}
		if sortByLooks(pods); len(pods) > 0 {
			c.change(pods[n%len(pods)], what, n, ips)
		}
	}}
}

func (c *cluster) change(pod *corev1.Pod, what string, n int, ips []corev1.PodIP) {
	subresource := ""
	switch what {
	case "start", "run unbound":
		if what == "start" {
			pod.Spec.NodeName = cmp.Or(pod.Spec.NodeName, "node-0")
			done(pod, c.Tracker().Update(resourceOf(pod), pod, namespace))
		}
		subresource, pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = "status", corev1.PodRunning, ips[0].IP, ips
		setReady(pod, corev1.ConditionTrue)
	case "succeed":
		fail(pod, corev1.PodSucceeded)
		subresource = "status"
	case "fail", "evict":
		fail(pod, corev1.PodFailed)
		subresource, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode = "status", int32(n)
		evicted := map[string]corev1.ConditionStatus{"fail": "False", "evict": "True"}[what]
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: evicted}}
	case "delete":
		c.remove(resourceOf(pod), namespace, pod.Name)
		return
	case "unlabel":
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "had", string(done(json.Marshal(pod.Labels))))
		pod.Labels = nil
	case "label":
		_ = json.Unmarshal([]byte(pod.Annotations["had"]), &pod.Labels) // or it has them
	case "release":
		pod.Finalizers = nil
	case "reindex":
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(n))
	}
	c.write(subresource, pod)
}

func someService(r *rand.Rand) deed {
	service := &corev1.Service{ObjectMeta: named(r, "svc"), Spec: corev1.ServiceSpec{
		Selector: pick(r, nil, map[string]string{"app": "web"}, map[string]string{"app": "web"}), PublishNotReadyAddresses: r.IntN(2) == 0,
		IPFamilies:     pick(r, []corev1.IPFamily{"IPv4"}, []corev1.IPFamily{"IPv6"}, []corev1.IPFamily{"IPv4", "IPv6"}),
		IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack), TrafficDistribution: orNil(r, "PreferClose", "PreferSameNode"),
	}}
	service.Spec.Ports = several(r, 4, func() corev1.ServicePort {
		target := pick(r, intstr.FromInt32(80), intstr.FromInt32(81), intstr.FromString("http"), intstr.FromString("dns"))
		name, application := pick(r, "", "http", "dns"), orNil(r, "example.com/x")
		return corev1.ServicePort{Name: name, Port: 80 + int32(r.IntN(3)), TargetPort: target, Protocol: protocol(r), AppProtocol: application}
	})
	for _, family := range service.Spec.IPFamilies {
		service.Spec.ClusterIPs = append(service.Spec.ClusterIPs, map[corev1.IPFamily]string{"IPv4": "10.1.0.1", "IPv6": "fd01::1"}[family])
	}
	service.Spec.ClusterIPs = pick(r, service.Spec.ClusterIPs, []string{corev1.ClusterIPNone})
	service.Spec.ClusterIP = service.Spec.ClusterIPs[0]
	if r.IntN(6) == 0 {
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Selector: service.Spec.Selector}
	}
	return put(service)
}

func someEndpoints(r *rand.Rand) deed {
	one := func() corev1.EndpointAddress {
		return corev1.EndpointAddress{IP: address(r), Hostname: pick(r, "", "host"), NodeName: orNil(r, "node-0")}
	}
	port := func() corev1.EndpointPort {
		return corev1.EndpointPort{Name: pick(r, "", "http", "dns"), Port: 80 + int32(r.IntN(2)), Protocol: protocol(r)}
	}
	return put(&corev1.Endpoints{ObjectMeta: named(r, "svc"), Subsets: several(r, 4, func() corev1.EndpointSubset {
		return corev1.EndpointSubset{Addresses: several(r, 6, one), NotReadyAddresses: several(r, 3, one), Ports: several(r, 4, port)}
	})})
}

// someSlice draws a slice that a user writes where a loop may take it for its own.
func someSlice(r *rand.Rand) deed {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: named(r, fmt.Sprint("slice-", r.IntN(2)))}
	slice.AddressType = pick[discoveryv1.AddressType](r, "IPv4", "IPv6", "FQDN")
	slice.Labels[discoveryv1.LabelServiceName] = "svc"
	slice.Endpoints = several(r, 4, func() discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{pick(r, address(r), "example.com")}, Hostname: orNil(r, "host")}
	})
	return put(slice)
}
