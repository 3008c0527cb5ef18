package podgc

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	deletions = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "pod_gc_collector",
		Name:           "force_delete_pods_total",
		Help:           "How many pods were to be deleted by force, with each attempt.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"namespace", "reason"})
	deletionErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "pod_gc_collector",
		Name:           "force_delete_pod_errors_total",
		Help:           "How many of these attempts failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"namespace", "reason"})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(deletions, deletionErrors)
})
