package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// bigReplicas are the pods of the one big Deployment.
const bigReplicas = 1000

// limit: a plain client creates as many pods without a controller manager. No controller can be faster on
// this cluster.
func limit(t *trial) {
	t.createNamespaces("limit")
	t.measure("1000 pods by a plain client, without a controller manager", 0, func() {
		inParallel(bigReplicas, manyClients, func(i int) { t.create(newPod("limit", numbered(i))) })
	}, marks{"all created": t.when("limit", tally{existing: bigReplicas})})
}

// warmUp starts a replica, and returns when its loops have done something.
func (t *trial) warmUp() {
	t.createNamespaces("warm")
	t.create(newDeployment("warm", "web", 1))
	t.lead()
	t.await(t.when("warm", tally{complete: 1}))
}

// load: one big Deployment comes, is rolled out and goes, and then come many small ones, each when the one
// before has come to rest.
//
// That pods exist or are Ready is told by themselves and not by the status of the Deployment. CPU and
// requests for each pod are those until the Deployment is complete, and memory is what is taken then.
func load(t *trial) {
	t.createNamespaces("big", "many")
	t.warmUp()
	t.measure("the load", 1, func() {
		t.createPods("1000-pod Deployment", "big", bigReplicas)
		t.measure("its rolling update", bigReplicas,
			func() { t.patch(newDeployment("big", "web", bigReplicas), withImage("web:2")) },
			marks{"complete": t.when("big", tally{complete + "web:2": 1})})
		t.await(t.when("big", tally{existing: bigReplicas})) // the last of the old pods may still be going
		t.measure("its scaling to zero", bigReplicas,
			func() { t.patch(newDeployment("big", "web", 0), `{"spec":{"replicas":0}}`) },
			marks{"all pods gone": t.when("big", tally{existing: 0})})
		t.await(t.when("big", tally{complete: 1}))
		t.measure("200 Deployments of 10", 200*10, func() { t.createDeployments("many", 200, 10) },
			rolledOut(t, "many", 200, 200*10))
	}, nil)
}

// whole: the original as people run it. Most of its loops have nothing to do here, but their caches are filled.
func whole(t *trial) {
	t.flags = append(t.flags, loops("*"))
	t.createNamespaces("big")
	t.warmUp()
	t.createPods("1000-pod Deployment, the original with all its loops", "big", bigReplicas)
}

func (t *trial) createPods(name, namespace string, n int) {
	t.measure(name, n, func() { t.create(newDeployment(namespace, "web", n)) }, rolledOut(t, namespace, 1, n))
}

func rolledOut(t *trial, namespace string, deployments, pods int) marks {
	return marks{
		"all pods created": t.when(namespace, tally{existing: pods}),
		"all pods ready":   t.when(namespace, tally{existing: pods, ready: pods}),
		"complete":         t.when(namespace, tally{complete: deployments}),
	}
}

func failOver(t *trial) {
	t.createNamespaces("clean", "killed")
	t.warmUp()
	t.failOver(syscall.SIGTERM, "clean", "failover, leader asked to stop")
	t.failOver(syscall.SIGKILL, "killed", "failover, leader killed")
}

// failOver measures from the signal to the leader until another replica has created the pod of a Deployment
// that was created when the leader's process had ended, so nobody else can have done it. The other replica
// waits for the Lease, whose times are the default ones.
func (t *trial) failOver(signal syscall.Signal, namespace, name string) {
	successor := t.start(t.program, t.flags...)
	// It has a look at the Lease meanwhile. Starting has cost CPU time, which is not to be part of what is
	// measured next.
	time.Sleep(10 * time.Second)
	t.measure(name, 0, func() {
		t.end(signal)
		t.leader = successor
		t.create(newDeployment(namespace, "web", 1))
	}, marks{"another replica works": t.when(namespace, tally{existing: 1})})
}

// growing are the Deployments that are rolled out at the same time, each as often as rolloutsOfEach.
const growing, rolloutsOfEach = 10, 10

