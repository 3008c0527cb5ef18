package faults

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Some invariants count for a loop that is left alone. When a user deletes a pod at the moment at which the loop
// deletes another one, fewer are left than either wanted; when a Deployment is changed in the middle of a rollout, its
// ReplicaSets still carry out what they were told before. So available, too-few and recreate do not count for what
// users have disturbed, until it has for a time been whole again.

// aftermath is for how long what was disturbed remains so at least: as long as a cache may be late, and the loop busy
// with what it shows.
const aftermath = 2 * lateness

// notice notices how users disturb what there is, and what is whole again.
func (j *Judge) notice() {
	for _, o := range j.meddledWith() {
		j.disturbed[o.GetUID()] = j.at
	}
	for uid, since := range j.disturbed {
		whole := j.world[uid] == nil // what has gone is disturbed by nobody
		switch o := j.world[uid].(type) {
		case *appsv1.ReplicaSet:
			whole = j.hasAllPods(o)
		case *appsv1.Deployment:
			whole = j.isRolledOut(o)
		}
		if whole && j.at.Sub(since) > aftermath {
			delete(j.disturbed, uid)
		}
	}
}

func (j *Judge) isDisturbed(o metav1.Object) bool {
	_, disturbed := j.disturbed[o.GetUID()]
	return disturbed
}

// meddledWith returns whom a change of a user disturbs, or nobody.
func (j *Judge) meddledWith() []metav1.Object {
	switch was := j.was.(type) {
	case *appsv1.Deployment:
		// The world has its ReplicaSets and pods, which the change has not touched yet.
		if j.is != nil && j.is.GetGeneration() != was.Generation && !j.isRolledOut(was) {
			return []metav1.Object{j.is}
		}
	case *appsv1.ReplicaSet:
		if j.is == nil {
			return nil
		}
		is := j.is.(*appsv1.ReplicaSet)
		relabelled := is.Labels[appLabel] != was.Labels[appLabel]
		if relabelled {
			j.relabelled[appOf(is)] = true
		}
		if d := j.deploymentOf(is); d != nil && (relabelled || j.deploymentOf(was) == nil) {
			return []metav1.Object{d}
		}
	case *corev1.Pod:
		deleted := j.isDeletion() && j.deleted[was.UID]
		relabelled := j.is != nil && j.is.GetLabels()[appLabel] != was.Labels[appLabel]
		if deleted || relabelled {
			return j.ownersOf(was)
		}
		if j.is != nil && ownerOf[*appsv1.ReplicaSet](j.world, was) == nil {
			return j.ownersOf(j.is.(*corev1.Pod)) // it is adopted
		}
	}
	return nil
}

// ownersOf returns the ReplicaSet of a pod and the Deployment of that, as far as there are such.
func (j *Judge) ownersOf(pod *corev1.Pod) (owners []metav1.Object) {
	rs := ownerOf[*appsv1.ReplicaSet](j.world, pod)
	if rs == nil {
		return nil
	}
	owners = append(owners, rs)
	if d := j.deploymentOf(rs); d != nil {
		owners = append(owners, d)
	}
	return owners
}

// hasAllPods tells whether a ReplicaSet has the pods that it is asked for, and its loop knows it.
func (w world) hasAllPods(rs *appsv1.ReplicaSet) bool {
	n := size(rs.Spec.Replicas)
	return rs.Status.ObservedGeneration == rs.Generation && rs.Status.Replicas == n && count(w.podsOf(rs), isActive) == n
}

// isRolledOut tells whether a Deployment has the pods that it is asked for and no others, all available, and its loop
// knows it.
func (w world) isRolledOut(d *appsv1.Deployment) bool {
	n, asked, available := size(d.Spec.Replicas), int32(0), int32(0)
	for _, rs := range w.setsOf(d) {
		if !w.hasAllPods(rs) {
			return false
		}
		asked += size(rs.Spec.Replicas)
		available += count(w.podsOf(rs), isAvailable)
	}
	s := d.Status
	return s.ObservedGeneration == d.Generation && asked == n && available == n &&
		s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n
}

// appLabel is the label by which the selectors of the lab find their own.
const appLabel = "app"

func appOf(rs *appsv1.ReplicaSet) string { return rs.Spec.Selector.MatchLabels[appLabel] }
