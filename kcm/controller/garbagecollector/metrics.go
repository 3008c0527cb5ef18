package garbagecollector

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var resourcesSyncErrors = metrics.NewCounter(&metrics.CounterOpts{
	Subsystem:      "garbagecollector_controller",
	Name:           "resources_sync_error_total",
	Help:           "How often it could not be found out of which kinds there are objects.",
	StabilityLevel: metrics.ALPHA,
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(resourcesSyncErrors) })
