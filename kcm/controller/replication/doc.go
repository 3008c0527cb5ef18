// Package replication keeps as many pods running as a ReplicaSet or a
// ReplicationController says. One loop serves both kinds: a
// ReplicationController is the older of the two, and here it has the shape of
// a ReplicaSet from the moment it is read until its status is written.
//
// What the loop guarantees:
//
//   - It creates and deletes on what it knows to be complete. While pods that
//     it asked for are not in its cache yet, it waits (expectations), and
//     while its own last write is not in the cache, it does not even look.
//   - It never takes a pod from another controller. It adopts a pod without
//     controller that matches its selector, and lets go of one that no longer
//     does.
//   - It does not flood the API server with requests that are bound to fail:
//     creation starts slowly, and after a failure there have been at most one
//     failure more than successes.
//   - Which pods go when there are too many is decided by one total order, so
//     that it does not depend on the order in which they are listed.
//
// What it does not: a pod is not moved, restarted or repaired. One that has
// finished, or that is being deleted, no longer counts and is replaced. That
// there are never more pods than asked for holds only for pods that are not
// being deleted: the replacement may start while the old one still stops.
package replication
