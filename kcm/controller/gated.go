package controller

import (
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics"
)

// GatedOwnWrites are own writes that a loop waits for as long as a feature gate is
// on (https://kep.k8s.io/5647). Syncs that are put off are counted.
type GatedOwnWrites struct {
	*OwnWrites
	off   bool
	skips metrics.CounterMetric
}

// NewGatedOwnWrites returns what watches the cache of one resource.
func NewGatedOwnWrites(gate featuregate.Feature, cached CachedVersion, skips metrics.CounterMetric) GatedOwnWrites {
	return GatedOwnWrites{NewOwnWrites(cached), !feature.DefaultFeatureGate.Enabled(gate), skips}
}

// Observed is that of [OwnWrites]. With the gate off every write counts as
// observed.
func (w GatedOwnWrites) Observed(owner cache.ObjectName) error {
	if w.off {
		return nil
	}
	err := w.OwnWrites.Observed(owner)
	if err != nil && w.skips != nil {
		w.skips.Inc()
	}
	return err
}
