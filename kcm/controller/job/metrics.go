package job

import (
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"
)

// subsystem begins the names of all metrics of the loop.
const subsystem = "job_controller"

var (
	syncDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "job_sync_duration_seconds",
		Help:           "How long a sync of a Job took, in seconds.",
		StabilityLevel: metrics.STABLE,
		Buckets:        metrics.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	syncs = counter("job_syncs_total", metrics.STABLE,
		"How many syncs of Jobs there were.", "completion_mode", "result", "action")
	jobsFinished = counter("jobs_finished_total", metrics.STABLE,
		"How many Jobs have ended.", "completion_mode", "result", "reason")
	podsFinished = counter("job_pods_finished_total", metrics.STABLE,
		"How many pods of Jobs were counted in a status.", "completion_mode", "result")
	indexesFinished = counter("job_finished_indexes_total", metrics.ALPHA,
		"How many indexes of Indexed Jobs have succeeded, or failed for good.", "status", "backoffLimit")
	podsCreated = counter("job_pods_creation_total", metrics.ALPHA,
		"How many pods were to be created, by what for and by what came of it.", "reason", "status")
	podsJudged = counter("pod_failures_handled_by_failure_policy_total", metrics.BETA,
		"How many failed pods a rule of a pod failure policy was about.", "action")
	podsTracked = counter("terminated_pods_tracking_finalizer_total", metrics.BETA,
		"How many pods that have ended came to have the finalizer batch.kubernetes.io/job-tracking, and how many were rid of it.", "event")
	jobsElsewhere = counter("jobs_by_external_controller_total", metrics.ALPHA,
		"How many Jobs were seen that another controller manages.", "controller_name")
	staleSyncSkips = counter("stale_sync_skips_total", metrics.ALPHA,
		"How many syncs were put off because a cache did not show the Job's own writes.", "group", "resource")
)

func counter(name string, level metrics.StabilityLevel, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: level}, labels)
}

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(syncDuration, syncs, jobsFinished, podsFinished, indexesFinished, podsCreated, podsJudged,
		podsTracked, jobsElsewhere, staleSyncSkips)
})

func mode(job *batchv1.Job) string {
	return string(ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion))
}

func observeSync(seen observed, p plan, took time.Duration, err error) {
	result, action := "success", "tracking"
	if err != nil {
		result = "error"
	}
	switch {
	case p.verdict != nil || !seen.mayAct:
		action = "reconciling"
	case len(p.create) > 0:
		action = "pods_created"
	case len(p.delete) > 0:
		action = "pods_deleted"
	}
	syncDuration.WithLabelValues(mode(seen.job), result, action).Observe(took.Seconds())
	syncs.WithLabelValues(mode(seen.job), result, action).Inc()
}

// countFinished counts what a status has more than the one before.
func countFinished(job *batchv1.Job, old batchv1.JobStatus) {
	succeeded := max(int(job.Status.Succeeded-old.Succeeded), 0)
	if isIndexed(job) {
		succeeded = countIndexes(job, old)
	}
	podsFinished.WithLabelValues(mode(job), "succeeded").Add(float64(succeeded))
	podsFinished.WithLabelValues(mode(job), "failed").Add(float64(max(job.Status.Failed-old.Failed, 0)))
	for _, c := range job.Status.Conditions {
		if isTrue(old, c.Type) || c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			jobsFinished.WithLabelValues(mode(job), "succeeded", c.Reason).Inc()
		case batchv1.JobFailed:
			jobsFinished.WithLabelValues(mode(job), "failed", c.Reason).Inc()
		}
	}
}

// countIndexes counts indexes that a status has more than the one before, and
// returns how many of them have succeeded. One that was in there and is not below
// completions any more is in neither.
func countIndexes(job *batchv1.Job, old batchv1.JobStatus) (succeeded int) {
	completions, limit := int(*job.Spec.Completions), "global"
	more := func(now, before string) int {
		return max(parseIndexes(now, completions).len()-parseIndexes(before, completions).len(), 0)
	}
	if countsPerIndex(job) {
		limit = "perIndex"
		failed := more(ptr.Deref(job.Status.FailedIndexes, ""), ptr.Deref(old.FailedIndexes, ""))
		indexesFinished.WithLabelValues("failed", limit).Add(float64(failed))
	}
	succeeded = more(job.Status.CompletedIndexes, old.CompletedIndexes)
	indexesFinished.WithLabelValues("succeeded", limit).Add(float64(succeeded))
	return succeeded
}

// reasonToCreate says in words of the metric why pods are created: to replace
// others, and which ones podReplacementPolicy wants replaced, or as new ones.
func reasonToCreate(job *batchv1.Job, t tally) string {
	switch {
	case t.failed > 0 && ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed:
		return "recreate_failed"
	case t.failed > 0 || len(t.terminating) > 0:
		return "recreate_terminating_or_failed"
	}
	return "new"
}

// countJudgements counts what the pod failure policy says of pods that are counted
// now.
func countJudgements(seen observed, pods []*corev1.Pod) {
	for _, pod := range pods {
		if action := judge(seen.job.Spec.PodFailurePolicy, pod).action; action != "" && hasFailed(seen.job, pod) {
			podsJudged.WithLabelValues(string(action)).Inc()
		}
	}
}

// countTracking counts pods that have ended as they come to have the finalizer or
// are rid of it. A pod that is not there is nil.
func countTracking(old, pod *corev1.Pod) {
	waits := func(pod *corev1.Pod) bool {
		ended := []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}
		return pod != nil && hasFinalizer(pod) && slices.Contains(ended, pod.Status.Phase)
	}
	switch was, is := waits(old), waits(pod); {
	case is && !was:
		podsTracked.WithLabelValues("add").Inc()
	case was && !is:
		podsTracked.WithLabelValues("delete").Inc()
	}
}

func countManagedElsewhere(job *batchv1.Job) {
	if isManagedElsewhere(job) {
		jobsElsewhere.WithLabelValues(*job.Spec.ManagedBy).Inc()
	}
}
