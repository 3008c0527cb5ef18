package main

import (
	"fmt"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

// daemons: a DaemonSet of many nodes, beside 100 others that want nodes which are not there, from its
// creation until all its pods are Ready. Then all nodes get a label that nobody asks for, until a DaemonSet
// that was created afterwards has its pod. Then they lose the label that brought the pods, until the last pod
// is gone.
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

// createDaemonSet creates one for the nodes that have a label.
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

// createConfigMaps creates n empty ConfigMaps that have the owners.
func (t *trial) createConfigMaps(namespace, prefix string, n int, owners ...metav1.OwnerReference) {
	inParallel(n, manyClients, func(i int) { t.create(newConfigMap(namespace, prefix+numbered(i), owners...)) })
}

func newConfigMap(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}}
}

func ownerOf(uid types.UID, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid}
}
