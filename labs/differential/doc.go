// Package differential runs the loops of the original kube-controller-manager for Deployments and ReplicaSets and those
// of kcm side by side, in memory. Each manager has an API of its own. Both see the same users, kubelets, nodes, webhooks
// and faults, at the same time, through caches that are as late; whenever both have come to rest, what they have made of it
// is compared.
//
// The managers are the real ones, from their handlers to their clients. Of what is inside them three things are replaced:
// the queues, so that a sync happens when it is told to; the recorders of events, which are slow to tell; and, as all
// runs in a bubble of testing/synctest, the time.
//
// Deployments, ReplicaSets and pods have to be the same, with all that is in them and in their status. Not compared is what
// differs between two runs of one program, too:
//
//   - which of several pods that look alike is which: pods are compared, and chosen by steps, by how they look;
//   - times in conditions, by up to two seconds, where nothing is intended to differ;
//   - which of the reasons a rollout that goes on has for that: it depends on what was seen on the way;
//   - the order of events and how often they were recorded. What was ever told has to be the same, and sizes and numbers
//     of pods have to come out the same when all is added up. What a quota refused on the way, and all after a write
//     that was lost, is not compared;
//   - the number of writes, as long as kcm makes no more than the original, or two more of a kind of update.
//
// A Deployment's caches are late, but show what its loop has written itself: kcm waits for that, and the original does not
// (https://kep.k8s.io/5647). A round of kcm is less than one of the original, and the loop for ReplicaSets goes first,
// unless a step says otherwise.
//
// What kcm's loop for quotas charges is compared with the evaluators of the original, object by object (quota_test.go).
//
// What kcm writes has to be what the API server of the original takes: each creation and each update goes through its
// strategies (oracle.go). So do those of the loops for Jobs, CronJobs, DaemonSets and Services, which have a cluster of their
// own where there is nothing to compare with (refused_test.go).
//
// What differs on purpose is listed in intended.go. A run ends where the two differ, be it by little, and where a fault has
// hit a write of one side only.
package differential
