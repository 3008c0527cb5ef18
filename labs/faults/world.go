package faults

//lint:file-ignore SA1019 Endpoints are deprecated, and a workload is about them.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/labs/history"
)

// World is what there is in a namespace at one moment.
type World struct {
	Deployments map[types.UID]*appsv1.Deployment
	// ReplicaSets are also the ReplicationControllers: they have the same fields,
	// and the same rules hold for them.
	ReplicaSets map[types.UID]*appsv1.ReplicaSet
	Pods        map[types.UID]*corev1.Pod
	DaemonSets  map[types.UID]*appsv1.DaemonSet
	Jobs        map[types.UID]*batchv1.Job
	Slices      map[types.UID]*discoveryv1.EndpointSlice
	Endpoints   map[types.UID]*corev1.Endpoints
	Quotas      map[types.UID]*corev1.ResourceQuota
	// Others are the names of all else that is recorded, by resource.
	Others map[string]map[string]bool
}

func newWorld() *World {
	return &World{
		map[types.UID]*appsv1.Deployment{}, map[types.UID]*appsv1.ReplicaSet{}, map[types.UID]*corev1.Pod{},
		map[types.UID]*appsv1.DaemonSet{}, map[types.UID]*batchv1.Job{},
		map[types.UID]*discoveryv1.EndpointSlice{}, map[types.UID]*corev1.Endpoints{}, map[types.UID]*corev1.ResourceQuota{}, map[string]map[string]bool{},
	}
}

// worldAfter returns what there is after some changes.
func worldAfter(changes []history.Change) (*World, error) {
	w := newWorld()
	for resource, objects := range history.Now(changes) {
		for _, object := range objects {
			if _, _, err := w.apply(history.Change{Type: watch.Added, Resource: resource, Object: object}); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// apply makes a change, and returns the object before and after it; nil is none.
func (w *World) apply(c history.Change) (was, is metav1.Object, err error) {
	gone := c.Type == watch.Deleted
	switch c.Resource {
	case "deployments":
		return put(w.Deployments, c.Object, gone)
	case "replicasets":
		return put(w.ReplicaSets, c.Object, gone)
	case "replicationcontrollers":
		return put(w.ReplicaSets, asReplicaSet(c.Object), gone)
	case "pods":
		return put(w.Pods, c.Object, gone)
	case "daemonsets":
		return put(w.DaemonSets, c.Object, gone)
	case "jobs":
		return put(w.Jobs, c.Object, gone)
	case "endpointslices":
		return put(w.Slices, c.Object, gone)
	case "endpoints":
		return put(w.Endpoints, c.Object, gone)
	case "resourcequotas":
		return put(w.Quotas, c.Object, gone)
	}
	if w.Others[c.Resource] == nil {
		w.Others[c.Resource] = map[string]bool{}
	}
	if gone {
		delete(w.Others[c.Resource], c.Object.GetName())
	} else {
		w.Others[c.Resource][c.Object.GetName()] = true
	}
	return nil, nil, nil
}

// asReplicaSet returns a ReplicationController with the selector of a ReplicaSet.
func asReplicaSet(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	selector, _, _ := unstructured.NestedMap(object.Object, "spec", "selector") // the API server fills it in
	_ = unstructured.SetNestedMap(object.Object, map[string]any{"matchLabels": selector}, "spec", "selector")
	return object
}

// put stores an object, or takes it away. It returns the one before and after.
func put[T any, O interface {
	*T
	metav1.Object
}](objects map[types.UID]O, object *unstructured.Unstructured, gone bool) (was, is metav1.Object, err error) {
	uid := object.GetUID()
	if before, found := objects[uid]; found {
		was = before
	}
	if gone {
		delete(objects, uid)
		return was, nil, nil
	}
	typed := O(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	objects[uid] = typed
	return was, typed, nil
}

// setsOf returns the ReplicaSets that a Deployment owns, by name.
func (w *World) setsOf(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	return sorted(w.ReplicaSets, func(rs *appsv1.ReplicaSet) bool { return metav1.IsControlledBy(rs, d) })
}

// podsOf returns the pods that a ReplicaSet owns, by name.
func (w *World) podsOf(rs *appsv1.ReplicaSet) []*corev1.Pod {
	return sorted(w.Pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, rs) })
}

// setOf returns the ReplicaSet that owns a pod, or nil.
func (w *World) setOf(pod *corev1.Pod) *appsv1.ReplicaSet {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return w.ReplicaSets[owner.UID]
	}
	return nil
}

// deploymentOf returns the Deployment that owns a ReplicaSet, or nil.
func (w *World) deploymentOf(rs *appsv1.ReplicaSet) *appsv1.Deployment {
	if owner := metav1.GetControllerOf(rs); owner != nil {
		return w.Deployments[owner.UID]
	}
	return nil
}

// jobOf returns the Job that owns a pod, or nil.
func (w *World) jobOf(pod *corev1.Pod) *batchv1.Job {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return w.Jobs[owner.UID]
	}
	return nil
}

// podsOfJob returns the pods that a Job owns, by name.
func (w *World) podsOfJob(job *batchv1.Job) []*corev1.Pod {
	return sorted(w.Pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, job) })
}

// job returns the Job of a name, or nil.
func readyIn(slice *discoveryv1.EndpointSlice) int32 {
	return count(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return *e.Conditions.Ready })
}

