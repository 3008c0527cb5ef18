package controller

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	syncDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "kcm_loop_sync_duration_seconds",
		Help:           "How long one sync of a loop took, in seconds.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"loop"})
	syncErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "kcm_loop_sync_errors_total",
		Help:           "How many syncs of a loop returned an error.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"loop"})
	panics = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "kcm_panics_total",
		Help:           "How many syncs, handlers and background tasks of loops have panicked.",
		StabilityLevel: metrics.ALPHA,
	})
)

var registerSyncMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(syncDuration, syncErrors, panics)
})

func observeSync(loop string, took time.Duration, failed bool) {
	syncDuration.WithLabelValues(loop).Observe(took.Seconds())
	if failed {
		syncErrors.WithLabelValues(loop).Inc()
	}
}
