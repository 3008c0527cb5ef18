package replication

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var (
	deletionAgeRatio = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      "replicaset_controller",
		Name:           "sorting_deletion_age_ratio",
		Help:           "How old ready pods are that were chosen to be deleted, in ages of the youngest of their set.",
		Buckets:        metrics.ExponentialBuckets(0.25, 2, 6),
		StabilityLevel: metrics.ALPHA,
	})
	staleSyncSkips = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "replicaset_controller",
		Name:           "stale_sync_skips_total",
		Help:           "How many syncs were put off because a cache did not show the set's own writes.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"group", "resource"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(deletionAgeRatio, staleSyncSkips)
})

// ageRatios returns how old the pods are that were chosen to go, in ages of the
// youngest of the set. Pods that are not ready do not count, and where all have
// to go nothing was chosen.
func ageRatios(seen observed, chosen []*corev1.Pod) []float64 {
	if len(chosen) == len(seen.active) {
		return nil
	}
	var youngest time.Time
	for _, pod := range seen.active {
		if created := pod.CreationTimestamp.Time; controller.IsPodReady(pod) && created.After(youngest) {
			youngest = created
		}
	}
	var ratios []float64
	for _, pod := range chosen {
		if least := seen.now.Sub(youngest); controller.IsPodReady(pod) && least > 0 {
			ratios = append(ratios, float64(seen.now.Sub(pod.CreationTimestamp.Time))/float64(least))
		}
	}
	return ratios
}
