// Package nodelifecycle says of a node that is not heard of that nobody knows how it is, keeps pods
// away from nodes with a problem, and asks for the eviction of those that are there, the more
// slowly the more nodes seem to be lost.
//
// What the loop guarantees:
//
//   - A node is not called Unknown sooner than the grace period after its last heartbeat, or the
//     startup period until its kubelet has said how it is. What counts is when a heartbeat came in, by
//     the clock of this process, and not what the node's clock said; and before the word is spoken,
//     the API server is asked for a heartbeat that the cache does not show. While the watch of Leases
//     is behind its answer, no node is called Unknown, however long that lasts.
//   - Taints are levels: at any time they follow from the node's conditions, whoever has added or
//     removed one. What asks for eviction is added in turns, so many nodes of a zone a second as
//     the state of the zone allows, and comes off everywhere while no node is Ready: then it is
//     likelier that this process is cut off than that all nodes are dead.
//   - The pods of a node that is Unknown are not ready, so that Services leave them out.
//   - What is refused is tried again, ever less often; of a node at least as often as
//     --node-monitor-period says, and within a grace period if it seems to have changed.
//
// What a restart forgets: for how long a node has been silent, so that each gets a whole grace period
// anew, and when a zone has had its last turn. Taints stay, with the time from which pods count.
package nodelifecycle
