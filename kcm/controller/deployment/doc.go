// Package deployment holds the loop that rolls out Deployments.
//
// A Deployment has one ReplicaSet for each version of its pod template. The
// one that has the present template is the new ReplicaSet, the others are old.
// The loop never touches a pod: it creates the new ReplicaSet and moves sizes
// from the old ones to the new one, as fast as the strategy allows.
//
// A sync is one round. It carries out one step, and what that step changes in
// the caches brings the next round. So every decision is made on what is, and
// a manager that takes over in the middle of a rollout goes on from there: all
// that the loop has to remember is written into the objects.
//
// What is guaranteed during a rolling update, as far as the caches tell: there
// are never more than replicas+maxSurge pods wanted, and the loop never
// removes an available pod when that would leave fewer than
// replicas-maxUnavailable. What is not: pods may still fail on their own, and
// a change of replicas, maxSurge or maxUnavailable moves the bounds at once
// and the pods later.
package deployment