// grow rolls out the same Deployments among more and more neighbours, which have no pods and ten old
// ReplicaSets each. These are created while no controller manager runs, which would look at all of them after
// each. Time is that of 100 rollouts, ten at the same time, each until its status is complete.
func grow(t *trial) {
	t.createNamespaces("growth")
	t.createDeployments("growth", growing, 1)
	there := 0
	for _, n := range []int{200, 1000, 2000} {
		inParallel(n-there, manyClients, func(i int) { t.createNeighbour(fmt.Sprintf("neighbour-%04d", there+i)) })
		there = n
		seen := t.when("growth", tally{complete: growing + n})
		t.lead()
		t.await(seen)
		// The first rollout of each is not counted: it comes to its end when the queues, which are full after
		// the start, have been worked off.
		t.rollOut(1)
		t.measure(fmt.Sprintf("rollouts among %d Deployments", n), growing*rolloutsOfEach,
			func() { t.rollOut(rolloutsOfEach) }, nil)
		t.end(syscall.SIGTERM)
	}
}

// createNeighbour creates a Deployment without pods, and ten old ReplicaSets.
func (t *trial) createNeighbour(name string) {
	owner := metav1.NewControllerRef(t.create(newDeployment("growth", name, 0)),
		appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for i := range 10 {
		labels := map[string]string{"app": name, appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint(i)}
		rs := &appsv1.ReplicaSet{ObjectMeta: named("growth", fmt.Sprintf("%s-%d", name, i)), Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: newTemplate(name),
		}}
		rs.Labels, rs.Spec.Template.Labels, rs.OwnerReferences = labels, labels, []metav1.OwnerReference{*owner}
		rs.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:old-%d", i)
		t.create(rs)
	}
}

// rollOut updates each of the Deployments as often as it is told, one version after the other.
func (t *trial) rollOut(times int) {
	inParallel(growing, growing, func(i int) {
		for range times {
			image := fmt.Sprintf("web:%d-%d", i, time.Now().UnixNano())
			rolledOut := t.when("growth", tally{complete + image: 1})
			t.patch(newDeployment("growth", numbered(i), 1), withImage(image))
			t.await(rolledOut)
		}
	})
}

// recount: a quota of pods, CPU and memory comes over pods that no scheduler takes, until its status says how
// many there are; then some are deleted, one after the other, each until the status says one less. CPU has in
// it what the other loops do about a pod that goes.
func recount(t *trial) {
	const pods, recounts = 10_000, 100
	t.createNamespaces("quota")
	t.lead()
	inParallel(pods, manyClients, func(i int) { t.create(limitedPod(i)) })
	quota := &corev1.ResourceQuota{ObjectMeta: named("quota", "limit"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("20k"),
			corev1.ResourceRequestsCPU: resource.MustParse("20k"), corev1.ResourceLimitsMemory: resource.MustParse("20Ti")},
	}}
	t.measure("quota over 10,000 pods", 1, func() { t.create(quota) },
		marks{"counted": t.when("quota", tally{limited: pods})})
	t.measure("100 of them go, one after the other", recounts, func() {
		for i := range recounts {
			counted := t.when("quota", tally{limited: pods - i - 1})
			t.delete(limitedPod(i))
			t.await(counted)
		}
	}, nil)
}

// limitedPod returns one that no scheduler takes, so that nothing but the quota has to do with it.
func limitedPod(i int) *corev1.Pod {
	pod := newPod("quota", numbered(i))
	pod.Labels, pod.Spec.SchedulingGates = nil, []corev1.PodSchedulingGate{{Name: "kcm-book.io/never"}}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
	return pod
}

// daemonNodes are the nodes that one DaemonSet is about.
const daemonNodes = 1000

