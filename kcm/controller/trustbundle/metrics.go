package trustbundle

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var (
	syncTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "clustertrustbundle_publisher",
		Name:           "sync_total",
		Help:           "How many times the cluster trust bundle of the API server was looked after.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"code"})
	syncDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem:      "clustertrustbundle_publisher",
		Name:           "sync_duration_seconds",
		Help:           "How long it took to look after the cluster trust bundle of the API server, in seconds.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"code"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(syncTotal, syncDuration)
})

// measure counts a sync and its duration, by its outcome in terms of HTTP.
func measure(start time.Time, err error) {
	code := controller.StatusCode(err)
	syncTotal.WithLabelValues(code).Inc()
	syncDuration.WithLabelValues(code).Observe(time.Since(start).Seconds())
}
