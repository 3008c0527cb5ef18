package deployment

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// recreate removes all old pods before it creates the first new one, for
// programs of which two versions must not run at the same time.
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

// oldPodsRemain tells whether anything of an old version may still run. A
// ReplicaSet no longer counts a pod that is being deleted, but its containers
// run until they have ended, so the pods themselves are looked at.
func oldPodsRemain(seen observed) bool {
	counted := sum(seen.oldRSs, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas })
	return counted > 0 || slices.ContainsFunc(seen.oldPods, func(pod *corev1.Pod) bool {
		return controller.IsPodActive(pod) || controller.IsPodTerminating(pod)
	})
}
