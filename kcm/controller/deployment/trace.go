package deployment

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// facts returns what a round starts from, for who listens: the ReplicaSets with
// their sizes, and the bounds of the rollout.
func (seen observed) facts() trace.Facts {
	d := seen.deployment
	facts := trace.Facts{
		"kind":         "Deployment",
		"want":         *d.Spec.Replicas,
		"maxTotal":     maxTotal(d),
		"minAvailable": minAvailable(d),
		"paused":       d.Spec.Paused,
		"version":      d.ResourceVersion,
	}
	sets := []trace.Facts{}
	for _, rs := range seen.all() {
		sets = append(sets, trace.Facts{
			"name": rs.Name, "new": rs == seen.newRS, "size": size(rs),
			"pods": rs.Status.Replicas, "available": rs.Status.AvailableReplicas,
		})
	}
	facts["replicaSets"] = sets
	return facts
}

// facts returns the next step of a rollout, for who listens.
func (p plan) facts() trace.Facts {
	facts := trace.Facts{}
	if p.status != nil {
		facts["writeStatus"] = true
	}
	if p.create != nil {
		facts["create"] = trace.Facts{"name": p.create.Name, "size": size(p.create)}
	}
	for _, c := range p.change {
		changes, _ := facts["change"].([]trace.Facts)
		facts["change"] = append(changes, trace.Facts{"name": c.to.Name, "from": size(c.from), "to": size(c.to)})
	}
	if len(p.remove) > 0 {
		facts["remove"] = setNames(p.remove)
	}
	if p.spec != nil {
		facts["rollback"] = true
	}
	if p.recheckAfter > 0 {
		facts["recheckSeconds"] = p.recheckAfter.Seconds()
	}
	return facts
}

func setNames(replicaSets []*appsv1.ReplicaSet) []string {
	var names []string
	for _, rs := range replicaSets {
		names = append(names, rs.Name)
	}
	return names
}
