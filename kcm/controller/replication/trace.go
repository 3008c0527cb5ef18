package replication

import (
	"log/slog"

	corev1 "k8s.io/api/core/v1"
)

// facts returns what a sync has seen, for who listens: the numbers that decide
// compares, and what is still expected.
func (c *Controller) facts(seen observed) []slog.Attr {
	facts := []slog.Attr{
		slog.Int("want", int(*seen.set.Spec.Replicas)),
		slog.Int("active", len(seen.active)),
		slog.Int("terminating", len(seen.terminating)),
		slog.Int("failed", len(seen.failed)),
		slog.Bool("mayAct", seen.mayAct),
		slog.String("version", seen.set.ResourceVersion),
	}
	if creations, deletions := c.expectations.Left(seen.set); creations+deletions > 0 {
		facts = append(facts, slog.Int("expectsCreations", creations), slog.Int("expectsDeletions", deletions))
	}
	return facts
}

// facts returns what a sync is going to do about the number of pods.
func (p plan) facts() []slog.Attr {
	var facts []slog.Attr
	if p.create > 0 {
		facts = append(facts, slog.Int("create", p.create))
	}
	if len(p.delete) > 0 {
		facts = append(facts, slog.Any("delete", podNames(p.delete)))
	}
	return facts
}

func podNames(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}
