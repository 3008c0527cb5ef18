package main

import (
	"fmt"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
