package faults

//lint:file-ignore SA1019 Endpoints are deprecated, and a workload is about them.

import (
	"fmt"
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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/labs/history"
)

// world is what there is in a namespace at one moment. A ReplicationController is a ReplicaSet there: it has the same
// fields, and the same rules hold for it.
type world map[types.UID]metav1.Object

// apply makes a change, and returns the object before and after it; nil is none.
func (w world) apply(c history.Change) (was, is metav1.Object, err error) {
	uid := c.Object.GetUID()
	was = w[uid]
	if c.Type == watch.Deleted {
		delete(w, uid)
		return was, nil, nil
	}
	object := c.Object
	if object.GetKind() == "ReplicationController" {
		object = asReplicaSet(object)
	}
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	w[uid] = typed.(metav1.Object)
	return was, w[uid], nil
}

// asReplicaSet returns a ReplicationController with the selector of a ReplicaSet.
func asReplicaSet(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	selector, _, _ := unstructured.NestedMap(object.Object, "spec", "selector") // the API server fills it in
	_ = unstructured.SetNestedMap(object.Object, map[string]any{"matchLabels": selector}, "spec", "selector")
	return object
}

// all returns the objects of a type that are to be kept, by name.
func all[O metav1.Object](w world, keep func(O) bool) []O {
	var kept []O
	for _, object := range w {
		if o, is := object.(O); is && keep(o) {
			kept = append(kept, o)
		}
	}
	slices.SortFunc(kept, func(a, b O) int { return strings.Compare(a.GetName(), b.GetName()) })
	return kept
}

// ownerOf returns the object of a type that controls another one, or nil.
func ownerOf[O metav1.Object](w world, o metav1.Object) (owner O) {
	if reference := metav1.GetControllerOf(o); reference != nil {
		owner, _ = w[reference.UID].(O)
	}
	return owner
}

// setsOf returns the ReplicaSets that a Deployment owns, by name.
func (w world) setsOf(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	return all(w, func(rs *appsv1.ReplicaSet) bool { return metav1.IsControlledBy(rs, d) })
}

// podsOf returns the pods that an object owns, by name.
func (w world) podsOf(owner metav1.Object) []*corev1.Pod {
	return all(w, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, owner) })
}

// deploymentOf returns the Deployment that owns a ReplicaSet, or nil.
func (w world) deploymentOf(rs *appsv1.ReplicaSet) *appsv1.Deployment {
	return ownerOf[*appsv1.Deployment](w, rs)
}

// stays tells whether an object is there and is not being deleted.
func stays(o metav1.Object) bool { return o.GetDeletionTimestamp() == nil }

func hasSucceeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

func hasEnded(pod *corev1.Pod) bool {
	return hasSucceeded(pod) || pod.Status.Phase == corev1.PodFailed
}

// isActive tells whether a pod counts: it has not ended and is not being deleted.
func isActive(pod *corev1.Pod) bool { return stays(pod) && !hasEnded(pod) }

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
func size(replicas *int32) int32 { return ptr.Deref(replicas, 1) }

// bounds returns most, how many pods a Deployment may ask for at once, and least, how many have to be available while
// it takes pods away by itself.
func bounds(d *appsv1.Deployment) (most, least int32) {
	replicas := size(d.Spec.Replicas)
	rolling := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || rolling == nil {
		return replicas, 0
	}
	more, fewer := scaled(replicas, rolling.MaxSurge, rolling.MaxUnavailable, false)
	return replicas + more, replicas - fewer
}

// scaled are maxSurge and maxUnavailable of n as the API describes them: the one is rounded up, the other one up or
// down, and if both are 0 one may be unavailable.
func scaled(n int32, surge, unavailable *intstr.IntOrString, up bool) (more, fewer int32) {
	of := func(value *intstr.IntOrString, up bool) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(value, int(n), up)
		if err != nil { // also where there is none
			return 0
		}
		return int32(n)
	}
	more, fewer = of(surge, true), of(unavailable, up)
	if more == 0 && fewer == 0 {
		fewer = 1
	}
	return more, fewer
}

