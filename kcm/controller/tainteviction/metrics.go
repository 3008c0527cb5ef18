package tainteviction

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	podDeletions = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem:      "taint_eviction_controller",
		Name:           "pod_deletions_total",
		Help:           "How many pods were deleted.",
		StabilityLevel: metrics.ALPHA,
	})
	podDeletionDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      "taint_eviction_controller",
		Name:           "pod_deletion_duration_seconds",
		Help:           "How long after its deadline a pod was deleted, in seconds.",
		Buckets:        []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		StabilityLevel: metrics.ALPHA,
	})
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(podDeletions, podDeletionDuration) })
