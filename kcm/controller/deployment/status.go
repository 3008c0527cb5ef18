package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// statusOf adds up the status of the ReplicaSets. It says nothing new about
// progress: those conditions stay as they are.
func statusOf(seen observed) appsv1.DeploymentStatus {
	d, all := seen.deployment, seen.all()
	availableNow := sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas })
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		Replicas:            sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }),
		ReadyReplicas:       sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas }),
		AvailableReplicas:   availableNow,
		UnavailableReplicas: max(0, sum(all, size)-availableNow),
		CollisionCount:      d.Status.CollisionCount,
		Conditions:          d.Status.Conditions,
	}
	if seen.countsTerminating {
		status.TerminatingReplicas = terminating(all)
	}
	if seen.newRS != nil {
		status.UpdatedReplicas = seen.newRS.Status.Replicas
	}
	if availableNow >= minAvailable(d) {
		setCondition(&status, newCondition(seen.now, appsv1.DeploymentAvailable, corev1.ConditionTrue,
			reasonAvailable, "Deployment has minimum availability."))
	} else {
		setCondition(&status, newCondition(seen.now, appsv1.DeploymentAvailable, corev1.ConditionFalse,
			reasonUnavailable, "Deployment does not have minimum availability."))
	}
	return status
}

// terminating adds up the pods that are being deleted (KEP-3973). It is nil,
// for unknown, when a ReplicaSet does not say; one that its own loop has not
// looked at yet has none.
func terminating(replicaSets []*appsv1.ReplicaSet) *int32 {
	for _, rs := range replicaSets {
		if rs.Status.TerminatingReplicas == nil && rs.Status.ObservedGeneration != 0 {
			return nil
		}
	}
	return new(sum(replicaSets, func(rs *appsv1.ReplicaSet) int32 { return ptr.Deref(rs.Status.TerminatingReplicas, 0) }))
}

// complete tells whether a status is that of a finished rollout: all pods that
// are wanted are there, of the new version and available, and no others.
func complete(d *appsv1.Deployment, status appsv1.DeploymentStatus) bool {
	wanted := *d.Spec.Replicas
	return status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted &&
		status.ObservedGeneration >= d.Generation
}

// withStatus adds a status to a plan, unless the deployment has it already.
func (p plan) withStatus(seen observed, status appsv1.DeploymentStatus) plan {
	p.status = rewritten(seen.deployment, status, seen.deployment.Annotations[revisionAnnotation])
	return p
}

// rewritten returns a copy of the deployment with that status and revision, or
// nil if it has both already.
func rewritten(d *appsv1.Deployment, status appsv1.DeploymentStatus, revision string) *appsv1.Deployment {
	if d.Annotations[revisionAnnotation] == revision && equality.Semantic.DeepEqual(d.Status, status) {
		return nil
	}
	d = d.DeepCopy()
	d.Status = *status.DeepCopy()
	if d.Annotations[revisionAnnotation] != revision {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionAnnotation, revision)
	}
	return d
}
