package rootca

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var (
	syncTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "root_ca_cert_publisher",
		Name:           "sync_total",
		Help:           "How many times the root CA bundle of a namespace was looked after.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"code"})
	syncDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem:      "root_ca_cert_publisher",
		Name:           "sync_duration_seconds",
		Help:           "How long it took to look after the root CA bundle of a namespace, in seconds.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"code"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(syncTotal, syncDuration)
})

// measured counts and times the calls of a sync function.
func measured(sync func(context.Context, cache.ObjectName) error) func(context.Context, cache.ObjectName) error {
	return func(ctx context.Context, key cache.ObjectName) error {
		start := time.Now()
		err := sync(ctx, key)
		code := controller.StatusCode(err)
		syncTotal.WithLabelValues(code).Inc()
		syncDuration.WithLabelValues(code).Observe(time.Since(start).Seconds())
		return err
	}
}
