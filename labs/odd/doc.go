// Package odd has a controller manager live with objects that no sensible person writes.
//
// [Draw] draws requests from a seed: objects of every kind that a loop reads, with fields changed or filled in at
// random, with owners that are not theirs and nonsense in what loops parse; then changes of them, statuses that are
// written by hand, and deletions. The real API server decides which of them are valid, and what it takes, a manager has
// to live with. A [Player] sends the requests to a cluster and looks whether the manager does: see [Rules].
//
// The same seed always draws the same. UIDs, and what the loops have created meanwhile, differ from time to time.
package odd

// Rules say what has to hold, and as what a [Finding] names it.
const Rules = `
What has to hold:
  panic       no loop panics, whether that ends the manager or not, and the manager does not end
  canary      each loop does its work in another namespace within half a minute, all along and in the end
  hot         while nothing changes, no request is made over and over
  namespaces  when all is deleted, the namespaces go within two minutes
  growth      when all is deleted, goroutines and memory do not grow from seed to seed
`
