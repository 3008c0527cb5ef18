package ttlafterfinished

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var jobDeletionDuration = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem:      "ttl_after_finished_controller",
	Name:           "job_deletion_duration_seconds",
	Help:           "How long after its time had come a Job was deleted, in seconds.",
	Buckets:        metrics.ExponentialBuckets(0.1, 2, 14),
	StabilityLevel: metrics.ALPHA,
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(jobDeletionDuration) })