// toldOf returns the pods that slices and Endpoints tell of, as often as they do:
// true is ready.
func (w *World) toldOf() (slices, endpoints map[types.UID][]bool) {
	slices, endpoints = map[types.UID][]bool{}, map[types.UID][]bool{}
	for _, slice := range w.Slices {
		for _, e := range slice.Endpoints {
			slices[e.TargetRef.UID] = append(slices[e.TargetRef.UID], *e.Conditions.Ready)
		}
	}
	for _, object := range w.Endpoints {
		for _, subset := range object.Subsets {
			for _, address := range subset.Addresses {
				endpoints[address.TargetRef.UID] = append(endpoints[address.TargetRef.UID], true)
			}
			for _, address := range subset.NotReadyAddresses {
				endpoints[address.TargetRef.UID] = append(endpoints[address.TargetRef.UID], false)
			}
		}
	}
	return slices, endpoints
}

func sorted[O metav1.Object](objects map[types.UID]O, keep func(O) bool) []O {
	kept := slices.DeleteFunc(slices.Collect(maps.Values(objects)), func(o O) bool { return !keep(o) })
	slices.SortFunc(kept, func(a, b O) int { return strings.Compare(a.GetName(), b.GetName()) })
	return kept
}

// isActive tells whether a pod counts: it has not ended and is not being deleted.
func isActive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// isAvailable tells whether a pod serves. The workloads have no minReadySeconds.
func isAvailable(pod *corev1.Pod) bool {
	return isActive(pod) && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func count[O any](objects []O, is func(O) bool) (n int32) {
	for _, o := range objects {
		if is(o) {
			n++
		}
	}
	return n
}

// size is a number of replicas, of which nil means 1.
func size(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// bounds returns most, how many pods a Deployment may ask for at once, and least, how many have to
// be available while it takes pods away by itself. It is as the API describes
// maxSurge and maxUnavailable: the one is rounded up, the other down, and if both
// are 0 one pod may be unavailable.
func bounds(d *appsv1.Deployment) (most, least int32) {
	replicas := size(d.Spec.Replicas)
	rolling := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || rolling == nil {
		return replicas, 0
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, int(replicas), true)
	if err != nil {
		surge = 0
	}
	unavailable, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, int(replicas), false)
	if err != nil {
		unavailable = 0
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return replicas + int32(surge), replicas - int32(unavailable)
}

func imageOf(template corev1.PodSpec) string { return template.Containers[0].Image }

// Ending describes what there is without what differs from run to run: names,
// times, and the order of creation.
func (w *World) Ending() string {
	var lines []string
	for _, d := range w.Deployments {
		var conditions []string
		for _, c := range d.Status.Conditions {
			conditions = append(conditions, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
		}
		slices.Sort(conditions)
		lines = append(lines, fmt.Sprintf("deployment %s: %d replicas of %s, %d there, %d updated, %d available, revision %s, generation observed %t, %s",
			d.Name, size(d.Spec.Replicas), imageOf(d.Spec.Template.Spec), d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas,
			d.Annotations["deployment.kubernetes.io/revision"], d.Generation == d.Status.ObservedGeneration, strings.Join(conditions, " ")))
	}
	for _, rs := range w.ReplicaSets {
		owner := w.ownerOf(rs)
		lines = append(lines, fmt.Sprintf("replicaset of %s: %d replicas of %s, %d there, %d available, revision %s",
			owner, size(rs.Spec.Replicas), imageOf(rs.Spec.Template.Spec), rs.Status.Replicas, rs.Status.AvailableReplicas,
			rs.Annotations["deployment.kubernetes.io/revision"]))
	}
	for _, set := range w.DaemonSets {
		status := set.Status
		lines = append(lines, fmt.Sprintf("daemonset %s: %s, %d nodes, %d updated, %d available, %d misscheduled, generation observed %t", set.Name,
			imageOf(set.Spec.Template.Spec), status.DesiredNumberScheduled, status.UpdatedNumberScheduled, status.NumberAvailable,
			status.NumberMisscheduled, set.Generation == status.ObservedGeneration))
	}
	for _, job := range w.Jobs {
		status := job.Status
		lines = append(lines, fmt.Sprintf("job %s: %d active, %d ready, %d succeeded, %d failed, complete %t", job.Name,
			status.Active, ptr.Deref(status.Ready, 0), status.Succeeded, status.Failed, status.CompletionTime != nil))
	}
	for _, pod := range w.Pods {
		state := string(pod.Status.Phase)
		if isAvailable(pod) {
			state = "available"
		}
		lines = append(lines, fmt.Sprintf("pod of %s: %s, %s, deleted %t, held %t, labels %v", w.ownerOf(pod), imageOf(pod.Spec), state, pod.DeletionTimestamp != nil,
			len(pod.Finalizers) > 0, pod.Labels["app"]))
	}
	for _, slice := range w.Slices {
		lines = append(lines, fmt.Sprintf("slice of %s: %d endpoints, %d ready", w.ownerOf(slice), len(slice.Endpoints), readyIn(slice)))
	}
	for _, endpoints := range w.Endpoints {
		for _, s := range endpoints.Subsets {
			lines = append(lines, fmt.Sprintf("endpoints %s: %d addresses, %d not ready", endpoints.Name, len(s.Addresses), len(s.NotReadyAddresses)))
		}
	}
	for _, quota := range w.Quotas {
		lines = append(lines, "quota "+quota.Name+": "+usage(quota))
	}
	for resource, names := range w.Others {
		for name := range names {
			lines = append(lines, resource+" "+name)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ownerOf describes the controlling owner of an object.
func (w *World) ownerOf(o metav1.Object) string {
	owner := metav1.GetControllerOf(o)
	switch {
	case owner == nil:
		return "nobody"
	case w.Deployments[owner.UID] == nil && w.ReplicaSets[owner.UID] == nil && w.DaemonSets[owner.UID] == nil:
		return "a " + owner.Kind + " that is gone"
	}
	return "a " + owner.Kind
}
