package nodeipam

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The names are those of the original, but for the last one.
var (
	allocations = counter("cidrset_cidrs_allocations_total", "How many pieces of the range have become used.")
	releases    = counter("cidrset_cidrs_releases_total", "How many pieces of the range have become free.")
	pieces      = gauge("node_ipam_controller_cirdset_max_cidrs", "How many pieces the range has.")
	usage       = gauge("node_ipam_controller_cidrset_usage_cidrs", "Which share of them is used, from 0 to 1.")
	tries       = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "node_ipam_controller", Name: "cidrset_allocation_tries_per_request", StabilityLevel: metrics.ALPHA,
		Help:    "How many pieces were passed over before a free one was found.",
		Buckets: metrics.ExponentialBuckets(1, 5, 5),
	}, []string{"clusterCIDR"})
	shared = gauge("kcm_node_ipam_shared_ranges", "Of how many pieces two nodes, or a node and Services, have addresses.")
)

func counter(name, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "node_ipam_controller", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{"clusterCIDR"})
}

func gauge(name, help string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{"clusterCIDR"})
}

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(allocations, releases, pieces, usage, tries, shared)
})

// observe measures a pool of which so many pieces were used before.
func (p *pool) observe(before int) {
	cluster := p.cluster.String()
	allocations.WithLabelValues(cluster).Add(float64(max(0, p.used-before)))
	releases.WithLabelValues(cluster).Add(float64(max(0, before-p.used)))
	pieces.WithLabelValues(cluster).Set(float64(len(p.holders)))
	usage.WithLabelValues(cluster).Set(float64(p.used) / float64(len(p.holders)))
	shared.WithLabelValues(cluster).Set(float64(p.shared))
}
