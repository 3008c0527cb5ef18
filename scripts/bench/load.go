package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/view"
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

// coldStart starts the first replica, and measures from exec until loops have done work that waits from before.
// Health checks and metrics do not say so: both programs report a loop as running before its caches are filled.
func (t *trial) coldStart(name string) {
	t.createNamespaces("cold")
	t.create(newDeployment("cold", "web", 1))
	t.create(&corev1.Namespace{ObjectMeta: named("", "bare")})
	t.measure(name, 1, t.lead, marks{
		"a Deployment's pod created":     t.when("cold", tally{existing: 1}),
		"a namespace has what pods need": t.when("bare", tally{accounts: 1, configMaps: 1}),
	})
}

// load: one big Deployment comes, is rolled out and goes, and then come many small ones, each when the one
// before has come to rest.
//
// That pods exist or are Ready is told by themselves and not by the status of the Deployment. CPU and
// requests for each pod are those until the Deployment is complete, and memory is what is taken then.
func load(t *trial) {
	t.createNamespaces("big", "many")
	t.coldStart("cold start")
	t.measure("the load", 1, func() {
		t.createPods("1000-pod Deployment", "big", bigReplicas)
		t.measure("its rolling update", bigReplicas,
			func() { t.patch(newDeployment("big", "web", bigReplicas), withImage("web:2")) },
			marks{"complete": t.when("big", tally{complete + "web:2": 1})})
		t.await(t.when("big", tally{existing: bigReplicas})) // the last of the old pods may still be going
		t.measure("its scaling to zero", bigReplicas,
			func() { t.patch(newDeployment("big", "web", 0), `{"spec":{"replicas":0}}`) },
			marks{"all pods gone": t.when("big", tally{existing: 0})})
		t.await(t.when("big", tally{replicas: 0, complete: 1}))
		t.measure("200 Deployments of 10", 200*10, func() { t.createDeployments("many", 200, 10) },
			rolledOut(t, "many", 200, 200*10))
	}, nil)
}

// whole: the original as people run it. Most of its loops have nothing to do here, but their caches are filled.
func whole(t *trial) {
	t.flags = append(t.flags, loops("*"))
	t.createNamespaces("big")
	t.coldStart("cold start, the original with all its loops")
	t.createPods("1000-pod Deployment, the original with all its loops", "big", bigReplicas)
}

// createPods measures how a Deployment of n pods comes.
func (t *trial) createPods(name, namespace string, n int) {
	t.measure(name, n, func() { t.create(newDeployment(namespace, "web", n)) }, rolledOut(t, namespace, 1, n))
}

// rolledOut are the moments of Deployments that come, with their pods.
func rolledOut(t *trial, namespace string, deployments, pods int) marks {
	return marks{
		"all pods created": t.when(namespace, tally{existing: pods}),
		"all pods ready":   t.when(namespace, tally{existing: pods, ready: pods}),
		"complete":         t.when(namespace, tally{complete: deployments}),
	}
}

func failOver(t *trial) {
	t.createNamespaces("clean", "killed")
	t.coldStart("cold start")
	t.failOver(syscall.SIGTERM, "clean", "failover, leader asked to stop")
	t.failOver(syscall.SIGKILL, "killed", "failover, leader killed")
}

// failOverReleased: the original with the feature gate, off by itself, that has it give its Lease away when it stops.
func failOverReleased(t *trial) {
	t.flags = append(t.flags, "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true")
	t.createNamespaces("clean")
	t.lead()
	t.awaitCollector()
	t.failOver(syscall.SIGTERM, "clean", "failover, leader asked to stop, with the feature gate")
}

// failOver measures from the signal to the leader until another replica has created the pod of a ReplicaSet
// that was created when the leader's process had ended, so nobody else can have done it. The other replica
// waits for the Lease, whose times are the default ones. The line that says so is client-go's, so both write it.
func (t *trial) failOver(signal syscall.Signal, namespace, name string) {
	successor := t.start(t.program, t.flags...)
	for !strings.Contains(successor.Log.String(), "Attempting to acquire leader lease") {
		t.sleep(50 * time.Millisecond)
	}
	// It has a look at the Lease at once. Starting has cost CPU time, which is not to be part of what is
	// measured next.
	t.sleep(3 * time.Second)
	t.measure(name, 0, func() {
		t.leader.end(signal)
		t.leader = successor
		t.create(newReplicaSet(namespace, "web", 1))
	}, marks{"another replica works": t.when(namespace, tally{existing: 1})})
}

