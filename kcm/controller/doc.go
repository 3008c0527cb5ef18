// Package controller holds what the loops of kcm share, so that a loop's own
// package holds only what is particular to it.
//
// A controller watches some kinds of objects, decides what ought to be
// different, and asks the API server to make it so. Every loop does that in
// the same three steps:
//
//   - observe reads the caches and returns a plain value;
//   - decide turns that value into a plan, and touches nothing else;
//   - act carries the plan out through the API server.
//
// What surrounds the three is here. [Loop] takes keys from a queue, calls a
// loop's sync function and tries again when it fails. [Handle] turns informer
// notifications into typed calls. [Waker] tells the owners of an object of its
// changes, and [Claimer] settles which objects belong to an owner.
// [Expectations] keep a loop from acting on a cache that has not caught up with
// its own writes. [PodControl] creates and deletes pods on behalf of an owner
// and records an event for each. [CreatePods] creates many, slowly at first.
//
// What a loop may rely on: no two workers handle the same key at the same
// time, and a key that is added while it is being handled is handled again
// afterwards. What it may not: that every change of an object causes a call of
// its own. Several changes may be seen as one, so sync must always start from
// what is, never from what happened.
package controller
