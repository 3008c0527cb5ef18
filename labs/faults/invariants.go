package faults

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/labs/history"
)

// Invariant is what has to hold at every moment.
type Invariant struct {
	Name string
	// About is the resource of the objects to which it applies.
	About string
	// Says is the invariant as a sentence.
	Says string
	// broken says how a change breaks it, or nothing.
	broken func(j *Judge) string
}

// Invariants are all that are checked. Each looks at what a change does, and not only at what is there after it: a user
// may ask for less than there is.
var Invariants = []Invariant{
	{"surge", "deployments", "a Deployment asks its ReplicaSets for no more than replicas + maxSurge", surge},
	{"available", "deployments", "no available pod of a Deployment is taken away below replicas - maxUnavailable",
		available},
	{"too-many", "replicasets", "a ReplicaSet makes no pod when it has all that it was asked for", tooMany},
	{"too-few", "replicasets", "a ReplicaSet deletes no pod when it has no more than it is asked for", tooFew},
	{"twins", "deployments", "a Deployment has one ReplicaSet for a template", twins},
	{"one-owner", "pods", "a pod has one owner at most", oneOwner},
	{"orphaned", "pods", "what matches the selector of an owner that stays is not taken from it", orphaned},
	{"recreate", "deployments", "with Recreate, no pod of a new template is made while one of an old is there", recreate},
	{"counted-twice", "jobs", "a Job counts no more pods than have succeeded", countedTwice},
	{"uncounted", "jobs", "a pod that has succeeded is in its Job's status before its finalizer goes", uncounted},
	{"parallelism", "jobs", "a Job makes no pod when it has as many as may run", parallelism},
	{"pair", "daemonsets", "a node has one pod of a DaemonSet, and two of one that surges", pair},
	{"second", "daemonsets", "a DaemonSet makes second pods beside available ones on no more than maxSurge nodes", second},
	{"bare", "daemonsets",
		"no available pod of a DaemonSet is taken away with which more than maxUnavailable nodes have none", bare},
	{"told-twice", "endpointslices", "a pod of a Service is in one slice, and once", toldTwice},
	{"above-quota", "resourcequotas", "a namespace has no more than its quota allows", aboveQuota},
}

// Violation is an invariant that a change has broken.
type Violation struct {
	Invariant string
	// Says is what was wrong.
	Says string
	// Seen is when the change was seen that did it.
	Seen time.Time
}

// Judge holds the invariants against changes as they come.
type Judge struct {
	// world is what there is after the last change.
	world
	was, is metav1.Object // what it has changed; nil is none
	at      time.Time
	deleted map[types.UID]bool // pods that users have deleted
	// versions are those of each Deployment and ReplicaSet that its loop may still go by: from the one on that it has
	// observed.
	versions   map[types.UID][]metav1.Object
	disturbed  map[types.UID]time.Time // since when, see notice
	relabelled map[string]bool         // by a Deployment's app, whether users have taken ReplicaSets out or in
	broken     map[string]bool         // invariants, by name
}

// NewJudge returns who has seen nothing yet.
func NewJudge() *Judge {
	return &Judge{
		world: world{}, deleted: map[types.UID]bool{}, versions: map[types.UID][]metav1.Object{},
		disturbed: map[types.UID]time.Time{}, relabelled: map[string]bool{}, broken: map[string]bool{},
	}
}

// Deletes says that a user is about to delete a pod, so that no loop is blamed.
func (j *Judge) Deletes(pod types.UID) { j.deleted[pod] = true }

// Look returns the invariants that the next changes break and that none before has broken. The changes have to come in
// the order of their versions.
func (j *Judge) Look(changes ...history.Change) (violations []Violation, err error) {
	for _, change := range changes {
		if j.was, j.is, err = j.apply(change); err != nil {
			return nil, err
		}
		j.at = change.Seen
		j.remember()
		j.notice()
		for _, invariant := range Invariants {
			if j.broken[invariant.Name] {
				continue
			}
			if says := invariant.broken(j); says != "" {
				j.broken[invariant.Name] = true
				violations = append(violations, Violation{invariant.Name, says, change.Seen})
			}
		}
	}
	return violations, nil
}

