package replication

import (
	corev1 "k8s.io/api/core/v1"
)

// plan is what one sync does about the number of pods. One of the two is
// always empty.
type plan struct {
	create int
	delete []*corev1.Pod
}

// decide compares the number of pods with what the set asks for. One plan
// creates or deletes at most burst pods.
func decide(seen observed, burst int) plan {
	if !seen.mayAct || seen.set.DeletionTimestamp != nil {
		return plan{}
	}
	missing := int(*seen.set.Spec.Replicas) - len(seen.active)
	return plan{
		create: min(max(missing, 0), burst),
		delete: leastMissed(seen, min(max(-missing, 0), burst)),
	}
}
