package endpointslicemirroring

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "endpoint_slice_mirroring_controller"

var (
	added   = perSync("endpoints_added_per_sync", "How many endpoints one sync has added.")
	removed = perSync("endpoints_removed_per_sync", "How many endpoints one sync has removed.")
	skipped = perSync("addresses_skipped_per_sync", "How many addresses one sync has left out: they are no IP addresses, or too many.")
	changes = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "changes", Help: "How many EndpointSlices were written.", StabilityLevel: metrics.ALPHA,
	}, []string{"operation"})
	registration sync.Once
)

func perSync(name, help string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help,
		Buckets: metrics.ExponentialBuckets(2, 2, 15), StabilityLevel: metrics.ALPHA,
	}, nil)
}

func registerMetrics() {
	registration.Do(func() { legacyregistry.MustRegister(added, removed, skipped, changes) })
}
