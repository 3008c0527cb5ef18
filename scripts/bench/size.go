package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sizePhases: all pods of a ReplicaSet are taken away from it by their labels, until as many others are
// Ready. A quota of pods, CPU and memory comes over pods that no scheduler takes, until its status says
// how many there are; then some are deleted, each until the status says one less. CPU is the process's
// meanwhile, and has in it what its other loops do about a pod that goes.
var sizePhases = []phase{
	{name: "relabel", run: (*trial).relabel, once: true, rows: []row{
		{key: "relabel/replaced", name: "1000 pods relabelled: all replaced", unit: "s"},
		{key: "relabel/started", name: "  a plain client has relabelled them", unit: "s"},
		{key: "relabel/cpu", name: "  CPU", unit: "s"},
	}},
	{name: "quota", run: (*trial).recount, once: true, rows: []row{
		{key: "quota/counted", name: "quota over 10,000 pods: counted for the first time", unit: "s"},
		{key: "recount/counted", name: "  counted again when one goes", unit: "ms", per: recounts},
		{key: "recount/cpu", name: "  CPU for that", unit: "ms", per: recounts},
	}},
	{name: "5000", once: true, run: func(t *trial) {
		t.lead()
		t.createPods("huge", "huge", hugeReplicas)
		t.stop()
	}, rows: []row{
		{key: "huge/exist", name: "5000-pod Deployment: pods created", unit: "pods/s", per: hugeReplicas},
		{key: "huge/ready", name: "  all pods Ready", unit: "s"},
		{key: "huge/cpu", name: "  CPU for each pod", unit: "ms", per: hugeReplicas},
		{key: "huge/requests", name: "  API writes for each pod", per: hugeReplicas},
		{key: "huge/rss", name: "  RSS", unit: "MiB"},
	}},
}

// hugeReplicas are the pods of the largest Deployment.
const hugeReplicas = 5000

func (t *trial) relabel() {
	t.lead()
	const n = 1000
	t.create(newReplicaSet("relabel", "web", n))
	t.await(t.when("relabel", tally{existing: n, ready: n}))
	t.measure("relabel", func() {
		pods, err := t.client.CoreV1().Pods("relabel").List(t.ctx, metav1.ListOptions{})
		must(err)
		inParallel(n, manyClients, func(i int) { t.patch(&pods.Items[i], `{"metadata":{"labels":{"app":"free"}}}`) })
	}, marks{"replaced": t.when("relabel", tally{existing: 2 * n, ready: 2 * n})})
	t.stop()
}

// limitedPods are in the namespace of a quota, which was made after them, and recounts is how many of
// them are deleted, one after the other.
const limitedPods, recounts = 10_000, 100

// recount has a quota counted for the first time, and then each time that one of its pods goes.
func (t *trial) recount() {
	t.lead()
	inParallel(limitedPods, manyClients, func(i int) { t.create(limitedPod(i)) })
	watch, stop := t.observe(quotas)
	defer stop()
	quota := &corev1.ResourceQuota{ObjectMeta: named("quota", "limit"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("20k"),
			corev1.ResourceRequestsCPU: resource.MustParse("20k"), corev1.ResourceLimitsMemory: resource.MustParse("20Ti")},
	}}
	t.measure("quota", func() { t.create(quota) }, marks{"counted": watch.when("quota", tally{limited: limitedPods})})
	for i := range recounts {
		t.measure("recount", func() { t.delete(limitedPod(i)) },
			marks{"counted": watch.when("quota", tally{limited: limitedPods - i - 1})})
	}
	t.stop()
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

// daemonPhases: a DaemonSet of many nodes, beside 100 others that want nodes which are not there, from its
// creation until all its pods are Ready. Then all nodes get a label that nobody asks for, and CPU is the
// process's until a DaemonSet that was created afterwards has its pod. Then they lose the label that
// brought the pods, until the last pod is gone.
var daemonPhases = []phase{{name: "daemons", run: (*trial).daemons, once: true, rows: []row{
	{key: "daemons/ready", name: "DaemonSet of 1000 nodes: all pods Ready", unit: "s"},
	{key: "daemons/cpu", name: "  CPU for each pod", unit: "ms", per: daemonNodes},
	{key: "daemons/requests", name: "  API writes for each pod", per: daemonNodes},
	{key: "label/cpu", name: "1000 nodes get a label that none of 100 others asks for: CPU", unit: "s"},
	{key: "unlabel/gone", name: "1000 nodes lose its label: all pods gone", unit: "s"},
	{key: "unlabel/started", name: "  a plain client has taken it away", unit: "s"},
	{key: "unlabel/requests", name: "  API writes for each pod", per: daemonNodes},
}}}

func (t *trial) daemons() {
	inParallel(daemonNodes, manyClients, func(i int) { t.create(daemonNode(i)) })
	inParallel(100, fewClients, func(i int) {
		t.createDaemonSet("canary", fmt.Sprint("idle-", i), fmt.Sprint("idle-", i))
	})
	t.lead()
	t.awaitMarker(1)
	t.measure("daemons", func() { t.createDaemonSet("daemons", "agent", "agent") },
		marks{"ready": t.when("daemons", tally{existing: daemonNodes, ready: daemonNodes})})
	t.measure("label", func() {
		t.patchNodes(`{"metadata":{"labels":{"colour":"red"}}}`)
		t.awaitMarker(2)
	}, nil)
	t.measure("unlabel", func() { t.patchNodes(`{"metadata":{"labels":{"agent":null}}}`) },
		marks{"gone": t.when("daemons", tally{existing: 0})})
	t.stop()
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
	marked := t.when("canary", tally{existing: n})
	t.createDaemonSet("canary", fmt.Sprint("marker-", n), "marker")
	t.await(marked)
}
