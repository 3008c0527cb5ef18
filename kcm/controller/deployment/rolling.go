package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
)

// rollingUpdate replaces old pods by new ones a few at a time: it asks for as many
// new pods as the upper bound allows, then takes as many old ones away as the lower
// bound allows, and so on as the new pods become available.
func rollingUpdate(seen observed) plan {
	if seen.newRS == nil {
		return plan{create: newReplicaSet(seen)}
	}
	changes := resize(seen.deployment, seen.newRS, sizeOfNew(seen))
	if len(changes) == 0 {
		changes = shrinkOld(seen)
	}
	if len(changes) > 0 {
		return plan{change: changes}.withRolloutStatus(seen)
	}
	return finish(seen, nil)
}

// sizeOfNew returns the size that the new ReplicaSet may have now, also before
// it is there: as large as wanted, if the deployment does not get above its upper
// bound by that. It shrinks only if it has more than is wanted, whatever the bound.
func sizeOfNew(seen observed) int32 {
	d := seen.deployment
	var now int32
	if seen.newRS != nil {
		now = size(seen.newRS)
	}
	room := max(0, maxTotal(d)-sum(seen.all(), size))
	return min(now+room, *d.Spec.Replicas)
}

// shrinkOld returns the changes that make old ReplicaSets smaller, the oldest
// first and each in one change, for a deployment that has a new ReplicaSet.
// It keeps two promises. What serves stays, as far as it is needed. And enough
// could serve, even if no other pod of the new ReplicaSet ever becomes available.
// All that may go goes: that an old pod is not available is no reason to keep it
// (https://github.com/kubernetes/kubernetes/issues/16737).
func shrinkOld(seen observed) []change {
	all, least := seen.all(), minAvailable(seen.deployment)
	// New pods that are not available yet cannot stand in for old ones: they
	// may turn out never to be.
	pending := size(seen.newRS) - available(seen.newRS)
	dispensable := max(0, sum(all, size)-pending-least)
	spare := max(0, sum(all, available)-least)

	var changes []change
	for _, rs := range seen.oldRSs {
		unavailable := min(dispensable, size(rs)-available(rs))
		dispensable -= unavailable
		surplus := min(spare, available(rs))
		spare -= surplus
		changes = append(changes, resize(seen.deployment, rs, size(rs)-unavailable-surplus)...)
	}
	return changes
}

// finish plans a round in which no old ReplicaSet has to change: the given changes of
// the new one, tidying up once the rollout is complete, and the status.
func finish(seen observed, changes []change) plan {
	p := plan{change: changes}
	if complete(seen.deployment, seen.deployment.Status) {
		p.remove = expired(seen)
	}
	return p.withRolloutStatus(seen)
}

// resize returns the change that gives a ReplicaSet another size, and none if
// it has that size.
func resize(d *appsv1.Deployment, rs *appsv1.ReplicaSet, to int32) []change {
	if size(rs) == to {
		return nil
	}
	return []change{{from: rs, to: resized(d, rs, to)}}
}

// resized returns a copy of the ReplicaSet with another size and with the
// deployment's size noted on it.
func resized(d *appsv1.Deployment, rs *appsv1.ReplicaSet, to int32) *appsv1.ReplicaSet {
	rs = rs.DeepCopy()
	rs.Spec.Replicas = &to
	annotateSize(d, rs)
	return rs
}
