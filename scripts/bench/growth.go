package main

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// growing are the Deployments that are rolled out at the same time, each as often as rolloutsOfEach.
const growing, rolloutsOfEach = 10, 10

// neighbours are how many other Deployments are in the namespace, one number after the other.
var neighbours = []int{200, 1000, 2000}

// growthPhases are about a namespace with many Deployments that have no pods and ten old ReplicaSets each.
// Time and CPU are for one of 100 rollouts, ten at the same time, each until its status is complete. Then
// a manager restarts, where there is nothing to do but one Deployment that waits for its pod, from exec
// until that exists; nobody holds the Lease. Its memory is the peak when the garbage collector, which is
// the last to have read everything, has seen a ConfigMap that came last.
var growthPhases = []phase{
	{name: "growth", run: (*trial).grow, once: true, rows: []row{
		{key: "among-200/cpu", name: "rollout among 200 Deployments: CPU", unit: "ms", per: growing * rolloutsOfEach},
		{key: "among-1000/cpu", name: "  among 1000", unit: "ms", per: growing * rolloutsOfEach},
		{key: "among-2000/cpu", name: "  among 2000", unit: "ms", per: growing * rolloutsOfEach},
		{key: "among-200/started", name: "rollout among 200 Deployments: complete", unit: "s", per: rolloutsOfEach},
		{key: "among-1000/started", name: "  among 1000", unit: "s", per: rolloutsOfEach},
		{key: "among-2000/started", name: "  among 2000", unit: "s", per: rolloutsOfEach},
	}},
	{name: "restart", run: (*trial).restart, once: true, rows: []row{
		{key: "restart/works", name: "restart with 22,000 objects: a pod created", unit: "s"},
		{key: "list/started", name: "  a plain client has listed them", unit: "s"},
		{key: "restarted/peak", name: "  RSS, peak", unit: "MiB"},
	}},
}

// grow rolls out the same Deployments among more and more neighbours. These are created while no
// controller manager runs, which would look at all of them after each.
func (t *trial) grow() {
	for _, n := range neighbours {
		t.fillNeighbourhood(n)
		t.leadNeighbourhood()
		// The first rollout of each is not counted: it comes to its end when the queues, which are full after
		// the start, have been worked off.
		t.rollOut(1)
		t.measure(fmt.Sprintf("among-%d", n), func() { t.rollOut(rolloutsOfEach) }, nil)
		t.stop()
	}
}

// fillNeighbourhood creates the Deployments to roll out, and neighbours until there are n, unless they are
// there already.
func (t *trial) fillNeighbourhood(n int) {
	there := t.neighbours
	if there == 0 {
		t.createDeployments("growth", growing, 1)
	}
	t.neighbours = n
	inParallel(n-there, manyClients, func(i int) { t.createNeighbour(fmt.Sprintf("neighbour-%04d", there+i)) })
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

// leadNeighbourhood starts a replica and waits until it has seen to all that is in the neighbourhood.
func (t *trial) leadNeighbourhood() {
	all := growing + t.neighbours
	seen := t.when("growth", tally{deployments: all, complete: all})
	t.lead()
	t.await(seen)
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

// restart starts a replica where there is much to read and one Deployment to work on. Another has been
// there before and has left nothing else to do. No manager can have read the lists much sooner than a
// plain client does, one after the other.
func (t *trial) restart() {
	t.fillNeighbourhood(neighbours[len(neighbours)-1])
	t.leadNeighbourhood()
	t.stop()
	t.measure("list", func() {
		_, err := t.client.AppsV1().Deployments("growth").List(t.ctx, metav1.ListOptions{})
		must(err)
		_, err = t.client.AppsV1().ReplicaSets("growth").List(t.ctx, metav1.ListOptions{})
		must(err)
	}, nil)
	t.create(newDeployment("restart", "web", 1))
	t.freeLease()
	t.measure("restart", func() { t.leader = t.start(t.subject) }, marks{
		"works": t.when("restart", tally{existing: 1}),
	})
	t.measure("restarted", t.awaitCollector, nil)
	t.stop()
}
