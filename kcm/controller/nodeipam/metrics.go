package nodeipam

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "node_ipam_controller"

// Names are those of the original, as is that usage is a share and not a percentage.
var (
	allocations = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "cidrset_cidrs_allocations_total", StabilityLevel: metrics.ALPHA,
		Help: "How many pieces of the range have become used.",
	}, clusterCIDR)
	releases = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "cidrset_cidrs_releases_total", StabilityLevel: metrics.ALPHA,
		Help: "How many pieces of the range have become free.",
	}, clusterCIDR)
	maxPieces = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "cirdset_max_cidrs", StabilityLevel: metrics.ALPHA,
		Help: "How many pieces the range has.",
	}, clusterCIDR)
	usage = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "cidrset_usage_cidrs", StabilityLevel: metrics.ALPHA,
		Help: "Which share of the pieces is used, from 0 to 1.",
	}, clusterCIDR)
	triesPerRequest = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request", StabilityLevel: metrics.ALPHA,
		Help:    "How many pieces were passed over before a free one was found.",
		Buckets: metrics.ExponentialBuckets(1, 5, 5),
	}, clusterCIDR)
	sharedPieces = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "kcm_node_ipam_shared_ranges", StabilityLevel: metrics.ALPHA,
		Help: "How many pieces of the range more than one node, or a node and Services, have addresses of.",
	}, clusterCIDR)
	clusterCIDR = []string{"clusterCIDR"}
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(allocations, releases, maxPieces, usage, triesPerRequest, sharedPieces)
})

// observe measures a pool of which so many pieces were used before.
func (p *pool) observe(before int) {
	cluster := p.cluster.String()
	allocations.WithLabelValues(cluster).Add(float64(max(0, p.used-before)))
	releases.WithLabelValues(cluster).Add(float64(max(0, before-p.used)))
	maxPieces.WithLabelValues(cluster).Set(float64(len(p.holders)))
	usage.WithLabelValues(cluster).Set(float64(p.used) / float64(len(p.holders)))
	sharedPieces.WithLabelValues(cluster).Set(float64(p.shared))
}
