package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// bigReplicas are the pods of the one big Deployment.
const bigReplicas = 1000

// limitPhases: a plain client creates as many pods without a controller manager. No controller can be
// faster on this cluster.
var limitPhases = []phase{{name: "limit", run: func(t *trial) {
	t.measure("limit", func() {
		inParallel(bigReplicas, manyClients, func(i int) { t.create(newPod("limit", numbered(i))) })
	}, marks{"exist": t.when("limit", tally{existing: bigReplicas})})
}}}

var limitRow = row{key: "limit/exist", unit: "pods/s", per: bigReplicas}

const rateName = "1000-pod Deployment: pods created"

// loads are the phases of the load, of which each begins when the one before has come to rest.
var loads = []string{"create", "update", "zero", "many"}

// loadPhases begin with the cold start, which is from exec until each loop has done its first work, which
// waits from before. A loop has started when its part of that is done. Health checks and metrics do not
// say so: both programs report a loop as running before its caches are filled.
//
// That pods exist or are Ready is told by themselves and not by the status of the Deployment. CPU and
// writes for each pod are those until the Deployment is complete, and memory is what is taken then. An
// update lasts until its status is complete, too, and a scaling to zero until the last pod is gone.
var loadPhases = []phase{
	{name: "cold", run: (*trial).coldStart, neededBy: append(loads, "clean", "killed"), rows: []row{
		{key: "cold/all", name: "cold start: each loop has worked", unit: "s"},
	}},
	{run: func(t *trial) { t.load = t.begin("load") }, neededBy: loads},
	{name: "create", run: (*trial).createBig, neededBy: []string{"update", "zero"}, rows: []row{
		{key: "big/exist", name: rateName, unit: "pods/s", per: bigReplicas},
		{key: "big/exist", name: "1000-pod Deployment: all pods exist", unit: "s"},
		{key: "big/ready", name: "1000-pod Deployment: all pods Ready", unit: "s"},
		{key: "big/cpu", name: "  CPU for each pod", unit: "ms", per: bigReplicas},
		{key: "big/requests", name: "  API writes for each pod", per: bigReplicas},
		{key: "big/rss", name: "RSS with 1000 pods", unit: "MiB"},
		{key: "big/rss", name: "  beside the original with all its loops", unit: "MiB", beside: allLoopsName},
	}},
	{name: "update", run: func(t *trial) {
		t.measure("update", func() { t.patch(newDeployment("big", "web", bigReplicas), withImage("web:2")) },
			marks{"complete": t.when("big", tally{complete + "web:2": 1})})
		t.await(t.when("big", tally{existing: bigReplicas})) // the last of the old pods may still be going
	}, rows: []row{
		{key: "update/complete", name: "1000-pod Deployment: rolling update", unit: "s"},
	}},
	{name: "zero", run: func(t *trial) {
		t.measure("zero", func() { t.patch(newDeployment("big", "web", 0), `{"spec":{"replicas":0}}`) },
			marks{"gone": t.when("big", tally{existing: 0})})
		t.await(t.when("big", tally{replicas: 0, complete: 1}))
	}, rows: []row{
		{key: "zero/gone", name: "1000-pod Deployment: scale to zero", unit: "s"},
	}},
	{name: "many", run: func(t *trial) {
		t.measure("many", func() { t.createDeployments("many", 200, 10) }, marks{
			"exist":    t.when("many", tally{existing: 200 * 10}),
			"ready":    t.when("many", tally{existing: 200 * 10, ready: 200 * 10}),
			"complete": t.when("many", tally{complete: 200}),
		})
	}, rows: []row{
		{key: "many/exist", name: "200 Deployments x 10: all pods exist", unit: "s"},
		{key: "many/ready", name: "200 Deployments x 10: all pods Ready", unit: "s"},
	}},
	{run: func(t *trial) { t.end(t.load) }, neededBy: loads, rows: []row{
		{key: "load/peak", name: "RSS, peak", unit: "MiB"},
		{key: "load/cpu", name: "CPU during the load", unit: "s"},
		{key: "load/requests", name: "API requests during the load"},
		{key: "load/requests/create", name: "  create"},
		{key: "load/requests/delete", name: "  delete"},
		{key: "load/requests/deletecollection", name: "  deletecollection"},
		{key: "load/requests/get", name: "  get"},
		{key: "load/requests/list", name: "  list"},
		{key: "load/requests/patch", name: "  patch"},
		{key: "load/requests/update", name: "  update"},
	}},
}

