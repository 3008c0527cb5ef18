package main

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

//lint:file-ignore SA1019 Endpoints are deprecated, and both write them.

// What is counted. What ends with a space is also counted for each image.
const (
	existing, ready, serving                = "pods", "pods Ready", "pods Ready and not going "
	deployments, replicas, complete         = "Deployments", "replicas of Deployments", "Deployments complete "
	completed, limited, gone                = "Jobs complete", "pods in a quota's status", "objects gone"
	slicesThere, endpointsThere             = "EndpointSlices", "Endpoints"
	endpointsInAll, readyInSlices           = "endpoints in slices", "endpoints ready in slices"
	readyInEndpoints, bytesSent, idleWrites = "addresses in Endpoints", "bytes written", "idle writes of slices"
)

func pods(w *watch) {
	count(w, w.Core().V1().Pods().Informer(), func(pod *corev1.Pod) tally {
		counts := tally{existing: 1}
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			counts[ready] = 1
			if pod.DeletionTimestamp == nil {
				counts[serving], counts[serving+pod.Spec.Containers[0].Image] = 1, 1
			}
		}
		return counts
	})
}

// rollouts counts Deployments. One is complete when its status says what `kubectl rollout status` waits for.
func rollouts(w *watch) {
	count(w, w.Apps().V1().Deployments().Informer(), func(d *appsv1.Deployment) tally {
		want, is := *d.Spec.Replicas, d.Status
		counts := tally{deployments: 1, replicas: int(want)}
		if is.ObservedGeneration >= d.Generation &&
			is.UpdatedReplicas == want && is.Replicas == want && is.AvailableReplicas == want {
			counts[complete], counts[complete+d.Spec.Template.Spec.Containers[0].Image] = 1, 1
		}
		return counts
	})
}

func jobs(w *watch) {
	count(w, w.Batch().V1().Jobs().Informer(), func(job *batchv1.Job) tally {
		if job.Status.CompletionTime == nil {
			return nil
		}
		return tally{completed: 1}
	})
}

func quotas(w *watch) {
	count(w, w.Core().V1().ResourceQuotas().Informer(), func(quota *corev1.ResourceQuota) tally {
		used := quota.Status.Used[corev1.ResourcePods]
		return tally{limited: int(used.Value())}
	})
}

// goers counts ConfigMaps and namespaces that have gone.
func goers(w *watch) {
	for _, informer := range []cache.SharedIndexInformer{
		w.Core().V1().ConfigMaps().Informer(), w.Core().V1().Namespaces().Informer(),
	} {
		count(w, informer, func(metav1.Object) tally { return nil })
	}
}

// told counts the pods of Services, and what is told of them.
func told(w *watch) {
	pods(w)
	count(w, w.Discovery().V1().EndpointSlices().Informer(), func(slice *discoveryv1.EndpointSlice) tally {
		return tally{slicesThere: 1, endpointsInAll: len(slice.Endpoints), readyInSlices: len(readyIn(slice))}
	}, func(old, new *discoveryv1.EndpointSlice) tally {
		if old != nil && maps.Equal(readyIn(old), readyIn(new)) {
			return tally{bytesSent: new.Size(), idleWrites: 1}
		}
		return tally{bytesSent: new.Size()}
	})
	count(w, w.Core().V1().Endpoints().Informer(), func(e *corev1.Endpoints) tally {
		counts := tally{endpointsThere: 1}
		for _, subset := range e.Subsets {
			counts[readyInEndpoints] += len(subset.Addresses)
		}
		return counts
	}, func(_, new *corev1.Endpoints) tally { return tally{bytesSent: new.Size()} })
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

// tellsTruth tells whether all pods that slices say are ready are there and not going.
func (w *watch) tellsTruth() bool {
	for _, obj := range w.objects {
		slice, ok := obj.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		for uid := range readyIn(slice) {
			if pod, ok := w.objects[uid]; !ok || pod.GetDeletionTimestamp() != nil {
				return false
			}
		}
	}
	return true
}

// firstWork counts what loops make of the work that waits for them: what an owner has, by its kind and
// name, and what has none, by its name.
func firstWork(w *watch) {
	core := w.Core().V1()
	for _, informer := range []cache.SharedIndexInformer{
		w.Apps().V1().ReplicaSets().Informer(), core.Pods().Informer(),
		core.ServiceAccounts().Informer(), core.ConfigMaps().Informer(),
	} {
		count(w, informer, func(obj metav1.Object) tally {
			if owner := metav1.GetControllerOf(obj); owner != nil {
				return tally{owner.Kind + " " + owner.Name: 1}
			}
			return tally{obj.GetName(): 1}
		})
	}
	count(w, core.Secrets().Informer(), func(secret *corev1.Secret) tally {
		return tally{secret.Name: min(1, len(secret.Data[corev1.ServiceAccountTokenKey]))}
	})
}
