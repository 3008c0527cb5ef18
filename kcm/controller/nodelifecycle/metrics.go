package nodelifecycle

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	zoneHealth     = zoneGauge("zone_health", "How many of a hundred nodes of a zone are ready.")
	zoneSize       = zoneGauge("zone_size", "How many nodes a zone has.")
	unhealthyNodes = zoneGauge("unhealthy_nodes_in_zone", "How many nodes of a zone are not ready.")
	evictions      = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      "node_collector",
		Name:           "evictions_total",
		Help:           "How many nodes this process has evicted.",
		StabilityLevel: metrics.STABLE,
	}, []string{"zone"})
)

func zoneGauge(name, help string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "node_collector", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{"zone"})
}

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(zoneHealth, zoneSize, unhealthyNodes, evictions)
})

// observeZone shows how a zone is. One without nodes is well.
func observeZone(zone string, c counts) {
	health := 100.
	if c.nodes > 0 {
		health = 100 * float64(c.nodes-c.notReady) / float64(c.nodes)
	}
	zoneHealth.WithLabelValues(zone).Set(health)
	zoneSize.WithLabelValues(zone).Set(float64(c.nodes))
	unhealthyNodes.WithLabelValues(zone).Set(float64(c.notReady))
}