// endingOf describes what there is after some changes without what differs from run to run: names that are generated,
// times, and the order of creation.
func endingOf(changes []history.Change) (string, error) {
	w := world{}
	for _, objects := range history.Now(changes) {
		for _, object := range objects {
			if _, _, err := w.apply(history.Change{Object: object}); err != nil {
				return "", err
			}
		}
	}
	var lines []string
	for _, o := range w {
		name := ""
		if metav1.GetControllerOf(o) == nil && o.GetGenerateName() == "" {
			name = " " + o.GetName()
		}
		kind := o.(runtime.Object).GetObjectKind().GroupVersionKind().Kind
		lines = append(lines, kind+name+": "+w.describe(o))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// describe describes an object without its name, and without times.
func (w world) describe(o metav1.Object) string {
	var says []string
	say := func(format string, args ...any) { says = append(says, fmt.Sprintf(format, args...)) }
	switch o := o.(type) {
	case *appsv1.Deployment:
		say("%d replicas of %s, %d there, %d updated, %d available", size(o.Spec.Replicas), imageOf(o.Spec.Template.Spec),
			o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.AvailableReplicas)
		say("revision %s, generation observed %t", revisionOf(o), o.Generation == o.Status.ObservedGeneration)
		conditions := slices.SortedFunc(slices.Values(o.Status.Conditions), func(a, b appsv1.DeploymentCondition) int {
			return strings.Compare(string(a.Type), string(b.Type))
		})
		for _, c := range conditions {
			say("%s=%s (%s)", c.Type, c.Status, c.Reason)
		}
	case *appsv1.ReplicaSet:
		say("%d replicas of %s, %d there, %d available, revision %s", size(o.Spec.Replicas), imageOf(o.Spec.Template.Spec),
			o.Status.Replicas, o.Status.AvailableReplicas, revisionOf(o))
	case *appsv1.DaemonSet:
		status := o.Status
		say("%s, %d nodes, %d updated, %d available, %d misscheduled, generation observed %t", imageOf(o.Spec.Template.Spec),
			status.DesiredNumberScheduled, status.UpdatedNumberScheduled, status.NumberAvailable, status.NumberMisscheduled,
			o.Generation == status.ObservedGeneration)
	case *batchv1.Job:
		uncounted := ptr.Deref(o.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
		say("%d active, %d ready, %d succeeded, %d failed, %d written down, complete %t",
			o.Status.Active, ptr.Deref(o.Status.Ready, 0), o.Status.Succeeded, o.Status.Failed,
			len(uncounted.Succeeded)+len(uncounted.Failed), o.Status.CompletionTime != nil)
	case *corev1.Pod:
		state := string(o.Status.Phase)
		if isAvailable(o) {
			state = "available"
		}
		say("%s, %s, held %t, app %s", imageOf(o.Spec), state, len(o.Finalizers) > 0, o.Labels[appLabel])
	case *discoveryv1.EndpointSlice:
		ready := count(o.Endpoints, func(e discoveryv1.Endpoint) bool { return *e.Conditions.Ready })
		say("%d endpoints, %d ready", len(o.Endpoints), ready)
	case *corev1.Endpoints:
		for _, s := range o.Subsets {
			say("%d addresses, %d not ready", len(s.Addresses), len(s.NotReadyAddresses))
		}
	case *corev1.ResourceQuota:
		for name, hard := range o.Status.Hard {
			used := o.Status.Used[name]
			say("%s %s of %s", name, used.String(), hard.String())
		}
		slices.Sort(says)
	default:
		say("there")
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		gone := ""
		if w[owner.UID] == nil {
			gone = " that is gone"
		}
		say("of a %s%s", owner.Kind, gone)
	}
	if !stays(o) {
		say("is being deleted")
	}
	return strings.Join(says, ", ")
}

func imageOf(template corev1.PodSpec) string { return template.Containers[0].Image }

func revisionOf(o metav1.Object) string {
	return o.GetAnnotations()["deployment.kubernetes.io/revision"]
}
