package faults

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Some invariants count for a loop that is left alone. When a user deletes a pod
// at the moment at which the loop deletes another one, fewer are left than either
// wanted; when a Deployment is changed in the middle of a rollout, its
// ReplicaSets still carry out what they were told before. So available, too-few
// and recreate do not count for what users have disturbed, until it has for a
// time been whole again.

// aftermath is for how long what was disturbed remains so at least: as long as a
// cache may be late, and the loop busy with what it shows.
const aftermath = 2 * lateness

// notice notices how users disturb what there is, and what is whole again.
func (m *moment) notice() {
	for _, o := range m.meddledWith() {
		m.disturbed[o.GetUID()] = m.at
	}
	for uid, since := range m.disturbed {
		rs, d := m.ReplicaSets[uid], m.Deployments[uid]
		gone := rs == nil && d == nil
		whole := rs != nil && m.hasAllPods(rs) || d != nil && m.isRolledOut(d)
		if gone || whole && m.at.Sub(since) > aftermath {
			delete(m.disturbed, uid)
		}
	}
}

func (m *moment) isDisturbed(o metav1.Object) bool {
	_, disturbed := m.disturbed[o.GetUID()]
	return disturbed
}

// meddledWith returns whom a change of a user disturbs, or nobody.
func (m *moment) meddledWith() []metav1.Object {
	switch was := m.was.(type) {
	case *appsv1.Deployment:
		// World has its ReplicaSets and pods, which the change has not touched yet.
		if m.is != nil && m.is.GetGeneration() != was.Generation && !m.isRolledOut(was) {
			return []metav1.Object{m.is}
		}
	case *appsv1.ReplicaSet:
		if m.is == nil {
			return nil
		}
		is := m.is.(*appsv1.ReplicaSet)
		relabelled := is.Labels[appLabel] != was.Labels[appLabel]
		if relabelled {
			m.relabelled[appOf(is)] = true
		}
		if d := m.deploymentOf(is); d != nil && (relabelled || m.deploymentOf(was) == nil) {
			return []metav1.Object{d}
		}
	case *corev1.Pod:
		deleted := m.deletedNow() != nil && m.deleted[was.UID]
		relabelled := m.is != nil && m.is.GetLabels()[appLabel] != was.Labels[appLabel]
		if deleted || relabelled {
			return m.ownersOf(was)
		}
		if m.is != nil && m.setOf(was) == nil {
			return m.ownersOf(m.is.(*corev1.Pod)) // it is adopted
		}
	}
	return nil
}

// ownersOf returns the ReplicaSet of a pod and the Deployment of that, as far as
// there are such.
func (m *moment) ownersOf(pod *corev1.Pod) (owners []metav1.Object) {
	rs := m.setOf(pod)
	if rs == nil {
		return nil
	}
	owners = append(owners, rs)
	if d := m.deploymentOf(rs); d != nil {
		owners = append(owners, d)
	}
	return owners
}

// hasAllPods tells whether a ReplicaSet has the pods that it is asked for, and its
// loop knows it.
func (w *World) hasAllPods(rs *appsv1.ReplicaSet) bool {
	n := size(rs.Spec.Replicas)
	return rs.Status.ObservedGeneration == rs.Generation && rs.Status.Replicas == n && count(w.podsOf(rs), isActive) == n
}

// isRolledOut tells whether a Deployment has the pods that it is asked for and no
// others, all available, and its loop knows it.
func (w *World) isRolledOut(d *appsv1.Deployment) bool {
	n, asked, available := size(d.Spec.Replicas), int32(0), int32(0)
	for _, rs := range w.setsOf(d) {
		if !w.hasAllPods(rs) {
			return false
		}
		asked += size(rs.Spec.Replicas)
		available += count(w.podsOf(rs), isAvailable)
	}
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n && asked == n && available == n
}

// appLabel is the label by which the selectors of the lab find their own.
const appLabel = "app"

func appOf(rs *appsv1.ReplicaSet) string { return rs.Spec.Selector.MatchLabels[appLabel] }
