// Package daemon keeps one pod of a DaemonSet on each node that is to have one.
//
// What the loop guarantees:
//
//   - Which nodes those are is decided anew at each sync, from the node and the
//     template alone. The scheduler binds the pod, and can bind it to that one
//     node only.
//   - Without surge a node gets its new pod when the old one is gone, and at no
//     moment two. With surge it has two while the new one is not available yet.
//   - A rolling update makes no more nodes than maxUnavailable do without an
//     available pod, and has no more than maxSurge nodes with an available pod
//     and a second one. Nodes that are not to have a pod do not count.
//   - A pod that has ended is replaced. One that fails again and again on a
//     node is replaced ever more slowly there, and on other nodes as before.
//   - It creates and deletes on what it knows to be complete, as the loop of
//     ReplicaSets does: expectations for pods, and for all that it writes the
//     version from which a cache may be believed.
//
// What it does not: a pod is not moved, restarted or repaired, and a node whose
// pod is pending is not looked at again: the scheduler knows why. A change of a
// node wakes the DaemonSets whose verdict on that node it changes, and no other.
package daemon
