//go:build upstream

// Package metrics stands for k8s.io/kubernetes/pkg/controller/job/metrics.
package metrics

import "github.com/kcm-book/kcm-book/kcm/controller/job"

// What the suite reads. All are kcm's.
var (
	JobFinishedNum                       = job.JobFinishedNum
	JobPodsFinished                      = job.JobPodsFinished
	JobFinishedIndexesTotal              = job.JobFinishedIndexesTotal
	JobPodsCreationTotal                 = job.JobPodsCreationTotal
	JobByExternalControllerTotal         = job.JobByExternalControllerTotal
	PodFailuresHandledByFailurePolicy    = job.PodFailuresHandledByFailurePolicy
	TerminatedPodsTrackingFinalizerTotal = job.TerminatedPodsTrackingFinalizerTotal
)

// Labels of TerminatedPodsTrackingFinalizerTotal.
const (
	Add    = "add"
	Delete = "delete"
)
