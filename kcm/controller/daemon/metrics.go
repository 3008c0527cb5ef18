package daemon

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var staleSyncSkips = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem:      "daemonset_controller",
	Name:           "stale_sync_skips_total",
	Help:           "How many syncs were put off because a cache did not show the DaemonSet's own writes.",
	StabilityLevel: metrics.ALPHA,
}, []string{"group", "resource"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(staleSyncSkips) })
