package main

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// simulatedNodes are played by kwok. The plain ones are beside them, and nobody plays these.
	simulatedNodes, plainNodes = 10, 2000
	// silentNodes fall silent, and later as many more, each with some pods.
	silentNodes, podsOfEach = 200, 3
	// tolerated is for how long the pods may stay from when their node has the taint. Some seconds later is too late.
	tolerated, tolerance = time.Minute, 5 * time.Second
)

// joinAndFallSilent: nodes come at once, until each has a range and no taint any more. Then nothing happens but that
// their Leases are renewed. Then a tenth falls silent at once, until its pods are gone. Then as many more do, and when
// half of those have the taint by which pods have to go the leader is killed. The other replica waits for the Lease,
// whose times are the default ones, and leads before the first pod has to go. Both run no other loops, and may give the
// taint to five nodes a second.
func joinAndFallSilent(t *trial) {
	t.flags = append([]string{"--node-eviction-rate=5", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8", loops(
		"node-ipam-controller", "node-lifecycle-controller", "taint-eviction-controller", "ttl-controller")}, wideLimits...)
	t.createNamespaces("silence")
	inParallel(plainNodes, manyClients, func(i int) { t.create(leaseOf(i)) })
	var silent atomic.Int64
	go t.beat(&silent)
	t.lead()
	t.await(t.when("", tally{ranged: simulatedNodes}))
	all := simulatedNodes + plainNodes
	t.measure(fmt.Sprintf("%d nodes join", plainNodes), plainNodes,
		func() { inParallel(plainNodes, manyClients, func(i int) { t.create(plainNode(i)) }) },
		marks{"all with a range": t.when("", tally{ranged: all}),
			"all without a taint": t.when("", tally{ranged: all, taints + "NoSchedule": 0})})
	inParallel(2*silentNodes*podsOfEach, manyClients, t.createPatientPod)
	t.awaitRest()
	t.measure(fmt.Sprintf("%d nodes at rest, for a minute", plainNodes), 1, func() { time.Sleep(time.Minute) }, marks{})
	t.measure(fmt.Sprintf("%d nodes silent", silentNodes), silentNodes, func() { silent.Store(silentNodes) }, marks{
		"all closed to new pods": t.when("", tally{taints + "NoSchedule": silentNodes}),
		"all pods gone":          t.when("silence", tally{existing: silentNodes * podsOfEach}),
	})
	successor, name := t.start(t.program, t.flags...), fmt.Sprintf("%d more silent, and the leader killed", silentNodes)
	half := t.when("", tally{taints + "NoExecute": silentNodes * 3 / 2})
	silent.Store(2 * silentNodes)
	t.await(half)
	t.measure(name, 0, func() {
		t.end(syscall.SIGKILL)
		t.leader = successor
	}, marks{"all pods gone": t.when("silence", tally{existing: 0})})
	t.note(name, tooLate, "", float64(t.in("silence")[tooLate]))
}

func plain(i int) string { return fmt.Sprint("plain-", i) }

// plainNode returns a node as a kubelet reports it. Most of what it says are fifty images.
func plainNode(i int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: named("", plain(i))}
	node.Labels = map[string]string{"lab.kcm-book.io/kubelet": "silent", corev1.LabelTopologyZone: "plain"}
	size := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi")}
	image := []corev1.ContainerImage{{Names: []string{fmt.Sprintf("example.com/web@sha256:%064d", i), "example.com/web:1"}}}
	node.Status = corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OSImage: "Debian"}, Images: slices.Repeat(image, 50),
		Capacity: size, Allocatable: size, Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "192.0.2.1"}},
		Conditions: []corev1.NodeCondition{{Type: "MemoryPressure", Status: "False"}, {Type: "DiskPressure", Status: "False"},
			{Type: "PIDPressure", Status: "False"}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	return node
}

func leaseOf(i int) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: named(corev1.NamespaceNodeLease, plain(i)),
		Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}
}

// createPatientPod creates a pod that runs on a node, and tolerates for a while that it is silent.
func (t *trial) createPatientPod(i int) {
	pod := newPod("silence", numbered(i))
	pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = plain(i/podsOfEach), new(int64)
	pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(tolerated.Seconds()))}}
	t.create(pod)
	t.patch(pod, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "status")
}

// beat renews the Leases of all nodes but the first ones, which are silent, every ten seconds until the trial ends.
func (t *trial) beat(silent *atomic.Int64) {
	var ended error
	defer catch(&ended)
	for next := time.NewTicker(10 * time.Second); ; <-next.C {
		inParallel(plainNodes, fewClients, func(i int) {
			if now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"); i >= int(silent.Load()) {
				t.patch(leaseOf(i), `{"spec":{"renewTime":"`+now+`"}}`)
			}
		})
	}
}
