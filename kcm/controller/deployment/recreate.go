package deployment

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// recreate returns the next step of a rollout in which two versions never run
// at the same time. No pod of the new version is asked for while one of an old
// version may still run, and every old one goes.
func recreate(seen observed) plan {
	var changes []change
	for _, rs := range seen.oldRSs {
		changes = append(changes, resize(seen.deployment, rs, 0)...)
	}
	switch {
	case len(changes) > 0:
		return plan{change: changes}.withRolloutStatus(seen)
	case oldPodsRemain(seen):
		return plan{}.withRolloutStatus(seen)
	case seen.newRS == nil:
		return plan{create: newReplicaSet(seen)}
	default:
		return finish(seen, resize(seen.deployment, seen.newRS, sizeOfNew(seen)))
	}
}

// oldPodsRemain tells whether a container of an old version may still run, now
// that no old ReplicaSet is to have pods. It rather waits for one that is not
// there than misses one that is.
func oldPodsRemain(seen observed) bool {
	// A ReplicaSet that does not tell of its present size yet may have created
	// pods that nobody has seen. One that does leaves those that are being deleted
	// out of its replicas. They are in terminatingReplicas where the API has that.
	mayHavePods := func(rs *appsv1.ReplicaSet) bool {
		status := rs.Status
		return status.ObservedGeneration < rs.Generation || status.Replicas+ptr.Deref(status.TerminatingReplicas, 0) > 0
	}
	// Elsewhere the pods themselves tell, which may reach the cache late.
	return slices.ContainsFunc(seen.oldRSs, mayHavePods) || slices.ContainsFunc(seen.oldPods, func(pod *corev1.Pod) bool {
		return controller.IsPodActive(pod) || controller.IsPodTerminating(pod)
	})
}
