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
	broken func(m *moment) string
}

// Invariants are all that are checked. Each looks at what a change does, and not
// only at what is there after it: a user may ask for less than there is.
var Invariants = []Invariant{
	{"surge", "deployments", "a Deployment asks its ReplicaSets for no more than replicas + maxSurge", surge},
	{"available", "deployments", "no available pod of a Deployment is taken away below replicas - maxUnavailable", available},
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
	{"bare", "daemonsets", "no available pod of a DaemonSet is taken away with which more than maxUnavailable nodes have none", bare},
	{"told-twice", "endpointslices", "a pod of a Service is in one slice, and once", toldTwice},
	{"above-quota", "resourcequotas", "a namespace has no more than its quota allows", aboveQuota},
}

// moment is one change, and the world after it.
type moment struct {
	*World
	deleted map[types.UID]bool // pods that users have deleted
	at      time.Time
	was, is metav1.Object // nil is none
	// deployments and sets are the versions of each that its loop may still go by:
	// from the one on that it has observed.
	deployments map[types.UID][]*appsv1.Deployment
	sets        map[types.UID][]*appsv1.ReplicaSet
	disturbed   map[types.UID]time.Time // since when, see disturb
	relabelled  map[string]bool         // by a Deployment's app, whether users have taken ReplicaSets out or in
}

// Violation is an invariant that a change has broken.
type Violation struct {
	Invariant string
	// Says is what was wrong.
	Says string
	// Change is the number of the change that did it.
	Change int
}

// check returns what is wrong in a history, for each invariant the first.
func check(changes []history.Change) ([]Violation, error) {
	var violations []Violation
	j := NewJudge()
	for _, change := range changes {
		broken, err := j.Look(change)
		if err != nil {
			return nil, err
		}
		violations = append(violations, broken...)
	}
	return violations, nil
}

// Judge holds the invariants against changes as they come.
type Judge struct {
	*moment
	seen   int
	broken map[string]bool
}

// NewJudge returns who has seen nothing yet.
func NewJudge() *Judge {
	return &Judge{broken: map[string]bool{}, moment: &moment{
		World: newWorld(), deleted: map[types.UID]bool{}, disturbed: map[types.UID]time.Time{}, relabelled: map[string]bool{},
		deployments: map[types.UID][]*appsv1.Deployment{}, sets: map[types.UID][]*appsv1.ReplicaSet{},
	}}
}

// Deletes says that a user is about to delete a pod, so that no loop is blamed.
func (j *Judge) Deletes(pod types.UID) { j.deleted[pod] = true }

// Look returns the invariants that the next change breaks and that none before it
// has broken. The changes have to come in the order of their versions.
func (j *Judge) Look(change history.Change) (violations []Violation, err error) {
	if j.was, j.is, err = j.apply(change); err != nil {
		return nil, err
	}
	j.at = change.Seen
	j.remember()
	j.seen++
	for _, invariant := range Invariants {
		if j.broken[invariant.Name] {
			continue
		}
		if says := invariant.broken(j.moment); says != "" {
			j.broken[invariant.Name] = true
			violations = append(violations, Violation{invariant.Name, says, j.seen - 1})
		}
	}
	return violations, nil
}

func (m *moment) remember() {
	switch is := m.is.(type) {
	case *appsv1.Deployment:
		m.deployments[is.UID] = unobserved(m.deployments[is.UID], is, is.Status.ObservedGeneration)
	case *appsv1.ReplicaSet:
		m.sets[is.UID] = unobserved(m.sets[is.UID], is, is.Status.ObservedGeneration)
	}
	m.notice()
}

// unobserved adds a version to others, and leaves out those that the loop has
// left behind.
func unobserved[O metav1.Object](versions []O, latest O, observed int64) []O {
	versions = slices.DeleteFunc(versions, func(o O) bool {
		return o.GetGeneration() < observed || o.GetGeneration() == latest.GetGeneration()
	})
	return append(versions, latest)
}

// stays tells whether an object is there and is not being deleted.
func stays(o metav1.Object) bool { return o.GetDeletionTimestamp() == nil }

// boundsOf are the widest of those of the versions that the loop may go by.
func (m *moment) boundsOf(d *appsv1.Deployment) (most, least int32) {
	most, least = bounds(d)
	for _, version := range m.deployments[d.UID] {
		otherMost, otherLeast := bounds(version)
		most, least = max(most, otherMost), min(least, otherLeast)
	}
	return most, least
}

