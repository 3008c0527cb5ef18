package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
)

// rollingUpdate replaces old pods by new ones a few at a time: first as many
// new pods as the upper bound allows, then as few old ones as the lower bound
// allows, and so on as the new pods become available.
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

// sizeOfNew is how large the new ReplicaSet may be now: as large as wanted, but
// not so large that all together are above the upper bound. What ReplicaSets are
// to have counts, not what they have: pods that are still to be deleted may
// exist above it, and pods that are still to be created below it.
func sizeOfNew(seen observed) int32 {
	d := seen.deployment
	var now int32
	if seen.newRS != nil {
		now = size(seen.newRS)
	}
	room := max(0, maxTotal(d)-sum(seen.all(), size))
	return min(now+room, *d.Spec.Replicas)
}

// shrinkOld returns the changes that make old ReplicaSets smaller, from the
// oldest on, out of two budgets. The first is for pods that are not available,
// whose going costs nothing and must not wait: they may never become available
// (https://github.com/kubernetes/kubernetes/issues/16737). The second is for
// available ones: as many as there are above the minimum. There has to be a new
// ReplicaSet. (The original spends one after the other. A ReplicaSet that gives
// pods out of both is written twice there, with an event for each.)
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

// finish is what is left to do when no size has to change for the rollout.
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