// heardPairs are how many rollouts are counted in which somebody reads the trace, each after one in which
// nobody does. One pair more comes before them, in which connections are made and buffers grow.
const heardPairs = 3

// listen: the big Deployment comes in turns while nobody reads kcm's trace and while somebody does, with one
// process and on one cluster: what reading costs is less than the difference between two processes.
func listen(t *trial) {
	port, err := process.FreePort()
	must(err)
	t.flags = append(t.flags, "--secure-port="+port, "--cert-dir="+filepath.Join(t.cluster.Dir(), "bench-certs"))
	for i := range 2 + 2*heardPairs {
		t.createNamespaces(fmt.Sprint("listening-", i))
	}
	t.lead()
	for i := range 2 + 2*heardPairs {
		name, namespace := "1000-pod Deployment, nobody reads the trace", fmt.Sprint("listening-", i)
		silence := func() {}
		if i%2 == 1 {
			name, silence = "1000-pod Deployment, somebody reads the trace", t.readTrace(port)
		}
		if i < 2 {
			name = "1000-pod Deployment, to warm up"
		}
		t.createPods(name, namespace, bigReplicas)
		silence()
		none := t.when(namespace, tally{existing: 0})
		t.delete(newDeployment(namespace, "web", 0))
		t.await(none)
	}
}

// readTrace reads the trace of the leader as the live view does.
func (t *trial) readTrace(port string) (silence func()) {
	reader, ended := view.New(""), make(chan error)
	ctx, stop := context.WithCancel(t.ctx)
	go func() { ended <- reader.Listen(ctx, t.name, port, t.cluster.RESTConfig(cluster.Admin)) }()
	return func() {
		stop()
		must(<-ended)
		moments, _ := reader.After(0)
		fmt.Printf("%d moments were read of the trace\n", len(moments))
	}
}

// growing are the Deployments that are rolled out at the same time, each as often as rolloutsOfEach.
const growing, rolloutsOfEach = 10, 10

// grow rolls out the same Deployments among more and more neighbours, which have no pods and ten old
// ReplicaSets each. These are created while no controller manager runs, which would look at all of them after
// each. Time is that of 100 rollouts, ten at the same time, each until its status is complete.
//
// Then a manager restarts, where there is nothing to do but one Deployment that waits for its pod, from exec
// until that exists; nobody holds the Lease. Its memory is taken when the garbage collector, which is the last
// to have read everything, has seen a ConfigMap that came last.
func grow(t *trial) {
	t.createNamespaces("growth", "restart")
	t.createDeployments("growth", growing, 1)
	there := 0
	for _, n := range []int{200, 1000, 2000} {
		inParallel(n-there, manyClients, func(i int) { t.createNeighbour(fmt.Sprintf("neighbour-%04d", there+i)) })
		there = n
		seen := t.when("growth", tally{deployments: growing + n, complete: growing + n})
		t.lead()
		t.await(seen)
		// The first rollout of each is not counted: it comes to its end when the queues, which are full after
		// the start, have been worked off.
		t.rollOut(1)
		t.measure(fmt.Sprintf("rollouts among %d Deployments", n), growing*rolloutsOfEach,
			func() { t.rollOut(rolloutsOfEach) }, nil)
		t.stop()
	}
	t.create(newDeployment("restart", "web", 1))
	t.measure("restart with 22,000 objects", 1, func() {
		t.lead()
		t.awaitCollector()
	}, marks{"a pod created": t.when("restart", tally{existing: 1})})
}

// createNeighbour creates a Deployment without pods, and ten old ReplicaSets.
func (t *trial) createNeighbour(name string) {
	owner := metav1.NewControllerRef(t.create(newDeployment("growth", name, 0)),
		appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for i := range 10 {
		rs := newReplicaSet("growth", fmt.Sprintf("%s-%d", name, i), 0)
		labels := map[string]string{"app": name, appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint(i)}
		rs.Labels, rs.Spec.Selector.MatchLabels, rs.Spec.Template.Labels = labels, labels, labels
		rs.OwnerReferences = []metav1.OwnerReference{*owner}
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
