//go:build upstream

// This file is built as one more of kcm's own package.

package garbagecollector

import "k8s.io/apimachinery/pkg/types"

// GraphHasUID tells whether the graph has a node of this UID, as upstream's method of the name does.
func (gc *GarbageCollector) GraphHasUID(uid types.UID) bool {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	return gc.graph.nodes[uid] != nil
}

// Synced tells whether the graph shows all that there was when the informers were started.
func (gc *GarbageCollector) Synced() bool { return gc.synced() }
