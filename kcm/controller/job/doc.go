// Package job runs pods to completion: as many at a time as a Job allows, until
// as many have succeeded as it asks for, or too many have failed.
//
// What the loop guarantees:
//
//   - A pod that has ended is counted once: never twice, and never not at all,
//     however late its caches are and between whichever two of its requests it
//     is killed. For that each pod carries a finalizer from its creation on, and
//     is counted in three writes: its UID comes into the status, its finalizer is
//     taken off, and only then does the counter take the place of the UID.
//   - A Job is over only when all its pods are counted and none still runs.
//   - It creates on what it knows to be complete: it waits for what it has
//     created to be in its cache, and starts slowly.
//   - A verdict, once written, stands. A crash between the verdict and the end
//     leaves no room for another one.
//
// What it does not: it runs nothing exactly once. A pod whose node is gone may
// still run while its replacement does, and a pod that has succeeded and whose
// end was never written runs again.
package job
