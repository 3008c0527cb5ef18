// Package tainteviction deletes pods that stay on a node longer than they tolerate its taints.
//
// What the loop guarantees:
//
//   - No pod goes before its deadline. For each taint with the effect NoExecute that is as many
//     seconds after the taint was added, or the pod was bound, whichever was later, as the pod's first
//     matching toleration says. A clock that is set moves no deadline that this process knows.
//   - A deadline follows every change of the node's taints and the pod's tolerations. The next leader
//     finds the same one, as it counts from the taint's timeAdded. Only a taint without that time,
//     as kubectl adds it, counts from when this process has seen it and the pod's tolerations.
//   - Before a pod is deleted, the API server is asked whether its node still has the taint.
//   - A deletion that is refused is asked for again, ever less often, and means one UID.
//
// What it does not: it asks no PodDisruptionBudget, and does not care who has added a taint. On a
// node without a kubelet what it has deleted is terminating until the node is back or gone.
package tainteviction