// daemons: a DaemonSet of many nodes, beside 100 others that want nodes which are not there, from its creation until
// all its pods are Ready. Then all nodes get a label that nobody asks for, until a DaemonSet that was created
// afterwards has its pod. Then they lose the label that brought the pods, until the last pod is gone.
func daemons(t *trial) {
	t.createNamespaces("daemons", "others")
	inParallel(daemonNodes, manyClients, func(i int) { t.create(daemonNode(i)) })
	inParallel(100, fewClients, func(i int) {
		t.createDaemonSet("others", fmt.Sprint("idle-", i), fmt.Sprint("idle-", i))
	})
	t.lead()
	t.awaitMarker(1)
	t.measure("DaemonSet of 1000 nodes", daemonNodes, func() { t.createDaemonSet("daemons", "agent", "agent") },
		marks{"all pods ready": t.when("daemons", tally{existing: daemonNodes, ready: daemonNodes})})
	t.measure("1000 nodes get a label that none of 100 others asks for", 1, func() {
		t.patchNodes(`{"metadata":{"labels":{"colour":"red"}}}`)
		t.awaitMarker(2)
	}, nil)
	t.measure("1000 nodes lose its label", daemonNodes, func() { t.patchNodes(`{"metadata":{"labels":{"agent":null}}}`) },
		marks{"all pods gone": t.when("daemons", tally{existing: 0})})
}

func daemonNode(i int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: named("", fmt.Sprint("daemon-", i))}
	node.Labels = map[string]string{"agent": "yes"}
	if i == 0 {
		node.Labels["marker"] = "yes"
	}
	return node
}

func (t *trial) patchNodes(patch string) {
	inParallel(daemonNodes, manyClients, func(i int) { t.patch(daemonNode(i), patch) })
}

func (t *trial) createDaemonSet(namespace, name, label string) {
	template := newTemplate(name)
	template.Spec.NodeSelector = map[string]string{label: "yes"}
	t.create(&appsv1.DaemonSet{ObjectMeta: named(namespace, name),
		Spec: appsv1.DaemonSetSpec{Selector: selector(name), Template: template}})
}

// awaitMarker waits for the pod of the nth DaemonSet for one node, so that what came before it has been dealt with.
func (t *trial) awaitMarker(n int) {
	marked := t.when("others", tally{existing: n})
	t.createDaemonSet("others", fmt.Sprint("marker-", n), "marker")
	t.await(marked)
}

// runJobs runs one Job of many pods, and then many of few.
func runJobs(t *trial) {
	t.createNamespaces("first", "job", "jobs")
	t.lead()
	t.create(newJob("first", "first", 1, 1)) // one that is over shows that the loop runs
	t.await(t.when("first", tally{completed: 1}))
	t.measureJobs("Job of 1000 pods, 100 at a time", "job", 1, 1000, 100)
	t.measureJobs("200 Jobs of 5 pods at once", "jobs", 200, 5, 5)
}

// measureJobs measures n Jobs in a namespace, from the first request until the last status says that its Job is
// complete. A pod succeeds a second after it was started. Events are counted until no more come.
func (t *trial) measureJobs(name, namespace string, n int, completions, parallelism int32) {
	t.measure(name, n*int(completions), func() {
		inParallel(n, fewClients, func(i int) {
			t.create(newJob(namespace, fmt.Sprintf("job-%03d", i), completions, parallelism))
		})
		t.awaitRest()
	}, marks{"over": t.when(namespace, tally{completed: n})})
}

// newJob returns a Job whose pods succeed a second after they were started.
func newJob(namespace, name string, completions, parallelism int32) *batchv1.Job {
	template := newTemplate(name)
	template.Annotations = map[string]string{"lab.kcm-book.io/run-for": "1s"}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: named(namespace, name), Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: &parallelism, Template: template,
	}}
}

// deleteNamespace: a namespace has 1000 pods of 200 Deployments and 1000 ConfigMaps, with the events that
// come of it, and the time is until it is gone. A replica with wide limits makes what is in it.
func deleteNamespace(t *trial) {
	t.createNamespaces("doomed")
	t.lead()
	t.createDeployments("doomed", 200, 5)
	t.createConfigMaps("doomed", "config-", 1000)
	t.await(t.when("doomed", tally{complete: 200}))
	t.end(syscall.SIGTERM)
	t.leadAtDefaults()
	t.measure("namespace with 1000 pods deleted", 1,
		func() { t.delete(&corev1.Namespace{ObjectMeta: named("", "doomed")}) },
		marks{"gone": t.when("", tally{gone: 1})})
}

