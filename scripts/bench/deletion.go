package main

import (
	"bytes"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The garbage collector's graph has ownedObjects, of which orphans lose their owner.
const ownedObjects, orphans = 50_000, 10_000

// deletionPhases are measured at the rate limits that both have by themselves.
//
// A namespace has 1000 pods of 200 Deployments and 1000 ConfigMaps, with the events that come of it, and
// the time is until it is gone. The garbage collector's graph is of ConfigMaps with an owner each. Its
// heap is what is in use after a collection of Go's, before and after they were created. Then the owner
// of a fifth is deleted in the background. What takes longest there is a rate limit.
var deletionPhases = []phase{
	{name: "namespace", run: (*trial).deleteNamespace, rows: []row{
		{key: "namespace/gone", name: "namespace with 1000 pods deleted: gone", unit: "s"},
		{key: "namespace/requests", name: "  API requests"},
	}},
	{name: "gc", run: (*trial).collect, once: true, rows: []row{
		{key: "collect/gone", name: "50,000 objects: 10,000 orphans collected", unit: "s"},
		{key: "collect/requests", name: "  API requests"},
		{key: "graph/heap", name: "  heap for each object", unit: "bytes", per: ownedObjects},
		{key: "graph/rss", name: "  RSS with all of them", unit: "MiB"},
	}},
}

// deleteNamespace deletes a namespace in which there is much. A replica with wide limits makes what is in it.
func (t *trial) deleteNamespace() {
	t.leader = t.start(t.subject)
	t.createDeployments("doomed", 200, 5)
	t.createConfigMaps("doomed", "config-", 1000)
	t.await(t.when("doomed", tally{complete: 200}))
	t.stop()
	t.leadAtDefaults()
	watch, stop := t.observe(goers)
	defer stop()
	t.measure("namespace", func() { t.delete(&corev1.Namespace{ObjectMeta: named("", "doomed")}) },
		marks{"gone": watch.when("", tally{gone: 1})})
}

// collect fills the garbage collector's graph and takes the owner of a part of it away.
func (t *trial) collect() {
	if !t.atDefaults {
		t.leadAtDefaults()
	}
	before := t.heap()
	t.measure("graph", func() {
		for owner, n := range map[string]int{"leaves": orphans, "stays": ownedObjects - orphans} {
			t.createConfigMaps("owned", owner+"-", n, ownerOf(t.create(newConfigMap("owned", owner)).GetUID(), owner))
		}
		t.awaitCollector()
		t.Values["graph/heap"] = t.heap() - before
	}, nil)
	watch, stop := t.observe(goers)
	defer stop()
	t.measure("collect", func() { t.delete(newConfigMap("owned", "leaves")) },
		marks{"gone": watch.when("owned", tally{gone: 1 + orphans})})
}

// leadAtDefaults starts a replica with no limits but those that it has by itself, and returns when its
// garbage collector works.
func (t *trial) leadAtDefaults() {
	t.atDefaults = true
	t.lead()
	t.awaitCollector()
}

// awaitCollector returns when the garbage collector has seen all ConfigMaps that were created before: it
// deletes one, whose owner never was, that comes after them.
func (t *trial) awaitCollector() {
	watch, stop := t.observe(goers)
	defer stop()
	collected := watch.when("canary", tally{gone: 1})
	t.createConfigMaps("canary", "canary-", 1, ownerOf("never", "never"))
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

// heap returns the bytes that are in use on the leader's heap after a collection.
func (t *trial) heap() float64 {
	_, value, _ := bytes.Cut(t.profile("heap?gc=1&debug=1"), []byte("\n# HeapAlloc = "))
	value, _, _ = bytes.Cut(value, []byte("\n"))
	n, err := strconv.ParseFloat(string(value), 64)
	must(err)
	return n
}
