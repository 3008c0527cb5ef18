package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

//lint:file-ignore SA1019 Endpoints are deprecated, and both write them.

// What is counted, what ends with a space also for each image, and taints and rules only for each effect or verb.
const (
	existing, ready, serving          = "pods", "pods Ready", "pods Ready and not going "
	complete, completed               = "Deployments complete ", "Jobs complete"
	limited, gone                     = "pods in a quota's status", "objects gone"
	slicesThere, endpointsThere       = "EndpointSlices", "Endpoints"
	endpointsInAll, readyInSlices     = "endpoints in slices", "endpoints ready in slices"
	readyInEndpoints, writesForNobody = "addresses in Endpoints", "writes of slices about no pod that is ready"
	ranged, taints, tooLate           = "nodes with a range", "taints of nodes ", "pods that went too late"
	ruled, signed                     = "rules of aggregated roles ", "certificates"
)

// tally counts several things, each under its name.
type tally map[string]int

// tallyOf returns what an object counts for.
func tallyOf(obj metav1.Object) tally {
	switch obj := obj.(type) {
	case *corev1.Pod:
		counts := tally{existing: 1}
		if controller.IsPodReady(obj) {
			counts[ready] = 1
			if obj.DeletionTimestamp == nil {
				counts[serving], counts[serving+obj.Spec.Containers[0].Image] = 1, 1
			}
		}
		return counts
	case *corev1.Node:
		counts := tally{ranged: len(obj.Spec.PodCIDRs)}
		for _, taint := range obj.Spec.Taints {
			counts[taints+string(taint.Effect)]++
		}
		return counts
	case *appsv1.Deployment:
		// This is what `kubectl rollout status` waits for.
		if want, is := *obj.Spec.Replicas, obj.Status; is.ObservedGeneration >= obj.Generation &&
			is.UpdatedReplicas == want && is.Replicas == want && is.AvailableReplicas == want {
			return tally{complete: 1, complete + obj.Spec.Template.Spec.Containers[0].Image: 1}
		}
	case *batchv1.Job:
		if obj.Status.CompletionTime != nil {
			return tally{completed: 1}
		}
	case *corev1.ResourceQuota:
		used := obj.Status.Used[corev1.ResourcePods]
		return tally{limited: int(used.Value())}
	case *rbacv1.ClusterRole:
		if len(obj.Rules) == 1 && obj.AggregationRule != nil {
			return tally{ruled + obj.Rules[0].Verbs[0]: 1}
		}
	case *certificatesv1.CertificateSigningRequest:
		return tally{signed: min(1, len(obj.Status.Certificate))}
	case *discoveryv1.EndpointSlice:
		return tally{slicesThere: 1, endpointsInAll: len(obj.Endpoints), readyInSlices: len(readyIn(obj))}
	case *corev1.Endpoints:
		counts := tally{endpointsThere: 1}
		for _, subset := range obj.Subsets {
			counts[readyInEndpoints] += len(subset.Addresses)
		}
		return counts
	}
	return nil
}

// readyIn returns the pods that a slice says are ready. The API server itself is no pod.
func readyIn(slice *discoveryv1.EndpointSlice) map[types.UID]bool {
	ready := map[types.UID]bool{}
	for _, endpoint := range slice.Endpoints {
		if endpoint.TargetRef != nil && *endpoint.Conditions.Ready {
			ready[endpoint.TargetRef.UID] = true
		}
	}
	return ready
}

// watch counts what is on the cluster, by namespace, and tells when a count is reached.
type watch struct {
	mu      sync.Mutex
	objects map[types.UID]tally
	counts  map[string]tally
	waiting []*moment
	asked   map[string]time.Time // when the pods of a node were to go, by its name
}

// observe returns a watch that has seen all there is. It ends with ctx.
func observe(ctx context.Context, client kubernetes.Interface) *watch {
	w := &watch{objects: map[types.UID]tally{}, counts: map[string]tally{}, asked: map[string]time.Time{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{
		core.Namespaces().Informer(), core.Pods().Informer(), core.ConfigMaps().Informer(), core.Nodes().Informer(),
		core.ResourceQuotas().Informer(), core.Endpoints().Informer(),
		factory.Apps().V1().Deployments().Informer(), factory.Batch().V1().Jobs().Informer(),
		factory.Discovery().V1().EndpointSlices().Informer(),
		factory.Rbac().V1().ClusterRoles().Informer(), factory.Certificates().V1().CertificateSigningRequests().Informer(),
	} {
		synced = append(synced, controller.Handle(informer, controller.Handlers[metav1.Object]{
			Add: func(obj metav1.Object) { w.change(obj, tallyOf(obj), nil) },
			Update: func(old, new metav1.Object) {
				var written tally
				if was, is := old.(*discoveryv1.EndpointSlice); is &&
					maps.Equal(readyIn(was), readyIn(new.(*discoveryv1.EndpointSlice))) {
					written = tally{writesForNobody: 1}
				}
				w.change(new, tallyOf(new), written)
			},
			Delete: func(obj metav1.Object) { w.change(obj, nil, tally{gone: 1}) },
		}))
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		must(fmt.Errorf("start to watch the cluster: %w", context.Cause(ctx)))
	}
	return w
}

// change counts an object for what it is now, adds what counts for good, and tells those whose moment has come.
func (w *watch) change(obj metav1.Object, is, forGood tally) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if name := obj.GetName(); is[taints+"NoExecute"] > 0 && w.asked[name].IsZero() {
		w.asked[name] = now
	}
	if pod, isPod := obj.(*corev1.Pod); isPod && is == nil && now.Sub(w.asked[pod.Spec.NodeName]) > tolerated+tolerance {
		forGood[tooLate]++
	}
	counts := w.counts[obj.GetNamespace()]
	if counts == nil {
		counts = tally{}
		w.counts[obj.GetNamespace()] = counts
	}
	for name, n := range w.objects[obj.GetUID()] {
		counts[name] -= n
	}
	for name, n := range is {
		counts[name] += n
	}
	for name, n := range forGood {
		counts[name] += n
	}
	if w.objects[obj.GetUID()] = is; is == nil {
		delete(w.objects, obj.GetUID())
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(m *moment) bool { return w.reach(m, now) })
}

// in returns the counts of a namespace as they are now.
func (w *watch) in(namespace string) tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts[namespace])
}

// moment is when a namespace has the counts that are wanted.
type moment struct {
	namespace string
	want      tally
	reached   chan time.Time
}

// when returns the moment of the change that brings these counts, or now if they are there already.
func (w *watch) when(namespace string, want tally) *moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &moment{namespace, want, make(chan time.Time, 1)}
	if !w.reach(m, time.Now()) {
		w.waiting = append(w.waiting, m)
	}
	return m
}

// reach tells whether a moment has come, and those that wait for it, too.
func (w *watch) reach(m *moment, now time.Time) bool {
	for name, n := range m.want {
		if w.counts[m.namespace][name] != n {
			return false
		}
	}
	m.reached <- now
	return true
}