// collect: the garbage collector's graph is of ConfigMaps with an owner each. Then the owner of a fifth is
// deleted in the background. What takes longest there is a rate limit.
func collect(t *trial) {
	const owned, orphans = 50_000, 10_000
	t.createNamespaces("owned")
	t.leadAtDefaults()
	t.measure("50,000 objects, each with an owner", owned, func() {
		for owner, n := range map[string]int{"leaves": orphans, "stays": owned - orphans} {
			t.createConfigMaps("owned", owner+"-", n, ownerOf(t.create(newConfigMap("owned", owner)).GetUID(), owner))
		}
		t.awaitCollector()
	}, nil)
	t.measure("10,000 orphans among them", 1, func() { t.delete(newConfigMap("owned", "leaves")) },
		marks{"collected": t.when("owned", tally{gone: 1 + orphans})})
}

// leadAtDefaults starts a replica with no limits but those that it has by itself, and returns when its
// garbage collector works.
func (t *trial) leadAtDefaults() {
	t.flags = t.flags[:1]
	t.lead()
	t.awaitCollector()
}

// awaitCollector returns when the garbage collector has seen all ConfigMaps that were created before: it
// deletes one, whose owner never was, that comes after them.
func (t *trial) awaitCollector() {
	collected := t.when("default", tally{gone: t.in("default")[gone] + 1})
	t.createConfigMaps("default", "canary-", 1, ownerOf("never", "never"))
	t.await(collected)
}

func (t *trial) createConfigMaps(namespace, prefix string, n int, owners ...metav1.OwnerReference) {
	inParallel(n, manyClients, func(i int) { t.create(newConfigMap(namespace, prefix+numbered(i), owners...)) })
}

func newConfigMap(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}}
}

func ownerOf(uid types.UID, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid}
}

const (
	// servedPods are behind the Service that is rolled out.
	servedPods = 1000
	// relabels is how often a pod leaves its Service or comes back.
	relabels = 200
)

// addressing are the loops that tell of the pods of Services.
var addressing = append([]string{loops("endpoints-controller", "endpointslice-controller")}, wideLimits...)

// rollOutService: a headless Service with a Deployment behind it, from its creation and from an update until
// EndpointSlices and Endpoints have all pods and no others. Both run no other loops, and the pods are the
// original's in both cases. All requests are writes of slices and Endpoints.
func rollOutService(t *trial) {
	t.createNamespaces("rollout")
	t.flags = addressing
	t.lead()
	t.start(original, slices.Concat(wideLimits, []string{"--leader-elect=false",
		loops("deployment-controller", "replicaset-controller")})...)
	t.create(newService("rollout", "web"))
	web := newDeployment("rollout", "web", servedPods)
	t.measureRollout("Service of 1000 pods that come", "web:1", func() { t.create(web) })
	t.measureRollout("Service of 1000 pods rolled out", "web:2", func() { t.patch(web, withImage("web:2")) })
}

// measureRollout starts something and waits until all pods run an image and are told of.
func (t *trial) measureRollout(name, image string, start func()) {
	before := t.in("rollout")[writesForNobody]
	t.measure(name, 1, start, marks{
		"all pods ready": t.when("rollout", tally{serving: servedPods, serving + image: servedPods}),
		"all told": t.when("rollout", tally{existing: servedPods, serving: servedPods, serving + image: servedPods,
			endpointsInAll: servedPods, readyInSlices: servedPods, readyInEndpoints: servedPods}),
	})
	t.note(name, writesForNobody, "", float64(t.in("rollout")[writesForNobody]-before))
}

