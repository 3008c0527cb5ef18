package main

import (
	"fmt"
	"maps"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

const (
	// servedPods are behind the Service that is rolled out.
	servedPods = 1000
	// fewServices and manyServices are beside the one whose pod changes.
	fewServices, manyServices = 10, 1000
	// relabels is how often a pod leaves its Service or comes back.
	relabels = 200
)

// servicePhases: a headless Service with a Deployment behind it, from its creation and from an update until
// EndpointSlices and Endpoints have all pods and no others. How long after the last pod is Ready all that are and no
// others are told to be stands beside it. Both run no other loops, and the pods are the original's in both cases.
// Writes are those of slices and Endpoints, their size is that of what bench's watch brings.
//
// Then a pod whose label is changed, so that it leaves its Service and comes back, among few other
// Services of its namespace and among many: the time until both forms tell it, and CPU, for each change.
var servicePhases = []phase{
	{name: "services", run: (*trial).rollOutService, once: true, rows: slices.Concat(
		rowsOfService("served", "Service of 1000 pods that come"),
		rowsOfService("replaced", "Service of 1000 pods rolled out"),
	)},
	{name: "among", run: (*trial).changeAmongServices, once: true, rows: []row{
		{key: "few/cpu", name: "a pod changes among 10 Services: CPU", unit: "ms", per: relabels},
		{key: "crowded/cpu", name: "  among 1000", unit: "ms", per: relabels},
		{key: "few/told", name: "a pod changes among 10 Services: told", unit: "ms", per: relabels},
		{key: "crowded/told", name: "  among 1000", unit: "ms", per: relabels},
	}},
}

func rowsOfService(name, what string) []row {
	return []row{
		{key: name + "/requests/endpointslices + " + name + "/requests/endpoints", name: what + ": API writes"},
		{key: name + "/requests/endpointslices", name: "  of slices"},
		{key: name + "/idle", name: "  of these, about no pod that is ready"},
		{key: name + "/written", name: "  written", unit: "MiB"},
		{key: name + "/cpu", name: "  CPU", unit: "s"},
		{key: name + "/right", name: "  all told", unit: "s"},
		{key: name + "/late", name: "  ready pods told, after the last is Ready", unit: "ms"},
	}
}

// rollOutService brings the pods of a Service, and then others in their place.
func (t *trial) rollOutService() {
	t.lead()
	workloads := t.bench.reference()
	workloads.name, workloads.more = "workloads", []string{"--leader-elect=false"}
	workloads.controllers = []string{"deployment-controller", "replicaset-controller"}
	others := t.start(workloads)
	watch, stop := t.observe(told)
	defer stop()
	t.create(newService("rollout", "web"))
	web := newDeployment("rollout", "web", servedPods)
	t.measureRollout(watch, "served", "web:1", func() { t.create(web) })
	t.measureRollout(watch, "replaced", "web:2", func() { t.patch(web, withImage("web:2")) })
	others.end(syscall.SIGTERM)
	t.stop()
}

// measureRollout starts something and waits until all pods run an image and are told of.
func (t *trial) measureRollout(watch *watch, name, image string, start func()) {
	settled := tally{serving: servedPods, serving + image: servedPods}
	ready := maps.Clone(settled)
	ready[readyInSlices], ready[readyInEndpoints] = servedPods, servedPods
	right := maps.Clone(ready)
	right[existing], right[endpointsInAll] = servedPods, servedPods
	idle, written := watch.now("rollout", idleWrites), watch.now("rollout", bytesSent)
	t.measure(name, start, marks{
		"settled": watch.when("rollout", settled),
		"ready":   watch.when("rollout", ready, watch.tellsTruth),
		"right":   watch.when("rollout", right, watch.tellsTruth),
	})
	t.Values[name+"/late"] = t.Values[name+"/ready"] - t.Values[name+"/settled"]
	t.Values[name+"/idle"] = watch.now("rollout", idleWrites) - idle
	t.Values[name+"/written"] = watch.now("rollout", bytesSent) - written
}

// newService returns one whose pods have a label of its name.
func newService(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(namespace, name), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, // there are not addresses enough for all
		Selector:  map[string]string{"app": name},
		Ports:     []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

func (t *trial) changeAmongServices() {
	t.lead()
	t.changeAmong("few", fewServices)
	t.changeAmong("crowded", manyServices)
	t.stop()
}

// changeAmong has a pod leave its Service and come back, among others in a namespace.
func (t *trial) changeAmong(namespace string, others int) {
	watch, stop := t.observe(told)
	defer stop()
	inParallel(others, manyClients, func(i int) {
		t.create(newService(namespace, fmt.Sprint("other-", i)))
	})
	t.create(newService(namespace, "web"))
	pod := newPod(namespace, "web")
	t.create(pod)
	t.await(watch.when(namespace, tally{serving: 1, readyInSlices: 1, readyInEndpoints: 1,
		slicesThere: others + 1, endpointsThere: others + 1}))
	for i := range relabels {
		label, want := "none", 0
		if i%2 == 1 {
			label, want = "web", 1
		}
		t.measure(namespace, func() { t.patch(pod, `{"metadata":{"labels":{"app":"`+label+`"}}}`) },
			marks{"told": watch.when(namespace, tally{readyInSlices: want, readyInEndpoints: want})})
	}
}
