//go:build upstream

// This file is built as one more of kcm's own package. Its constants are variables there, because the suite sets
// upstream's.

package job

import "time"

// SetLimits sets what upstream's suite sets: the pauses after failures, for how long news of pods is collected, and how
// many pods one sync creates, deletes or counts at most.
func SetLimits(shortest, longest, news time.Duration, burst int) {
	shortestPause, longestPause, newsPeriod, Burst = shortest, longest, news, burst
}

// What the suite reads of the metrics, as upstream calls it.
var (
	JobFinishedNum                       = jobsFinished
	JobPodsFinished                      = podsFinished
	JobFinishedIndexesTotal              = indexesFinished
	JobPodsCreationTotal                 = podsCreated
	JobByExternalControllerTotal         = jobsElsewhere
	PodFailuresHandledByFailurePolicy    = podsJudged
	TerminatedPodsTrackingFinalizerTotal = podsTracked
)
