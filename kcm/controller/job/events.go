package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// tell records an event for each condition that the status did not have before
// and that a Job's user waits for.
func (c *Controller) tell(job *batchv1.Job, old batchv1.JobStatus) {
	for _, condition := range job.Status.Conditions {
		was, is := isTrue(old, condition.Type), isTrue(job.Status, condition.Type)
		switch {
		case was == is:
		case condition.Type == batchv1.JobSuspended && is:
			c.events.Event(job, corev1.EventTypeNormal, "Suspended", condition.Message)
		case condition.Type == batchv1.JobSuspended:
			c.events.Event(job, corev1.EventTypeNormal, "Resumed", condition.Message)
		case condition.Type == batchv1.JobComplete:
			if job.Spec.Completions != nil && job.Status.Succeeded > *job.Spec.Completions {
				c.events.Event(job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
			}
			c.events.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
		case condition.Type == batchv1.JobFailed:
			c.events.Event(job, corev1.EventTypeWarning, condition.Reason, condition.Message)
		}
	}
}