// remember adds a version to others, and leaves out those that the loop has left behind.
func (j *Judge) remember() {
	var observed int64
	switch is := j.is.(type) {
	case *appsv1.Deployment:
		observed = is.Status.ObservedGeneration
	case *appsv1.ReplicaSet:
		observed = is.Status.ObservedGeneration
	default:
		return
	}
	uid, latest := j.is.GetUID(), j.is.GetGeneration()
	j.versions[uid] = append(slices.DeleteFunc(j.versions[uid], func(o metav1.Object) bool {
		return o.GetGeneration() < observed || o.GetGeneration() == latest
	}), j.is)
}

// boundsOf are the widest of those of the versions that the loop may go by.
func (j *Judge) boundsOf(d *appsv1.Deployment) (most, least int32) {
	most, least = bounds(d)
	for _, version := range j.versions[d.UID] {
		otherMost, otherLeast := bounds(version.(*appsv1.Deployment))
		most, least = max(most, otherMost), min(least, otherLeast)
	}
	return most, least
}

// asked are the least and the most that a ReplicaSet was asked for by the versions that the loop may go by.
func (j *Judge) asked(rs *appsv1.ReplicaSet) (least, most int32) {
	least, most = size(rs.Spec.Replicas), size(rs.Spec.Replicas)
	for _, version := range j.versions[rs.UID] {
		replicas := size(version.(*appsv1.ReplicaSet).Spec.Replicas)
		least, most = min(least, replicas), max(most, replicas)
	}
	return least, most
}

// surge looks at a ReplicaSet that grows or is made. Who lowers a Deployment's size leaves more than its bound until
// the loop has seen it, so what shrinks is never wrong.
func surge(j *Judge) string {
	rs, is := j.is.(*appsv1.ReplicaSet)
	if !is || j.deploymentOf(rs) == nil || !stays(j.deploymentOf(rs)) {
		return ""
	}
	d := j.deploymentOf(rs)
	former := int32(0)
	if was, before := j.was.(*appsv1.ReplicaSet); before {
		former = size(was.Spec.Replicas) // also if it joins: users may have made it
	}
	sum := int32(0)
	for _, each := range j.setsOf(d) {
		sum += size(each.Spec.Replicas)
	}
	if most, _ := j.boundsOf(d); size(rs.Spec.Replicas) > former && sum > most {
		return fmt.Sprintf("%s now asks for %d, and all ReplicaSets of %s for %d; %d are allowed",
			rs.Name, size(rs.Spec.Replicas), d.Name, sum, most)
	}
	return ""
}

// available looks at a pod that was available and is being deleted now. It counts who goes below the bound: who has
// asked for more is below it, and what the loop has set going before still goes on.
func available(j *Judge) string {
	pod, rs := deletedPod[*appsv1.ReplicaSet](j)
	if rs == nil || !isAvailable(pod) || j.deploymentOf(rs) == nil || !stays(j.deploymentOf(rs)) {
		return ""
	}
	d, left := j.deploymentOf(rs), int32(0)
	for _, each := range j.setsOf(d) {
		left += count(j.podsOf(each), isAvailable)
	}
	if _, least := j.boundsOf(d); left == least-1 && !j.isDisturbed(d) {
		return fmt.Sprintf("available pod %s was deleted, and %s has %d available pods left; %d are the least",
			pod.Name, d.Name, left, least)
	}
	return ""
}

// newPod returns the pod that the change makes, and the owner of a type, or nil.
func newPod[O metav1.Object](j *Judge) (pod *corev1.Pod, owner O) {
	if pod, is := j.is.(*corev1.Pod); is && j.was == nil {
		return pod, ownerOf[O](j.world, pod)
	}
	return nil, owner
}

