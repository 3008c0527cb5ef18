package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// expired returns the old ReplicaSets above the revision history limit, the
// lowest revisions first, without those that still have pods or have not been
// looked at since their size was changed. An old ReplicaSet that is not there
// any more cannot be rolled back to.
func expired(seen observed) []*appsv1.ReplicaSet {
	limit := seen.deployment.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(seen.oldRSs), func(rs *appsv1.ReplicaSet) bool {
		return rs.DeletionTimestamp != nil
	})
	slices.SortStableFunc(alive, byRevision)
	surplus := alive[:max(0, len(alive)-int(*limit))]
	return slices.DeleteFunc(surplus, func(rs *appsv1.ReplicaSet) bool {
		return size(rs) > 0 || rs.Status.Replicas > 0 || rs.Generation > rs.Status.ObservedGeneration
	})
}

func byRevision(a, b *appsv1.ReplicaSet) int {
	revisionA, _ := revision(a)
	revisionB, _ := revision(b)
	return cmp.Compare(revisionA, revisionB)
}
