package controller

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

// StatusCode puts the outcome of a sync in terms of HTTP, for metrics that count by it:
// 200 if there is no error, the status that the API server gave, or 500 for an error that
// is not the API server's.
func StatusCode(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusOK)
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.Status().Code != 0 {
		return strconv.Itoa(int(status.Status().Code))
	}
	return strconv.Itoa(http.StatusInternalServerError)
}