// deletedPod returns the pod as it was whose deletion the change begins, and its owner of a type, or nil.
func deletedPod[O metav1.Object](j *Judge) (pod *corev1.Pod, owner O) {
	if pod, is := j.was.(*corev1.Pod); is && j.isDeletion() {
		return pod, ownerOf[O](j.world, pod)
	}
	return nil, owner
}

// isDeletion tells whether the change begins a deletion. What has gone at once was deleted, too.
func (j *Judge) isDeletion() bool {
	return j.was != nil && stays(j.was) && (j.is == nil || !stays(j.is))
}

// tooMany looks at a pod that is new. A loop that is about to make pods may do so a moment after somebody has asked for
// fewer, so what it has not observed yet counts, too.
func tooMany(j *Judge) string {
	pod, rs := newPod[*appsv1.ReplicaSet](j)
	if rs == nil {
		return ""
	}
	active := count(j.podsOf(rs), isActive)
	if _, most := j.asked(rs); active > most {
		return fmt.Sprintf("%s was made, and %s has %d pods; it is asked for %d", pod.Name, rs.Name, active, most)
	}
	return ""
}

// tooFew looks at a pod whose deletion begins. A loop may delete a moment after somebody has asked for more, so what it
// has not observed yet counts, too.
func tooFew(j *Judge) string {
	pod, rs := deletedPod[*appsv1.ReplicaSet](j)
	if rs == nil || !isActive(pod) || !stays(rs) {
		return ""
	}
	if d := j.deploymentOf(rs); d != nil && !stays(d) {
		return "" // the collector deletes what it owns in any order
	}
	least, _ := j.asked(rs)
	if active := count(j.podsOf(rs), isActive); active < least && !j.isDisturbed(rs) {
		return fmt.Sprintf("%s was deleted, and %s has %d pods left; it is asked for %d", pod.Name, rs.Name, active, least)
	}
	return ""
}

func twins(j *Judge) string {
	rs, is := j.is.(*appsv1.ReplicaSet)
	if !is || !stays(rs) || j.deploymentOf(rs) == nil || j.relabelled[appOf(rs)] {
		return ""
	}
	for _, other := range j.setsOf(j.deploymentOf(rs)) {
		if other.UID != rs.UID && stays(other) && equality.Semantic.DeepEqual(template(other), template(rs)) {
			return fmt.Sprintf("%s and %s have the same template", rs.Name, other.Name)
		}
	}
	return ""
}