// newService returns one whose pods have a label of its name.
func newService(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(namespace, name), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, // there are not addresses enough for all
		Selector:  map[string]string{"app": name},
		Ports:     []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

// changeAmongServices: a pod's label is changed, so that it leaves its Service and comes back, among few other
// Services of its namespace and among many, each time until both forms tell it.
func changeAmongServices(t *trial) {
	t.flags = addressing
	t.lead()
	t.changeAmong("few", 10)
	t.changeAmong("many", 1000)
}

func (t *trial) changeAmong(namespace string, others int) {
	t.createNamespaces(namespace)
	inParallel(others, manyClients, func(i int) { t.create(newService(namespace, fmt.Sprint("other-", i))) })
	t.create(newService(namespace, "web"))
	pod := newPod(namespace, "web")
	t.create(pod)
	t.await(t.when(namespace, tally{serving: 1, readyInSlices: 1, readyInEndpoints: 1,
		slicesThere: others + 1, endpointsThere: others + 1}))
	t.measure(fmt.Sprintf("%d changes of a pod among %d Services", relabels, others), relabels, func() {
		for i := range relabels {
			label, want := "none", 0
			if i%2 == 1 {
				label, want = "web", 1
			}
			told := t.when(namespace, tally{readyInSlices: want, readyInEndpoints: want})
			t.patch(pod, `{"metadata":{"labels":{"app":"`+label+`"}}}`)
			t.await(told)
		}
	}, nil)
}

// object is what phases create, patch and delete.
type object interface {
	metav1.Object
	runtime.Object
}

// request returns a request about an object of any kind that bench has to do with.
func (t *trial) request(verb string, obj object) *rest.Request {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	must(err)
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	group := map[string]rest.Interface{
		"": t.client.CoreV1().RESTClient(), "apps": t.client.AppsV1().RESTClient(), "batch": t.client.BatchV1().RESTClient(),
		"coordination.k8s.io":       t.client.CoordinationV1().RESTClient(),
		"certificates.k8s.io":       t.client.CertificatesV1().RESTClient(),
		"rbac.authorization.k8s.io": t.client.RbacV1().RESTClient(),
	}[plural.Group]
	return group.Verb(verb).NamespaceIfScoped(obj.GetNamespace(), obj.GetNamespace() != "").Resource(plural.Resource)
}

// create returns what the API server has made of the object.
func (t *trial) create(obj object) object {
	created, err := t.request("POST", obj).Body(obj).Do(t.ctx).Get()
	must(err)
	return created.(object)
}

// patch changes the object that has the kind and the name of this one, or a part of it.
func (t *trial) patch(obj object, patch string, part ...string) {
	request := t.request("PATCH", obj).Name(obj.GetName()).SubResource(part...).Body([]byte(patch))
	must(request.SetHeader("Content-Type", string(types.MergePatchType)).Do(t.ctx).Error())
}

// delete deletes the object that has the kind and the name of this one, if it is there, and then what it owns.
func (t *trial) delete(obj object) {
	background := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	err := t.request("DELETE", obj).Name(obj.GetName()).Body(background).Do(t.ctx).Error()
	if !apierrors.IsNotFound(err) {
		must(err)
	}
}

// createNamespaces creates namespaces, with the ServiceAccount that pods need.
func (t *trial) createNamespaces(names ...string) {
	for _, name := range names {
		t.create(&corev1.Namespace{ObjectMeta: named("", name)})
		t.create(&corev1.ServiceAccount{ObjectMeta: named(name, "default")})
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// newDeployment returns a Deployment with the API's defaults: a rolling update may have 25 % of the
// pods too many and 25 % unavailable.
func newDeployment(namespace, name string, replicas int) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(namespace, name), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(replicas)), Selector: selector(name), Template: newTemplate(name),
	}}
}

func (t *trial) createDeployments(namespace string, n, replicas int) {
	inParallel(n, fewClients, func(i int) { t.create(newDeployment(namespace, numbered(i), replicas)) })
}

func numbered(i int) string { return fmt.Sprintf("web-%05d", i) }

// withImage is the patch of a Deployment's image.
func withImage(image string) string {
	return `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"` + image + `"}]}}}}`
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func newTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}

func newPod(namespace, name string) *corev1.Pod {
	template := newTemplate("web")
	template.Namespace, template.Name = namespace, name
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}
