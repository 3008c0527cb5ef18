package job

import (
	"cmp"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// verdict says how a Job is to end. It is written as a condition of its own,
// FailureTarget or SuccessCriteriaMet, before the finalizer of any pod goes for
// it. Failed or Complete follows when no pod is left.
type verdict struct {
	condition       batchv1.JobConditionType
	reason, message string
}

// failed tells whether the Job fails. What still runs has failed with it. No
// verdict, nil, is no failure.
func (v *verdict) failed() bool { return v != nil && v.condition == batchv1.JobFailureTarget }

// end returns the condition that the verdict leads to.
func (v *verdict) end() batchv1.JobConditionType {
	if v.failed() {
		return batchv1.JobFailed
	}
	return batchv1.JobComplete
}

// enough is the verdict when as many pods have succeeded as were asked for.
var enough = &verdict{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"}

// judgeJob returns the verdict on a Job for which pods may still run, or nil.
// What was said before, which is one thing at most, stands. After that failure
// comes before success.
func judgeJob(seen observed, t tally) *verdict {
	return cmp.Or(
		saidBefore(seen.job, batchv1.JobSuccessCriteriaMet),
		saidBefore(seen.job, batchv1.JobFailureTarget),
		failsByPolicy(seen, t),
		failsByNumber(seen, t),
		failsByTime(seen),
		failsByIndex(seen.job, t),
		succeedsByPolicy(seen.job, t),
	)
}

// fail returns the verdict that a Job fails.
func fail(reason, message string) *verdict {
	return &verdict{batchv1.JobFailureTarget, reason, message}
}

// saidBefore returns the verdict that a condition has written down.
func saidBefore(job *batchv1.Job, condition batchv1.JobConditionType) *verdict {
	for _, c := range job.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return &verdict{condition, c.Reason, c.Message}
		}
	}
	return nil
}

// failsByPolicy is the verdict if the pod failure policy says of a pod that no
// other pod would do better.
func failsByPolicy(seen observed, t tally) *verdict {
	for _, pod := range seen.pods {
		if !hasFailed(seen.job, pod) || !t.due.Has(pod.UID) {
			continue
		}
		if judged := judge(seen.job.Spec.PodFailurePolicy, pod); judged.failsJob() {
			return fail(batchv1.JobReasonPodFailurePolicy, judged.why)
		}
	}
	return nil
}

// failsByNumber is the verdict if more pods have failed than backoffLimit allows,
// or if their containers have been restarted that often.
func failsByNumber(seen observed, t tally) *verdict {
	limit := int(*seen.job.Spec.BackoffLimit)
	restarts := 0
	if seen.job.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
		restarts = restartsOf(filter(seen.pods, func(pod *corev1.Pod) bool { return t.due.Has(pod.UID) }))
	}
	if t.failed > limit || restarts > 0 && restarts >= limit {
		return fail(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	return nil
}

// restartsOf returns how often the containers of pods that may go on have been
// restarted.
func restartsOf(pods []*corev1.Pod) int {
	restarts := 0
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range pod.Status.InitContainerStatuses {
			restarts += int(c.RestartCount)
		}
		for _, c := range pod.Status.ContainerStatuses {
			restarts += int(c.RestartCount)
		}
	}
	return restarts
}

// failsByTime is the verdict if the Job has been active for longer than
// activeDeadlineSeconds.
func failsByTime(seen observed) *verdict {
	if left, ok := timeLeft(seen); ok && left <= 0 {
		return fail(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return nil
}

// timeLeft returns how long the Job may still be active, if that is limited. The
// time does not run while the Job is suspended.
func timeLeft(seen observed) (left time.Duration, limited bool) {
	deadline := seen.job.Spec.ActiveDeadlineSeconds
	if deadline == nil || isSuspended(seen.job) {
		return 0, false
	}
	return startTime(seen).Add(controller.Seconds(*deadline)).Sub(seen.now), true
}

// failsByIndex is the verdict on a Job that counts per index, if too many indexes
// have failed, or one has and nothing is left to do.
func failsByIndex(job *batchv1.Job, t tally) *verdict {
	failed, limit := t.failedIndexes.len(), job.Spec.MaxFailedIndexes
	switch {
	case failed == 0:
		return nil
	case limit != nil && failed > int(*limit):
		return fail(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case failed+t.completed.len() >= int(*job.Spec.Completions):
		return fail(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

// succeedsByPolicy is the verdict if the success policy is met before all indexes
// have succeeded.
func succeedsByPolicy(job *batchv1.Job, t tally) *verdict {
	if message, met := meetsSuccessPolicy(job, t.completed); met {
		return &verdict{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, message}
	}
	return nil
}
