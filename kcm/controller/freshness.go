package controller

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// OwnWrites remembers, for each object that a loop syncs, the newest version of
// one resource that its syncs have written, and tells whether a cache shows it
// yet. Expectations do almost the same, and wake the object at the right
// moment. But they cannot see adoptions, sizes and statuses, and they give up
// after five minutes, however old the cache may be. This does not
// (https://kep.k8s.io/5647).
//
// What was written by another process, or with an answer that was lost, is not
// waited for, unless a sync has read it and noted its version.
type OwnWrites struct {
	cached CachedVersion

	mu     sync.Mutex
	newest map[cache.ObjectName]string
}

// CachedVersion is the part of a [cache.Store] that says how far it is. The
// answer is empty when the store cannot tell.
type CachedVersion interface {
	LastStoreSyncResourceVersion() string
}

// NewOwnWrites returns what watches the cache of one resource.
func NewOwnWrites(cached CachedVersion) *OwnWrites {
	return &OwnWrites{cached: cached, newest: map[cache.ObjectName]string{}}
}

// Wrote notes that a sync of the owner has written an object, or has read it from
// the API server as the cache does not show it. It now has the given version.
func (w *OwnWrites) Wrote(owner cache.ObjectName, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if newest, ok := w.newest[owner]; !ok || IsOlder(newest, version) {
		w.newest[owner] = version
	}
}

// Made tells whether a version is the newest that a sync of the owner has written,
// and none has met in the cache yet.
func (w *OwnWrites) Made(owner cache.ObjectName, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return version != "" && w.newest[owner] == version
}

// Observed returns [ErrStaleCache] while the cache lacks something that the
// owner's syncs have written.
func (w *OwnWrites) Observed(owner cache.ObjectName) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	newest, ok := w.newest[owner]
	if !ok {
		return nil
	}
	if cached := w.cached.LastStoreSyncResourceVersion(); IsOlder(cached, newest) {
		return fmt.Errorf("%w: it is at version %s, and %s has written version %s", ErrStaleCache, cached, owner, newest)
	}
	delete(w.newest, owner)
	return nil
}

// Forget drops what was noted for an owner that is gone.
func (w *OwnWrites) Forget(owner cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.newest, owner)
}

// IsOlder tells whether version a is older than b. What cannot be compared is
// not older, so that a loop is not kept waiting for nothing.
func IsOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