// asked are the least and the most that a ReplicaSet was asked for by the versions
// that the loop may go by.
func (m *moment) asked(rs *appsv1.ReplicaSet) (least, most int32) {
	least, most = size(rs.Spec.Replicas), size(rs.Spec.Replicas)
	for _, version := range m.sets[rs.UID] {
		least, most = min(least, size(version.Spec.Replicas)), max(most, size(version.Spec.Replicas))
	}
	return least, most
}

// surge looks at a ReplicaSet that grows or is made. Who lowers a Deployment's size
// leaves more than its bound until the loop has seen it, so what shrinks is
// never wrong.
func surge(m *moment) string {
	rs, is := m.is.(*appsv1.ReplicaSet)
	if !is {
		return ""
	}
	d := m.deploymentOf(rs)
	if d == nil || !stays(d) {
		return ""
	}
	former := int32(0)
	if was, before := m.was.(*appsv1.ReplicaSet); before {
		former = size(was.Spec.Replicas) // also if it joins: users may have made it
	}
	sum := int32(0)
	for _, each := range m.setsOf(d) {
		sum += size(each.Spec.Replicas)
	}
	if most, _ := m.boundsOf(d); size(rs.Spec.Replicas) > former && sum > most {
		return fmt.Sprintf("%s now asks for %d, and all ReplicaSets of %s for %d; %d are allowed", rs.Name, size(rs.Spec.Replicas), d.Name, sum, most)
	}
	return ""
}

// available looks at a pod that was available and is being deleted now. It counts
// who goes below the bound: who has asked for more is below it, and what the loop
// has set going before still goes on.
func available(m *moment) string {
	pod := m.deletedNow()
	if pod == nil || !isAvailable(pod) {
		return ""
	}
	rs := m.setOf(pod)
	if rs == nil || m.deploymentOf(rs) == nil || !stays(m.deploymentOf(rs)) {
		return ""
	}
	d, left := m.deploymentOf(rs), int32(0)
	for _, each := range m.setsOf(d) {
		left += count(m.podsOf(each), isAvailable)
	}
	if _, least := m.boundsOf(d); left == least-1 && !m.isDisturbed(d) {
		return fmt.Sprintf("available pod %s was deleted, and %s has %d available pods left; %d are the least", pod.Name, d.Name, left, least)
	}
	return ""
}

// deletedNow returns the pod as it was whose deletion the change begins, or nil.
// One that has gone at once was deleted, too.
func (m *moment) deletedNow() *corev1.Pod {
	was, before := m.was.(*corev1.Pod)
	if before && stays(was) && (m.is == nil || !stays(m.is)) {
		return was
	}
	return nil
}

// tooMany looks at a pod that is new. A loop that is about to make pods may do so
// a moment after somebody has asked for fewer, so what it has not observed yet
// counts, too.
func tooMany(m *moment) string {
	pod, is := m.is.(*corev1.Pod)
	if !is || m.was != nil || m.setOf(pod) == nil {
		return ""
	}
	rs := m.setOf(pod)
	active := count(m.podsOf(rs), isActive)
	if _, most := m.asked(rs); active > most {
		return fmt.Sprintf("%s was made, and %s has %d pods; it is asked for %d", pod.Name, rs.Name, active, most)
	}
	return ""
}

// tooFew looks at a pod whose deletion begins. A loop may delete a moment after
// somebody has asked for more, so what it has not observed yet counts, too.
func tooFew(m *moment) string {
	pod := m.deletedNow()
	if pod == nil || !isActive(pod) || m.setOf(pod) == nil || !stays(m.setOf(pod)) {
		return ""
	}
	rs := m.setOf(pod)
	if d := m.deploymentOf(rs); d != nil && !stays(d) {
		return "" // the collector deletes what it owns in any order
	}
	least, _ := m.asked(rs)
	if active := count(m.podsOf(rs), isActive); active < least && !m.isDisturbed(rs) {
		return fmt.Sprintf("%s was deleted, and %s has %d pods left; it is asked for %d", pod.Name, rs.Name, active, least)
	}
	return ""
}

