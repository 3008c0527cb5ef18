package replication

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// ownWrites remembers, for each set, the newest resource version that its
// syncs have written, and tells whether a cache shows it yet. Expectations do
// almost the same, and wake the set at the right moment. But they cannot see
// adoptions and status updates, and they give up after five minutes, however
// old the cache may be. This does not
// (https://kep.k8s.io/5647, StaleControllerConsistencyReplicaSet).
type ownWrites struct {
	resource schema.GroupResource
	cached   cachedVersion

	mu     sync.Mutex
	newest map[cache.ObjectName]string
}

// cachedVersion is the part of a [cache.Store] that says how far it is. The
// answer is empty when the store cannot tell.
type cachedVersion interface {
	LastStoreSyncResourceVersion() string
}

// newOwnWrites returns what watches the cache of one resource. With the feature gate off every
// write counts as observed.
func newOwnWrites(resource schema.GroupResource, cached cachedVersion) *ownWrites {
	if !feature.DefaultFeatureGate.Enabled(controller.StaleControllerConsistencyReplicaSet) {
		cached = tellsNothing{}
	}
	return &ownWrites{resource: resource, cached: cached, newest: map[cache.ObjectName]string{}}
}

// tellsNothing is a cache that cannot tell how far it is.
type tellsNothing struct{}

func (tellsNothing) LastStoreSyncResourceVersion() string { return "" }

// wrote notes that a sync of the set has written an object, which now has the
// given version.
func (w *ownWrites) wrote(set cache.ObjectName, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if newest, ok := w.newest[set]; !ok || isOlder(newest, version) {
		w.newest[set] = version
	}
}

// observed returns [controller.ErrStaleCache] while the cache lacks something
// that the set's syncs have written, and counts that the sync is put off.
func (w *ownWrites) observed(set cache.ObjectName) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	newest, ok := w.newest[set]
	if !ok {
		return nil
	}
	if cached := w.cached.LastStoreSyncResourceVersion(); isOlder(cached, newest) {
		staleSyncSkips.WithLabelValues(w.resource.Group, w.resource.Resource).Inc()
		return fmt.Errorf("%w: it is at version %s, and %s has written version %s",
			controller.ErrStaleCache, cached, set, newest)
	}
	delete(w.newest, set)
	return nil
}

// forget drops what was noted for a set that is gone.
func (w *ownWrites) forget(set cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.newest, set)
}

// isOlder tells whether version a is older than b. What cannot be compared is
// not older, so that a loop is not kept waiting for nothing.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
