package podgc

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	deletions      = counter("force_delete_pods_total", "How many pods were to be deleted by force, with each attempt.")
	deletionErrors = counter("force_delete_pod_errors_total", "How many of these attempts failed.")
	registration   sync.Once
)

func counter(name, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "pod_gc_collector", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{"namespace", "reason"})
}

func registerMetrics() {
	registration.Do(func() { legacyregistry.MustRegister(deletions, deletionErrors) })
}
