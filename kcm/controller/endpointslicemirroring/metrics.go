package endpointslicemirroring

import (
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
)

const subsystem = "endpoint_slice_mirroring_controller"

var (
	added    = perSync("endpoints_added_per_sync", "How many endpoints one sync has added.", 2)
	removed  = perSync("endpoints_removed_per_sync", "How many endpoints one sync has removed.", 2)
	skipped  = perSync("addresses_skipped_per_sync", "How many addresses one sync has left out: they are no IP addresses, or too many.", 2)
	duration = perSync("endpoints_sync_duration", "How many seconds one sync has taken.", 0.001)
	mirrored = gauge("endpoints_desired", "How many endpoints slices are to have.")
	present  = gauge("num_endpoint_slices", "How many slices there are.")
	ideal    = gauge("desired_endpoint_slices", "How many slices there would be if all were filled.")
	changes  = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "changes", Help: "How many EndpointSlices were written.", StabilityLevel: metrics.ALPHA,
	}, []string{"operation"})
	registration sync.Once
)

func perSync(name, help string, smallest float64) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help,
		Buckets: metrics.ExponentialBuckets(smallest, 2, 15), StabilityLevel: metrics.ALPHA,
	}, nil)
}

func gauge(name, help string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, nil)
}

func registerMetrics() {
	registration.Do(func() {
		legacyregistry.MustRegister(added, removed, skipped, duration, mirrored, present, ideal, changes)
	})
}

// usage is how well the slices of Endpoints are filled.
type usage struct{ endpoints, slices, fewest int }

// usageOf returns what is after a plan was carried out.
func usageOf(plan endpointslice.Plan, limit int) usage {
	var u usage
	endpoints := map[groupKey]int{}
	for _, slice := range slices.Concat(plan.Create, plan.Update, plan.Unchanged) {
		u.slices++
		u.endpoints += len(slice.Endpoints)
		endpoints[groupKey{slice.AddressType, endpointslice.PortsKey(slice.Ports)}] += len(slice.Endpoints)
	}
	for _, n := range endpoints {
		u.fewest += (n + limit - 1) / limit // rounded up
	}
	return u
}

// usages are those of all Endpoints, of which the gauges tell the sums.
type usages struct {
	mu  sync.Mutex
	all map[cache.ObjectName]usage
	sum usage
}

func (u *usages) set(endpoints cache.ObjectName, now usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.all[endpoints]
	u.sum.endpoints += now.endpoints - before.endpoints
	u.sum.slices += now.slices - before.slices
	u.sum.fewest += now.fewest - before.fewest
	u.all[endpoints] = now
	if now == (usage{}) {
		delete(u.all, endpoints)
	}
	mirrored.WithLabelValues().Set(float64(u.sum.endpoints))
	present.WithLabelValues().Set(float64(u.sum.slices))
	ideal.WithLabelValues().Set(float64(u.sum.fewest))
}
