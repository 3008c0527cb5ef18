package deployment

import (
	"cmp"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// wasScaled tells whether somebody changed the deployment's replicas since its
// ReplicaSets were last sized.
func wasScaled(seen observed) bool {
	return slices.ContainsFunc(active(seen.all()), func(rs *appsv1.ReplicaSet) bool {
		desired, ok := sizeAnnotation(rs, desiredReplicasAnnotation)
		return ok && desired != *seen.deployment.Spec.Replicas
	})
}

// scale takes a deployment to its size without taking the rollout any
// further. In the middle of a rollout all versions grow or shrink in
// proportion: growing only the new one would put more at risk than the user
// had agreed to so far.
func scale(seen observed) []change {
	d := seen.deployment
	withPods := active(seen.all())
	switch {
	case len(withPods) == 1:
		return scaleTo(d, withPods[0], *d.Spec.Replicas)
	case len(withPods) == 0:
		return scaleLatest(seen)
	case saturated(d, seen.newRS):
		// The others were adopted, or are left from before.
		var changes []change
		for _, rs := range active(seen.oldRSs) {
			changes = append(changes, resize(d, rs, 0)...)
		}
		return changes
	case d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType:
		if !wasScaled(seen) && withinBounds(d, withPods) {
			return nil
		}
		return scaleInProportion(d, withPods)
	}
	var changes []change
	for _, rs := range withPods {
		changes = append(changes, scaleTo(d, rs, size(rs))...)
	}
	return changes
}

// scaleTo gives a ReplicaSet a size and notes the deployment's size on it,
// also where its own happens to be right already. Without the note the
// deployment would be taken for just scaled for ever, and no rollout would ever
// go on. The original does not write it, and gets stuck.
func scaleTo(d *appsv1.Deployment, rs *appsv1.ReplicaSet, to int32) []change {
	desired, ok := sizeAnnotation(rs, desiredReplicasAnnotation)
	if size(rs) == to && (!ok || desired == *d.Spec.Replicas) {
		return nil
	}
	return []change{{from: rs, to: resized(d, rs, to)}}
}

// scaleLatest scales a deployment of which no ReplicaSet is to have pods. With
// Recreate it waits until there are none: paused in the middle, a rollout would
// otherwise start pods of one version while those of another still end. (The
// original does that.)
func scaleLatest(seen observed) []change {
	d, rs := seen.deployment, latest(seen)
	if rs == nil || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && oldPodsRemain(seen) {
		return nil
	}
	return resize(d, rs, *d.Spec.Replicas)
}

// latest returns the new ReplicaSet, else the youngest of the old ones.
func latest(seen observed) *appsv1.ReplicaSet {
	if all := seen.all(); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// withinBounds tells whether ReplicaSets have as many pods together as the
// deployment may have in a rollout, and no fewer than it wants. The surge is a
// limit and no wish: a paused deployment whose surge was raised, or not used up,
// is left as it is. (The original fills it, most of it with old pods.)
func withinBounds(d *appsv1.Deployment, replicaSets []*appsv1.ReplicaSet) bool {
	total := sum(replicaSets, size)
	return *d.Spec.Replicas <= total && total <= maxTotal(d)
}

// saturated tells whether the new ReplicaSet has all the pods that the
// deployment wants, all of them available.
func saturated(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	if rs == nil {
		return false
	}
	wanted := *d.Spec.Replicas
	desired, ok := sizeAnnotation(rs, desiredReplicasAnnotation)
	return ok && desired == wanted && size(rs) == wanted && rs.Status.AvailableReplicas == wanted
}

// scaleInProportion returns the changes that take a deployment that was scaled to
// its size: with the surge, or zero where no pods are wanted. Every version keeps its
// fraction as far as whole pods allow, and afterwards no note of the deployment's size
// is out of date. In which order the ReplicaSets are given makes no difference.
func scaleInProportion(d *appsv1.Deployment, replicaSets []*appsv1.ReplicaSet) []change {
	var goal int32
	if *d.Spec.Replicas > 0 {
		goal = maxTotal(d)
	}
	missing := goal - sum(replicaSets, size)
	replicaSets = slices.SortedFunc(slices.Values(replicaSets), bySize(missing))

	sizes := make([]int32, len(replicaSets))
	left := missing
	for i, rs := range replicaSets {
		part := share(d, rs, left)
		sizes[i] = size(rs) + part
		left -= part
	}
	sizes[0] = max(0, sizes[0]+left)

	var changes []change
	for i, rs := range replicaSets {
		to := resized(d, rs, sizes[i])
		if sizes[i] != size(rs) || !maps.Equal(to.Annotations, rs.Annotations) {
			changes = append(changes, change{from: rs, to: to})
		}
	}
	return changes
}

// bySize orders ReplicaSets from the largest to the smallest. Of two that are
// equal the younger is the first to grow, the older the first to shrink.
func bySize(missing int32) func(a, b *appsv1.ReplicaSet) int {
	return func(a, b *appsv1.ReplicaSet) int {
		age := byAge(a, b)
		if missing > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), age)
	}
}

// share returns how many of the pods that are left to add, or to remove when
// negative, fall to one ReplicaSet. It gets what makes it the same fraction of
// the deployment that it was before, as far as that is left. It never takes pods
// away while some are to be added, nor the other way round.
func share(d *appsv1.Deployment, rs *appsv1.ReplicaSet, left int32) int32 {
	// Its fraction may ask for the other direction if somebody else has resized
	// it, and also if the surge is large and not used up: then a deployment that
	// is scaled down may have room to grow. (The original lets it. In the first
	// case it can ask for far more pods than the surge allows, and empty the
	// largest in return. In the second it takes from all but the largest, also
	// below the minimum of available pods.)
	grow := growth(d, rs)
	if left > 0 {
		return min(max(grow, 0), left)
	}
	return max(min(grow, 0), left)
}

// growth returns by how much a ReplicaSet would have to grow, or to shrink when
// negative, to be the same fraction of the deployment as when it was last sized.
func growth(d *appsv1.Deployment, rs *appsv1.ReplicaSet) int32 {
	if *d.Spec.Replicas == 0 {
		return -size(rs)
	}
	before, ok := sizeAnnotation(rs, maxReplicasAnnotation)
	if !ok || before == 0 {
		// Somebody removed the annotation or wrote something else into it.
		// What the deployment has now is the next best guess.
		before = d.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	grown := float64(size(rs)) * float64(maxTotal(d)) / float64(before)
	return int32(min(math.Round(grown), math.MaxInt32)) - size(rs)
}
