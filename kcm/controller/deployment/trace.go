package deployment

import (
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
)

// toldSet is a ReplicaSet as who listens reads it.
type toldSet struct {
	Name      string `json:"name"`
	New       bool   `json:"new"`
	Size      int32  `json:"size"`
	Pods      int32  `json:"pods"`
	Available int32  `json:"available"`
}

// toldChange is a change of a ReplicaSet's size as who listens reads it.
type toldChange struct {
	Name string `json:"name"`
	From int32  `json:"from"`
	To   int32  `json:"to"`
}

// facts returns what a round starts from, for who listens: the ReplicaSets with
// their sizes, and the bounds of the rollout.
func (seen observed) facts() []slog.Attr {
	d := seen.deployment
	sets := []toldSet{}
	for _, rs := range seen.all() {
		sets = append(sets, toldSet{rs.Name, rs == seen.newRS, size(rs), rs.Status.Replicas, rs.Status.AvailableReplicas})
	}
	return []slog.Attr{
		slog.Int("want", int(*d.Spec.Replicas)),
		slog.Int("maxTotal", int(maxTotal(d))),
		slog.Int("minAvailable", int(minAvailable(d))),
		slog.Bool("paused", d.Spec.Paused),
		slog.String("version", d.ResourceVersion),
		slog.Any("replicaSets", sets),
	}
}

// facts returns the next step of a rollout, for who listens.
func (p plan) facts() []slog.Attr {
	var facts []slog.Attr
	if p.status != nil {
		facts = append(facts, slog.Bool("writeStatus", true))
	}
	if p.create != nil {
		facts = append(facts, slog.Group("create", "name", p.create.Name, "size", size(p.create)))
	}
	if len(p.change) > 0 {
		var changes []toldChange
		for _, c := range p.change {
			changes = append(changes, toldChange{c.to.Name, size(c.from), size(c.to)})
		}
		facts = append(facts, slog.Any("change", changes))
	}
	if len(p.remove) > 0 {
		facts = append(facts, slog.Any("remove", setNames(p.remove)))
	}
	if p.spec != nil {
		facts = append(facts, slog.Bool("rollback", true))
	}
	if p.recheckAfter > 0 {
		facts = append(facts, slog.Float64("recheckSeconds", p.recheckAfter.Seconds()))
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