// template is that of a ReplicaSet as its Deployment has it.
func template(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec {
	t := rs.Spec.Template.DeepCopy()
	delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return t
}

func oneOwner(j *Judge) string {
	pod, is := j.is.(*corev1.Pod)
	if !is || len(pod.OwnerReferences) <= 1 {
		return ""
	}
	return fmt.Sprintf("%s has %d owners", pod.Name, len(pod.OwnerReferences))
}

// orphaned looks at an object that has lost its owner. Its labels have to match no more, or its owner goes.
func orphaned(j *Judge) string {
	if j.was == nil || j.is == nil || metav1.GetControllerOf(j.was) == nil || metav1.GetControllerOf(j.is) != nil {
		return ""
	}
	var selector *metav1.LabelSelector
	owner := ownerOf[metav1.Object](j.world, j.was)
	switch owner := owner.(type) {
	case *appsv1.ReplicaSet:
		selector = owner.Spec.Selector
	case *appsv1.Deployment:
		selector = owner.Spec.Selector
	}
	matches := selector != nil && labels.SelectorFromSet(selector.MatchLabels).Matches(labels.Set(j.is.GetLabels()))
	if !matches || !stays(owner) || !stays(j.is) {
		return ""
	}
	return fmt.Sprintf("%s was taken from %s, whose selector it matches", j.is.GetName(), owner.GetName())
}

func recreate(j *Judge) string {
	pod, rs := newPod[*appsv1.ReplicaSet](j)
	if rs == nil {
		return ""
	}
	d := j.deploymentOf(rs)
	if d == nil || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || j.isDisturbed(d) {
		return ""
	}
	for _, other := range j.setsOf(d) {
		if other.UID == rs.UID {
			continue
		}
		for _, old := range j.podsOf(other) {
			if !hasEnded(old) {
				return fmt.Sprintf("%s was made while %s of %s is there", pod.Name, old.Name, other.Name)
			}
		}
	}
	return ""
}

// countedTwice looks at a Job's status. A pod is in the counter or in the list.
func countedTwice(j *Judge) string {
	job, is := j.is.(*batchv1.Job)
	if !is {
		return ""
	}
	counted := int(job.Status.Succeeded)
	if listed := job.Status.UncountedTerminatedPods; listed != nil {
		counted += len(listed.Succeeded)
	}
	if succeeded := count(j.podsOf(job), hasSucceeded); counted > int(succeeded) {
		return fmt.Sprintf("%s counts %d pods, and %d have succeeded", job.Name, counted, succeeded)
	}
	return ""
}

// uncounted looks at a pod whose finalizer goes.
func uncounted(j *Judge) string {
	was, before := j.was.(*corev1.Pod)
	is, after := j.is.(*corev1.Pod)
	held := func(pod *corev1.Pod) bool { return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) }
	if !before || !after || !held(was) || held(is) || !hasSucceeded(is) || ownerOf[*batchv1.Job](j.world, is) == nil {
		return ""
	}
	listed := ownerOf[*batchv1.Job](j.world, is).Status.UncountedTerminatedPods
	if listed == nil || !slices.Contains(listed.Succeeded, is.UID) {
		return fmt.Sprintf("%s has lost its finalizer, and its Job does not know that it has succeeded", is.Name)
	}
	return ""
}

// parallelism looks at a pod that is new.
func parallelism(j *Judge) string {
	pod, job := newPod[*batchv1.Job](j)
	if job == nil {
		return ""
	}
	if active, may := count(j.podsOf(job), isActive), size(job.Spec.Parallelism); active > may {
		return fmt.Sprintf("%s was made, and %s has %d pods that run; %d may", pod.Name, job.Name, active, may)
	}
	return ""
}

// toldTwice looks at a slice that was written. All slices of a workload have the same ports and one family.
func toldTwice(j *Judge) string {
	slice, is := j.is.(*discoveryv1.EndpointSlice)
	if !is {
		return ""
	}
	told := map[types.UID]int{}
	for _, each := range all(j.world, func(*discoveryv1.EndpointSlice) bool { return true }) {
		for _, endpoint := range each.Endpoints {
			told[endpoint.TargetRef.UID]++
		}
	}
	for _, endpoint := range slice.Endpoints {
		if n := told[endpoint.TargetRef.UID]; n > 1 {
			return fmt.Sprintf("slices tell of %s %d times", endpoint.TargetRef.Name, n)
		}
	}
	return ""
}

// aboveQuota looks at what is there of what the workloads limit. No user lowers the limits. A pod that has ended uses
// nothing, and one that is on its way out does.
func aboveQuota(j *Judge) string {
	is := map[corev1.ResourceName]int{
		corev1.ResourcePods: len(all(j.world, func(pod *corev1.Pod) bool { return !hasEnded(pod) })),
		"count/configmaps":  len(all(j.world, func(*corev1.ConfigMap) bool { return true })),
	}
	for _, quota := range all(j.world, func(*corev1.ResourceQuota) bool { return true }) {
		for name, hard := range quota.Spec.Hard {
			if is[name] > int(hard.Value()) {
				return fmt.Sprintf("%s of %s is %d; %d are allowed", name, quota.Name, is[name], hard.Value())
			}
		}
	}
	return ""
}
