package deployment

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The annotations in which the loop keeps what it has to remember. The
// deployment has the first, its ReplicaSets have all.
const (
	// revisionAnnotation counts the versions of the template that were rolled
	// out, in order. kubectl rollout history and undo go by it.
	revisionAnnotation = "deployment.kubernetes.io/revision"
	// revisionHistoryAnnotation lists the revisions that the ReplicaSet was
	// before, because its template was gone back to.
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	// desiredReplicasAnnotation is the deployment's size when the ReplicaSet
	// was last sized. Where the deployment's is another, somebody scaled it.
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	// maxReplicasAnnotation is that size with the surge. It is what the
	// ReplicaSet's own size is a fraction of.
	maxReplicasAnnotation = "deployment.kubernetes.io/max-replicas"
)

// maxHistoryLength is how long the list of former revisions may grow, in
// bytes: about 400 revisions of four digits.
const maxHistoryLength = 2000

// ownAnnotations belong to one object and are not copied between a deployment
// and its ReplicaSets. All others are.
var ownAnnotations = []string{
	corev1.LastAppliedConfigAnnotation,
	revisionAnnotation,
	revisionHistoryAnnotation,
	desiredReplicasAnnotation,
	maxReplicasAnnotation,
	appsv1.DeprecatedRollbackTo,
}

// revision returns the revision of a ReplicaSet: zero if it has none, and not
// ok if what it has is not a number.
func revision(rs *appsv1.ReplicaSet) (revision int64, ok bool) {
	text, there := rs.Annotations[revisionAnnotation]
	if !there {
		return 0, true
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil
}

// nextRevision is one above all that were there before, and above them no more
// where the numbers end.
func nextRevision(oldRSs []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, rs := range oldRSs {
		if r, ok := revision(rs); ok {
			highest = max(highest, r)
		}
	}
	return max(highest, highest+1)
}

// annotationsOfNew returns the annotations that the new ReplicaSet is to have,
// given those that it has: the deployment's are copied, and its revision is
// raised to next. A revision that is higher already stays, because the ones
// below it may have been deleted since.
func annotationsOfNew(d *appsv1.Deployment, has map[string]string, next int64) map[string]string {
	wants := map[string]string{}
	maps.Copy(wants, has)
	present, err := strconv.ParseInt(has[revisionAnnotation], 10, 64)
	if err != nil && has[revisionAnnotation] != "" {
		return wants // somebody else's writing: nothing can be derived from it
	}
	for key, value := range d.Annotations {
		if !slices.Contains(ownAnnotations, key) {
			wants[key] = value
		}
	}
	if present >= next {
		return wants
	}
	wants[revisionAnnotation] = strconv.FormatInt(next, 10)
	if former, was := has[revisionAnnotation]; was {
		wants[revisionHistoryAnnotation] = appendHistory(has[revisionHistoryAnnotation], former)
	}
	return wants
}

// appendHistory adds a revision to a list, and drops the oldest ones from it
// as the length requires.
func appendHistory(history, former string) string {
	if history == "" {
		return former
	}
	history += "," + former
	for len(history) > maxHistoryLength {
		_, history, _ = strings.Cut(history, ",")
	}
	return history
}

// annotateSize writes the two annotations about the deployment's size.
func annotateSize(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[desiredReplicasAnnotation] = strconv.Itoa(int(*d.Spec.Replicas))
	rs.Annotations[maxReplicasAnnotation] = strconv.Itoa(int(maxTotal(d)))
}

// sizeAnnotation reads one of them. What a user may have written over it is
// treated as if it was not there.
func sizeAnnotation(rs *appsv1.ReplicaSet, key string) (size int32, ok bool) {
	n, err := strconv.ParseUint(rs.Annotations[key], 10, 31)
	return int32(n), err == nil
}
