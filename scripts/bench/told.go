package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

//lint:file-ignore SA1019 Endpoints are deprecated, and both write them.

// told is what a namespace's pods are, beside what EndpointSlices and Endpoints
// tell of them.
type told struct {
	moments
	pods      map[types.UID]*corev1.Pod
	slices    map[string]*discoveryv1.EndpointSlice
	endpoints map[string]*corev1.Endpoints
	written
}

// written counts what was written so far.
type written struct {
	// bytes is the size of all slices and Endpoints.
	bytes int
	// idle are the updates of slices that changed nothing about endpoints that are
	// ready.
	idle int
}

// watchTold returns what is told in a namespace, once it has seen all there is.
func watchTold(ctx context.Context, client kubernetes.Interface, namespace string) (t *told, stop func(), err error) {
	t = &told{pods: map[types.UID]*corev1.Pod{}, slices: map[string]*discoveryv1.EndpointSlice{}, endpoints: map[string]*corev1.Endpoints{}}
	change := func(object metav1.Object, change func()) {
		if object.GetNamespace() == namespace {
			t.change(change)
		}
	}
	pod := func(p *corev1.Pod) { change(p, func() { t.pods[p.UID] = p }) }
	slice := func(s *discoveryv1.EndpointSlice) {
		change(s, func() {
			if old := t.slices[s.Name]; old != nil && maps.Equal(readyIn(old), readyIn(s)) {
				t.idle++
			}
			t.slices[s.Name] = s
			t.bytes += s.Size()
		})
	}
	endpoints := func(e *corev1.Endpoints) { change(e, func() { t.endpoints[e.Name] = e; t.bytes += e.Size() }) }
	stop, err = startInformers(ctx, client, func(factory informers.SharedInformerFactory) []cache.InformerSynced {
		return []cache.InformerSynced{
			controller.Handle(factory.Core().V1().Pods().Informer(), controller.Handlers[*corev1.Pod]{
				Add: pod, Update: func(_, p *corev1.Pod) { pod(p) },
				Delete: func(p *corev1.Pod) { change(p, func() { delete(t.pods, p.UID) }) },
			}),
			controller.Handle(factory.Discovery().V1().EndpointSlices().Informer(), controller.Handlers[*discoveryv1.EndpointSlice]{
				Add: slice, Update: func(_, s *discoveryv1.EndpointSlice) { slice(s) },
				Delete: func(s *discoveryv1.EndpointSlice) { change(s, func() { delete(t.slices, s.Name) }) },
			}),
			controller.Handle(factory.Core().V1().Endpoints().Informer(), controller.Handlers[*corev1.Endpoints]{
				Add: endpoints, Update: func(_, e *corev1.Endpoints) { endpoints(e) },
			}),
		}
	})
	return t, stop, err
}

// readyIn returns the pods that a slice says are ready.
func readyIn(slice *discoveryv1.EndpointSlice) map[types.UID]bool {
	ready := map[types.UID]bool{}
	for _, endpoint := range slice.Endpoints {
		if *endpoint.Conditions.Ready {
			ready[endpoint.TargetRef.UID] = true
		}
	}
	return ready
}

// settled tells whether n pods are Ready and not going, all of them with an image.
func (t *told) settled(n int, image string) bool {
	ready := 0
	for _, pod := range t.pods {
		if isReady(pod) && pod.DeletionTimestamp == nil {
			if pod.Spec.Containers[0].Image != image {
				return false
			}
			ready++
		}
	}
	return ready == n
}

// isRight tells whether slices and Endpoints have n ready pods, and none of them is
// going or gone.
func (t *told) isRight(n int) bool {
	if t.ready() != [2]int{n, n} {
		return false
	}
	for _, slice := range t.slices {
		for uid := range readyIn(slice) {
			if pod := t.pods[uid]; pod == nil || pod.DeletionTimestamp != nil {
				return false
			}
		}
	}
	return true
}

// isClean tells whether slices tell of n pods, all of those there are.
func (t *told) isClean(n int) bool {
	endpoints := 0
	for _, slice := range t.slices {
		endpoints += len(slice.Endpoints)
	}
	return endpoints == n && len(t.pods) == n
}

// ready counts the endpoints of slices and the addresses of Endpoints that are
// ready.
func (t *told) ready() [2]int {
	var n [2]int
	for _, slice := range t.slices {
		n[0] += len(readyIn(slice))
	}
	for _, endpoints := range t.endpoints {
		for _, subset := range endpoints.Subsets {
			n[1] += len(subset.Addresses)
		}
	}
	return n
}

// services counts the Services of which both forms tell.
func (t *told) services() int { return min(len(t.slices), len(t.endpoints)) }

func (t *told) soFar() written {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// await waits until a condition is true.
func (t *told) await(ctx context.Context, what string, condition func() bool) (time.Time, error) {
	return t.wait(ctx, what, t.when(condition), func() string {
		return fmt.Sprintf("%d pods, ready in slices and Endpoints: %v", len(t.pods), t.ready())
	})
}
