package cronjob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// observed is what one sync knows. It is the cache's and must not be changed.
type observed struct {
	cronJob *batchv1.CronJob
	// jobs are those that the CronJob owns.
	jobs []*batchv1.Job
	// gone are Jobs that the status lists and that are not there any more.
	gone []corev1.ObjectReference
	// changed is when the schedule was changed, or zero: the since of a sighting.
	changed, now time.Time
}

// plan is what one sync does.
type plan struct {
	// status is what is known of Jobs, before any is created.
	status batchv1.CronJobStatus
	// delete are Jobs of which there are enough in the history. replace are those
	// that have to make room for a new one.
	delete  []*batchv1.Job
	replace []corev1.ObjectReference
	// start is the moment for which a Job is to be created, or zero.
	start time.Time
	// next is when to look again, or zero if nothing will be due.
	next   time.Time
	events []event
}

// event is one for the CronJob's user.
type event struct{ kind, reason, message string }

func (p *plan) tell(kind, reason, format string, args ...any) {
	p.events = append(p.events, event{kind, reason, fmt.Sprintf(format, args...)})
}

// decide says which Jobs have ended, which are to go, and whether one is to be
// created.
func decide(seen observed) plan {
	p := plan{status: *seen.cronJob.Status.DeepCopy()}
	p.takeStock(seen)
	p.delete = history(seen)
	if seen.cronJob.DeletionTimestamp == nil && !ptr.Deref(seen.cronJob.Spec.Suspend, false) {
		p.schedule(seen)
	}
	return p
}

// takeStock takes Jobs out of the active ones that have ended or are gone, and
// tells of those that run and are not among them.
func (p *plan) takeStock(seen observed) {
	for _, ref := range seen.gone {
		p.tell(corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", ref.Name)
		p.remove(ref.UID)
	}
	for _, job := range seen.jobs {
		ended, listed := end(job), false
		for i := range p.status.Active {
			if ref := &p.status.Active[i]; ref.UID == job.UID {
				listed, ref.Name = true, job.Name // a user may have written another name
			}
		}
		switch {
		case ended == "" && !listed:
			p.tell(corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", job.Name)
		case ended != "" && listed:
			p.tell(corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", job.Name, ended)
			p.remove(job.UID)
		}
		completed := job.Status.CompletionTime
		if ended == batchv1.JobComplete && completed != nil && (p.status.LastSuccessfulTime == nil || completed.After(p.status.LastSuccessfulTime.Time)) {
			p.status.LastSuccessfulTime = completed
		}
	}
}

func (p *plan) remove(uid types.UID) {
	p.status.Active = slices.DeleteFunc(p.status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

// end returns the condition with which a Job has ended, or "".
func end(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// history returns the Jobs that have ended and are more than the CronJob keeps of
// their kind, beginning with those that were started first. One that is being deleted
// is not kept, and need not be asked again. One that the status has not been given yet
// stays: its name keeps a second one from being created.
func history(seen observed) []*batchv1.Job {
	spec := seen.cronJob.Spec
	limits := map[batchv1.JobConditionType]*int32{
		batchv1.JobComplete: spec.SuccessfulJobsHistoryLimit,
		batchv1.JobFailed:   spec.FailedJobsHistoryLimit,
	}
	var surplus []*batchv1.Job
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		ended := slices.DeleteFunc(slices.Clone(seen.jobs), func(job *batchv1.Job) bool {
			return end(job) != kind || job.DeletionTimestamp != nil
		})
		slices.SortFunc(ended, byStart)
		if limit := limits[kind]; limit != nil && len(ended) > int(*limit) {
			surplus = append(surplus, ended[:len(ended)-int(*limit)]...)
		}
	}
	return slices.DeleteFunc(surplus, func(job *batchv1.Job) bool { return !isEntered(seen.cronJob, job) })
}

// isEntered tells whether the moment for which a Job was created is in the status,
// or a later one is. A Job that somebody else has created is for none.
func isEntered(cj *batchv1.CronJob, job *batchv1.Job) bool {
	at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	last := cj.Status.LastScheduleTime
	return err != nil || last != nil && !at.After(last.Time)
}

// byStart orders Jobs by when they were started. Those that never were come last.
func byStart(a, b *batchv1.Job) int {
	never := time.Unix(1<<40, 0)
	started := func(job *batchv1.Job) time.Time { return ptr.Deref(job.Status.StartTime, metav1.NewTime(never)).Time }
	return cmp.Or(started(a).Compare(started(b)), cmp.Compare(a.Name, b.Name))
}

// schedule says whether a Job is due, and whether it may be created.
func (p *plan) schedule(seen observed) {
	cj := seen.cronJob
	if zone := cj.Spec.TimeZone; zone != nil {
		if _, err := time.LoadLocation(*zone); err != nil {
			p.tell(corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *zone, err)
			return
		}
	}
	if strings.Contains(cj.Spec.Schedule, "TZ") {
		p.tell(corev1.EventTypeWarning, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", cj.Spec.Schedule)
	}
	schedule, err := parse(cj)
	if err != nil {
		p.tell(corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", cj.Spec.Schedule, err)
		return
	}
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok && every.Delay < time.Minute { // a Job's name has its minute
		p.tell(corev1.EventTypeWarning, "UnsupportedSchedule", "schedule %q asks for more than a Job a minute, and gets one a minute", cj.Spec.Schedule)
		schedule = cron.Every(time.Minute)
	}
	m, err := momentsOf(cj, schedule, seen.changed, seen.now)
	if err != nil {
		p.tell(corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", cj.Spec.Schedule, err)
		return
	}
	p.next = m.next
	if m.missed > tooMany {
		p.tell(corev1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	p.concur(cj, m.due)
}

// concur starts a Job for the moment that is due, if the Jobs that still run let
// it.
func (p *plan) concur(cj *batchv1.CronJob, due time.Time) {
	started := func(ref corev1.ObjectReference) bool { return ref.Name == jobName(cj, due) }
	switch {
	case due.IsZero() || slices.ContainsFunc(p.status.Active, started):
	case cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(p.status.Active) > 0:
		p.tell(corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
	case cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		p.replace, p.start = slices.Clone(p.status.Active), due
	default:
		p.start = due
	}
}

// jobName returns the name of the Job for a moment. It is the same in every
// process, and so the API server sees to it that there is one.
func jobName(cj *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, at.Unix()/60)
}

// newJob returns the Job for a moment, which it learns from an annotation in the
// CronJob's time zone.
func newJob(cj *batchv1.CronJob, at time.Time) (*batchv1.Job, error) {
	zone, err := time.LoadLocation(ptr.Deref(cj.Spec.TimeZone, ""))
	if err != nil {
		return nil, fmt.Errorf("time zone of cron job %s: %w", cj.Name, err)
	}
	template := cj.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       cj.Namespace,
			Name:            jobName(cj, at),
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)},
		},
		Spec: template.Spec,
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, batchv1.CronJobScheduledTimestampAnnotation, at.In(zone).Format(time.RFC3339))
	return job, nil
}
