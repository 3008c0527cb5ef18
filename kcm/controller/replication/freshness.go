package replication

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// ownWrites are the writes of one resource.
type ownWrites struct {
	*controller.OwnWrites
	resource schema.GroupResource
}

// newOwnWrites returns what watches the cache of one resource. With the feature
// gate off every write counts as observed.
func newOwnWrites(resource schema.GroupResource, cached controller.CachedVersion) ownWrites {
	if !feature.DefaultFeatureGate.Enabled(controller.StaleControllerConsistencyReplicaSet) {
		cached = tellsNothing{}
	}
	return ownWrites{controller.NewOwnWrites(cached), resource}
}

// tellsNothing is a cache that cannot tell how far it is.
type tellsNothing struct{}

func (tellsNothing) LastStoreSyncResourceVersion() string { return "" }

// Observed is that of [controller.OwnWrites], and counts the syncs that are put
// off.
func (w ownWrites) Observed(set cache.ObjectName) error {
	err := w.OwnWrites.Observed(set)
	if err != nil {
		staleSyncSkips.WithLabelValues(w.resource.Group, w.resource.Resource).Inc()
	}
	return err
}
