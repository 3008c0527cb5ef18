package deployment

import (
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events about a rollback.
const (
	reasonRolledBack        = "DeploymentRollback"
	reasonRevisionNotFound  = "DeploymentRollbackRevisionNotFound"
	reasonTemplateUnchanged = "DeploymentRollbackTemplateUnchanged"
)

// rollbackTo returns the revision that the loop is asked to roll back to; zero
// is the last one. Only old clients ask: the rollbackTo field of the first API
// versions arrives here as an annotation, always with a number: the API server
// takes no other. Today's kubectl writes the old template into the deployment
// itself, which is a rollout like any other.
func rollbackTo(d *appsv1.Deployment) (revision int64, asked bool) {
	revision, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return revision, err == nil
}

func wantsRollback(d *appsv1.Deployment) bool {
	_, asked := rollbackTo(d)
	return asked
}

// rollback writes the template of an old revision into the deployment. Whether
// it can or not, it takes the request away, so that it is tried only once.
func rollback(seen observed) plan {
	d := seen.deployment
	if seen.newRS == nil {
		// What is left gets a revision, too. It needs no pods, and with Recreate
		// those of another version may still run. (The original gives it pods.)
		return plan{create: resized(d, newReplicaSet(seen), 0)}
	}
	to, _ := rollbackTo(d)
	if to == 0 {
		to = lastRevision(seen.all())
	}
	if to == 0 {
		return withoutRollback(d, corev1.EventTypeWarning, reasonRevisionNotFound, "Unable to find last revision.")
	}
	found := slices.IndexFunc(seen.all(), func(rs *appsv1.ReplicaSet) bool {
		r, ok := revision(rs)
		return ok && r == to
	})
	if found < 0 {
		return withoutRollback(d, corev1.EventTypeWarning, reasonRevisionNotFound,
			"Unable to find the revision to rollback to.")
	}
	rs := seen.all()[found]
	if sameTemplate(d.Spec.Template, rs.Spec.Template) {
		return withoutRollback(d, corev1.EventTypeWarning, reasonTemplateUnchanged,
			fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name))
	}
	return withoutRollback(rolledBack(d, rs), corev1.EventTypeNormal, reasonRolledBack,
		fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, to))
}

// lastRevision returns the second highest revision, or zero.
func lastRevision(replicaSets []*appsv1.ReplicaSet) int64 {
	revisions := []int64{0, 0}
	for _, rs := range replicaSets {
		if r, ok := revision(rs); ok {
			revisions = append(revisions, r)
		}
	}
	slices.Sort(revisions)
	return revisions[len(revisions)-2]
}

func withoutRollback(d *appsv1.Deployment, kind, reason, message string) plan {
	d = d.DeepCopy()
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	return plan{spec: d, event: &event{kind, reason, message}}
}

// rolledBack returns a copy of the deployment with the template of an old
// ReplicaSet and with the annotations that the deployment had at that time,
// such as the cause of the change.
func rolledBack(d *appsv1.Deployment, rs *appsv1.ReplicaSet) *appsv1.Deployment {
	d = d.DeepCopy()
	d.Spec.Template = *rs.Spec.Template.DeepCopy()
	d.Spec.Template.Labels = withoutHash(d.Spec.Template.Labels)
	annotations := map[string]string{}
	for key, value := range rs.Annotations {
		if !slices.Contains(ownAnnotations, key) {
			annotations[key] = value
		}
	}
	for key, value := range d.Annotations {
		if slices.Contains(ownAnnotations, key) {
			annotations[key] = value
		}
	}
	d.Annotations = annotations
	return d
}