func twins(m *moment) string {
	rs, is := m.is.(*appsv1.ReplicaSet)
	if !is || !stays(rs) || m.deploymentOf(rs) == nil || m.relabelled[appOf(rs)] {
		return ""
	}
	for _, other := range m.setsOf(m.deploymentOf(rs)) {
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

func oneOwner(m *moment) string {
	pod, is := m.is.(*corev1.Pod)
	if !is || len(pod.OwnerReferences) <= 1 {
		return ""
	}
	return fmt.Sprintf("%s has %d owners", pod.Name, len(pod.OwnerReferences))
}

// orphaned looks at an object that has lost its owner. Its labels have to match
// no more, or its owner goes.
func orphaned(m *moment) string {
	if m.was == nil || m.is == nil || metav1.GetControllerOf(m.was) == nil || metav1.GetControllerOf(m.is) != nil {
		return ""
	}
	uid := metav1.GetControllerOf(m.was).UID
	var selector *metav1.LabelSelector
	var owner metav1.Object
	if rs := m.ReplicaSets[uid]; rs != nil {
		selector, owner = rs.Spec.Selector, rs
	} else if d := m.Deployments[uid]; d != nil {
		selector, owner = d.Spec.Selector, d
	} else {
		return ""
	}
	for key, value := range selector.MatchLabels {
		if m.is.GetLabels()[key] != value {
			return ""
		}
	}
	if !stays(owner) || !stays(m.is) {
		return ""
	}
	return fmt.Sprintf("%s was taken from %s, whose selector it matches", m.is.GetName(), owner.GetName())
}

func recreate(m *moment) string {
	pod, is := m.is.(*corev1.Pod)
	if !is || m.was != nil || m.setOf(pod) == nil {
		return ""
	}
	rs := m.setOf(pod)
	d := m.deploymentOf(rs)
	if d == nil || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || m.isDisturbed(d) {
		return ""
	}
	for _, other := range m.setsOf(d) {
		if other.UID == rs.UID {
			continue
		}
		for _, old := range m.podsOf(other) {
			if old.Status.Phase != corev1.PodSucceeded && old.Status.Phase != corev1.PodFailed {
				return fmt.Sprintf("%s was made while %s of %s is there", pod.Name, old.Name, other.Name)
			}
		}
	}
	return ""
}

// countedTwice looks at a Job's status. A pod is in the counter or in the list.
func countedTwice(m *moment) string {
	job, is := m.is.(*batchv1.Job)
	if !is {
		return ""
	}
	counted := int(job.Status.Succeeded)
	if listed := job.Status.UncountedTerminatedPods; listed != nil {
		counted += len(listed.Succeeded)
	}
	if succeeded := count(m.podsOfJob(job), hasSucceeded); counted > int(succeeded) {
		return fmt.Sprintf("%s counts %d pods, and %d have succeeded", job.Name, counted, succeeded)
	}
	return ""
}

func hasSucceeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// uncounted looks at a pod whose finalizer goes.
func uncounted(m *moment) string {
	was, before := m.was.(*corev1.Pod)
	is, after := m.is.(*corev1.Pod)
	held := func(pod *corev1.Pod) bool { return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) }
	if !before || !after || !held(was) || held(is) || !hasSucceeded(is) || m.jobOf(is) == nil {
		return ""
	}
	listed := m.jobOf(is).Status.UncountedTerminatedPods
	if listed == nil || !slices.Contains(listed.Succeeded, is.UID) {
		return fmt.Sprintf("%s has lost its finalizer, and its Job does not know that it has succeeded", is.Name)
	}
	return ""
}

// parallelism looks at a pod that is new.
func parallelism(m *moment) string {
	pod, is := m.is.(*corev1.Pod)
	if !is || m.was != nil || m.jobOf(pod) == nil {
		return ""
	}
	job := m.jobOf(pod)
	if active := count(m.podsOfJob(job), isActive); active > size(job.Spec.Parallelism) {
		return fmt.Sprintf("%s was made, and %s has %d pods that run; %d may", pod.Name, job.Name, active, size(job.Spec.Parallelism))
	}
	return ""
}

// toldTwice looks at a slice that was written. All slices of a workload have the
// same ports and one family.
func toldTwice(m *moment) string {
	slice, is := m.is.(*discoveryv1.EndpointSlice)
	if !is {
		return ""
	}
	told, _ := m.toldOf()
	for _, endpoint := range slice.Endpoints {
		if n := len(told[endpoint.TargetRef.UID]); n > 1 {
			return fmt.Sprintf("slices tell of %s %d times", endpoint.TargetRef.Name, n)
		}
	}
	return ""
}
