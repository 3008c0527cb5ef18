// Package differential runs the loops of the original kube-controller-manager for Deployments and ReplicaSets and those
// of kcm side by side, in memory. Each manager has an API of its own. Both see the same users, kubelets, nodes and
// webhooks, at the same time, through caches that are as late; whenever both have come to rest, what they have made of
// it is compared: objects, events and the number of writes.
//
// The managers are the real ones, from their handlers to their clients. Of what is inside them three things are replaced:
// the queues, so that a sync happens when it is told to; the recorders of events, which are slow to tell; and, as all
// runs in a bubble of testing/synctest, the time.
//
// What differs on purpose is listed in intended.go.
package differential
