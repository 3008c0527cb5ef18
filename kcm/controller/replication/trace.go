package replication

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/trace"
)

// facts returns what a sync has seen, for who listens: the numbers that decide
// compares, and what is still expected.
func (c *Controller) facts(seen observed) trace.Facts {
	facts := trace.Facts{
		"kind":        c.Kind,
		"want":        *seen.set.Spec.Replicas,
		"active":      len(seen.active),
		"ready":       len(filter(slices.Clone(seen.active), controller.IsPodReady)),
		"terminating": len(seen.terminating),
		"failed":      len(seen.failed),
		"mayAct":      seen.mayAct,
		"version":     seen.set.ResourceVersion,
	}
	key := cache.MetaObjectToName(seen.set)
	for _, pending := range c.expectations.Pending() {
		if pending.Owner == key {
			facts["expectsCreations"], facts["expectsDeletions"] = pending.Creations, len(pending.Deletions)
		}
	}
	return facts
}

// facts returns what a sync is going to do about the number of pods.
func (p plan) facts() trace.Facts {
	facts := trace.Facts{}
	if p.create > 0 {
		facts["create"] = p.create
	}
	if len(p.delete) > 0 {
		facts["delete"] = podNames(p.delete)
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
