package deployment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// plan is what one round is going to do. Most plans have a single step, and
// the status that goes with it.
type plan struct {
	// create is the new ReplicaSet. How its creation goes decides about the
	// status, so a plan that has it has nothing else.
	create *appsv1.ReplicaSet
	// change, remove and spec are done in order, up to the first that fails.
	change []change
	remove []*appsv1.ReplicaSet
	// spec is the deployment as it is to be after a rollback.
	spec *appsv1.Deployment
	// status is the deployment with its new status, nil if that stays.
	status *appsv1.Deployment
	// event is recorded after all this has been done.
	event *event
	// recheckAfter is when to look again if nothing happens; zero is never.
	recheckAfter time.Duration
}

// change is a ReplicaSet as it is and as it is to be.
type change struct{ from, to *appsv1.ReplicaSet }

type event struct{ kind, reason, message string }

// decide returns the next step for a deployment, or a plan that changes
// nothing once it is as it should be.
func decide(seen observed) plan {
	d := seen.deployment
	switch {
	case selectsEverything(d):
		return refuse(seen)
	case d.DeletionTimestamp != nil:
		return plan{}.withStatus(seen, statusOf(seen))
	case d.Spec.Paused:
		return paused(seen)
	case wantsRollback(d):
		return rollback(seen)
	case wasScaled(seen):
		return plan{change: scale(seen)}.withStatus(seen, statusOf(seen))
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return recreate(seen)
	default:
		return rollingUpdate(seen)
	}
}

// refuse leaves alone a deployment whose selector matches everything, or it
// would adopt every ReplicaSet in the namespace.
func refuse(seen observed) plan {
	p := plan{event: &event{corev1.EventTypeWarning, "SelectingAll",
		"This deployment is selecting all pods. A non-empty selector is required."}}
	status := *seen.deployment.Status.DeepCopy()
	status.ObservedGeneration = seen.deployment.Generation
	return p.withStatus(seen, status)
}

// updateNew returns the new ReplicaSet with the annotations of the deployment,
// a revision above all others and the present minReadySeconds, or nil if it
// has all that. A change of these is no change of the template and starts no
// rollout.
func updateNew(seen observed) *appsv1.ReplicaSet {
	d, rs := seen.deployment, seen.newRS
	if rs == nil {
		return nil
	}
	annotations := annotationsOfNew(d, rs.Annotations, nextRevision(seen.oldRSs))
	if maps.Equal(annotations, rs.Annotations) && rs.Spec.MinReadySeconds == d.Spec.MinReadySeconds {
		return nil
	}
	rs = rs.DeepCopy()
	rs.Annotations = annotations
	rs.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	return rs
}

// noteRevision returns the deployment with the revision of its new ReplicaSet
// and with a time from which progress can be measured, or nil if it has both.
// The second is lacking when a deadline was set, or a ReplicaSet adopted, after
// the rollout had begun.
func noteRevision(seen observed) *appsv1.Deployment {
	d, rs := seen.deployment, seen.newRS
	if rs == nil {
		return nil
	}
	status := *d.Status.DeepCopy()
	if hasProgressDeadline(d) && findCondition(status, appsv1.DeploymentProgressing) == nil {
		setCondition(&status, newCondition(seen.now, appsv1.DeploymentProgressing, corev1.ConditionTrue,
			reasonFoundNewReplicaSet, fmt.Sprintf("Found new replica set %q", rs.Name)))
	}
	return rewritten(d, status, rs.Annotations[revisionAnnotation])
}

// paused scales a deployment that is not to be rolled out any further, and
// tidies up, but for what it gives pods in the same round. A rollback that waits
// for the pause to end may still need what would be tidied away.
func paused(seen observed) plan {
	p := plan{change: scale(seen)}
	if !wantsRollback(seen.deployment) {
		p.remove = slices.DeleteFunc(expired(seen), func(rs *appsv1.ReplicaSet) bool {
			return slices.ContainsFunc(p.change, func(c change) bool { return c.from == rs })
		})
	}
	return p.withStatus(seen, statusOf(seen))
}