// prepare creates all namespaces, because a manager has something to do in each that comes, and something
// for each loop to do first.
func (t *trial) prepare() {
	for namespace := range strings.FieldsSeq(`limit cold bare big many clean killed doomed owned canary growth restart
		relabel huge quota daemons job jobs rollout few crowded`) {
		t.createNamespace(namespace)
	}
	t.create(newDeployment("cold", "deployment", 1))
	t.create(newReplicaSet("cold", "replicaset", 1))
	t.create(&corev1.ReplicationController{ObjectMeta: named("cold", "rc"), Spec: corev1.ReplicationControllerSpec{
		Replicas: new(int32(1)), Template: new(newTemplate("rc")),
	}})
	token := &corev1.Secret{ObjectMeta: named("cold", "token"), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	t.create(token)
}

// createNamespace creates a namespace, with the ServiceAccount that pods need.
func (t *trial) createNamespace(name string) {
	t.create(&corev1.Namespace{ObjectMeta: named("", name)})
	if name != "bare" {
		t.create(&corev1.ServiceAccount{ObjectMeta: named(name, "default")})
	}
}

// coldStart starts the first replica and waits until each loop has worked.
func (t *trial) coldStart() {
	work, stop := t.observe(firstWork)
	defer stop()
	until := marks{
		"deployment":            work.when("cold", tally{"Deployment deployment": 1}),
		"replicaset":            work.when("cold", tally{"ReplicaSet replicaset": 1}),
		"replicationcontroller": work.when("cold", tally{"ReplicationController rc": 1}),
		"serviceaccount-token":  work.when("cold", tally{"token": 1}),
		"serviceaccount":        work.when("bare", tally{"default": 1}),
		"root-ca":               work.when("bare", tally{"kube-root-ca.crt": 1}),
	}
	t.measure("cold", func() { t.leader = t.start(t.subject) }, until)
	for loop := range until {
		t.Values["cold/all"] = max(t.Values["cold/all"], t.Values["cold/"+loop])
	}
}

func (t *trial) createBig() { t.createPods("big", "big", bigReplicas) }

// createPods measures how a Deployment of n pods comes.
func (t *trial) createPods(name, namespace string, n int) {
	t.measure(name, func() { t.create(newDeployment(namespace, "web", n)) }, marks{
		"exist":    t.when(namespace, tally{existing: n}),
		"ready":    t.when(namespace, tally{existing: n, ready: n}),
		"complete": t.when(namespace, tally{complete: 1}),
	})
}

// failoverPhases are from the signal to the leader until another replica has created the pod of a
// ReplicaSet that was created when the leader's process had ended, so nobody else can have done it. The
// other replica was waiting for the Lease, whose times are the default ones.
var failoverPhases = []phase{
	{name: "clean", run: (*trial).failOverClean, rows: []row{
		{key: "clean/works", name: "failover, leader asked to stop", unit: "s"},
		{key: "clean/works", name: "  beside the original with ControllerManagerReleaseLeaderElectionLockOnExit",
			unit: "s", beside: releasesName},
	}},
	{name: "killed", run: func(t *trial) { t.failOver(syscall.SIGKILL, "killed") }, rows: []row{
		{key: "killed/works", name: "failover, leader killed", unit: "s"},
	}},
}

func (t *trial) failOverClean() { t.failOver(syscall.SIGTERM, "clean") }

// failOver ends the leader when another replica waits for the Lease. The line that says so is
// client-go's, so both write it.
func (t *trial) failOver(signal syscall.Signal, name string) {
	successor, began := t.start(t.subject), time.Now()
	for !strings.Contains(successor.Log.String(), "Attempting to acquire leader lease") {
		if time.Since(began) > patience {
			must(errors.New("the second replica does not wait for the Lease"))
		}
		t.sleep(50 * time.Millisecond)
	}
	// It has a look at the Lease at once. Starting has cost CPU time, which is not to be part of what is
	// measured next.
	t.sleep(3 * time.Second)
	t.measure(name, func() {
		t.leader.end(signal)
		t.leader = successor
		t.create(newReplicaSet(name, "web", 1))
	}, marks{"works": t.when(name, tally{existing: 1})})
}

// heardPairs are how many rollouts are counted in which somebody reads the trace, each after one in which
// nobody does. One pair more comes before them, in which connections are made and buffers grow.
const heardPairs = 3

// listeningPhases: the big Deployment comes in turns while nobody reads kcm's trace and while somebody does, with one
// process and on one cluster: what reading costs is less than the difference between two processes.
var listeningPhases = []phase{{name: "trace", run: (*trial).listen, rows: []row{
	{key: "unheard/cpu", name: "1000-pod Deployment: CPU for each pod, beside kcm while somebody reads its trace",
		unit: "ms", per: heardPairs * bigReplicas, beside: kcmName, besideKey: "heard/cpu"},
	{key: "unheard/ready", name: "  all pods Ready, beside the same",
		unit: "s", per: heardPairs, beside: kcmName, besideKey: "heard/ready"},
}}}

func (t *trial) listen() {
	names := []string{"warm-up", "warm-up"}
	for range heardPairs {
		names = append(names, "unheard", "heard")
	}
	for i := range names {
		t.createNamespace(fmt.Sprint("listening-", i))
	}
	t.lead()
	for i, name := range names {
		namespace, silence := fmt.Sprint("listening-", i), func() {}
		if i%2 == 1 {
			silence = t.readTrace()
		}
		t.createPods(name, namespace, bigReplicas)
		silence()
		none := t.when(namespace, tally{existing: 0})
		t.delete(newDeployment(namespace, "web", 0))
		t.await(none)
	}
}

// readTrace reads the trace of the leader, as the live view does: each line as it comes.
func (t *trial) readTrace() (silence func()) {
	body := t.get(trace.Path)
	steps := make(chan int)
	go func() {
		read := 0
		for lines := bufio.NewScanner(body); lines.Scan(); {
			read++
		}
		steps <- read
	}()
	return func() {
		body.Close()
		t.say("%d steps were read of the trace", <-steps)
	}
}
