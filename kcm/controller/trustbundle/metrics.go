package trustbundle

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
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

// measure counts a sync and its duration, by its outcome in terms of HTTP: the
// status that the API server gave, or 500 for an error that is not the API
// server's.
func measure(start time.Time, err error) {
	code := http.StatusOK
	if err != nil {
		code = http.StatusInternalServerError
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.Status().Code != 0 {
		code = int(status.Status().Code)
	}
	syncTotal.WithLabelValues(strconv.Itoa(code)).Inc()
	syncDuration.WithLabelValues(strconv.Itoa(code)).Observe(time.Since(start).Seconds())
}
