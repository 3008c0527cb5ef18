package cronjob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// jobAt is a Job that was created for an hour of March 2, and runs.
func jobAt(hour int, edits ...func(*batchv1.Job)) *batchv1.Job {
	at := instant("2026-03-02 00:00:00").Add(time.Duration(hour) * time.Hour)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: jobName(testCronJob(), at), UID: types.UID(fmt.Sprint("job-", hour))}}
	job.Status.StartTime = new(metav1.NewTime(at))
	for _, edit := range edits {
		edit(job)
	}
	return job
}

func ended(condition batchv1.JobConditionType) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
		if condition == batchv1.JobComplete {
			job.Status.CompletionTime = new(metav1.NewTime(job.Status.StartTime.Add(time.Minute)))
		}
	}
}

func scheduledFor(moment string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: moment}
	}
}

func going(job *batchv1.Job) { job.DeletionTimestamp = job.Status.StartTime }

func active(jobs ...*batchv1.Job) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		for _, job := range jobs {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{Name: job.Name, UID: job.UID})
		}
	}
}

func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
}

func keep(successful, failed int32) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = &successful, &failed
	}
}

func suspended(cj *batchv1.CronJob) { cj.Spec.Suspend = new(true) }

func told(p plan) string {
	var parts []string
	for _, job := range p.delete {
		parts = append(parts, "delete "+string(job.UID))
	}
	for _, ref := range p.replace {
		parts = append(parts, "replace "+string(ref.UID))
	}
	if !p.start.IsZero() {
		parts = append(parts, "start "+p.start.UTC().Format("15:04"))
	}
	for _, ref := range p.status.Active {
		parts = append(parts, "active "+string(ref.UID))
	}
	for _, e := range p.events {
		parts = append(parts, e.reason)
	}
	if p.status.LastSuccessfulTime != nil {
		parts = append(parts, "success "+p.status.LastSuccessfulTime.UTC().Format("15:04"))
	}
	return strings.Join(parts, "; ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		cronJob              *batchv1.CronJob
		jobs                 []*batchv1.Job
		gone                 []corev1.ObjectReference
		want                 string
	}{
		{"a Job is started for the moment that is due", "13:00 has no Job", testCronJob(), nil, nil, "start 13:00"},
		{"not while the CronJob is suspended", "13:00 has no Job, and it is suspended", testCronJob(suspended), nil, nil, ""},
		{"a second Job may run beside the first", "that of 12:00 runs", testCronJob(active(jobAt(12))), []*batchv1.Job{jobAt(12)}, nil, "start 13:00; active job-12"},
		{"under Forbid it may not", "that of 12:00 runs", testCronJob(active(jobAt(12)), policy(batchv1.ForbidConcurrent)), []*batchv1.Job{jobAt(12)}, nil, "active job-12; JobAlreadyActive"},
		{"under Forbid it may when the first has ended", "that of 12:00 is complete", testCronJob(active(jobAt(12)), policy(batchv1.ForbidConcurrent)), []*batchv1.Job{jobAt(12, ended(batchv1.JobComplete))}, nil, "start 13:00; SawCompletedJob; success 12:01"},
		{"under Forbid it may when the first is gone", "that of 12:00 is gone", testCronJob(active(jobAt(12)), policy(batchv1.ForbidConcurrent)), nil, []corev1.ObjectReference{{UID: "job-12"}}, "start 13:00; MissingJob"},
		{"under Replace the first has to go", "that of 12:00 runs", testCronJob(active(jobAt(12)), policy(batchv1.ReplaceConcurrent)), []*batchv1.Job{jobAt(12)}, nil, "replace job-12; start 13:00; active job-12"},
		{"a Job that was started is not started again", "that of 13:00 runs, and the time is not in the status", testCronJob(active(jobAt(13))), []*batchv1.Job{jobAt(13)}, nil, "active job-13"},
		{"a Job that nobody has noted is told of", "that of 12:00 runs, and is not in the status", testCronJob(lastRun("2026-03-02 13:00:00")), []*batchv1.Job{jobAt(12)}, nil, "UnexpectedJob"},
		{"those that ended first go, of each kind as many as are too many", "three are complete and two have failed, and one of each is kept", testCronJob(keep(1, 1), lastRun("2026-03-02 13:00:00")),
			[]*batchv1.Job{jobAt(9, ended(batchv1.JobComplete)), jobAt(7, ended(batchv1.JobComplete)), jobAt(8, ended(batchv1.JobFailed)), jobAt(10, ended(batchv1.JobFailed)), jobAt(6, ended(batchv1.JobComplete))}, nil,
			"delete job-6; delete job-7; delete job-8; success 09:01"},
		{"none has to be kept", "one is complete, and none is kept", testCronJob(keep(0, 0), lastRun("2026-03-02 13:00:00")), []*batchv1.Job{jobAt(9, ended(batchv1.JobComplete))}, nil, "delete job-9; success 09:01"},
		{"one that is not entered yet is not deleted first", "that of 13:00 is complete, the status does not have it, and none is kept", testCronJob(keep(0, 0)), []*batchv1.Job{jobAt(13, ended(batchv1.JobComplete), scheduledFor("2026-03-02T13:00:00Z"))}, nil, "start 13:00; success 13:01"},
		{"one that is entered is", "that of 13:00 is complete, and none is kept", testCronJob(keep(0, 0), lastRun("2026-03-02 13:00:00")), []*batchv1.Job{jobAt(13, ended(batchv1.JobComplete), scheduledFor("2026-03-02T13:00:00Z"))}, nil, "delete job-13; success 13:01"},
		{"one that is being deleted is not deleted again", "two are complete, one is kept, and the older is being deleted", testCronJob(keep(1, 1), lastRun("2026-03-02 13:00:00")), []*batchv1.Job{jobAt(7, ended(batchv1.JobComplete), going), jobAt(9, ended(batchv1.JobComplete))}, nil, "success 09:01"},
		{"one that is being deleted is not kept, so another one is", "two are complete, one is kept, and the younger is being deleted", testCronJob(keep(1, 1), lastRun("2026-03-02 13:00:00")), []*batchv1.Job{jobAt(7, ended(batchv1.JobComplete)), jobAt(9, ended(batchv1.JobComplete), going)}, nil, "success 09:01"},
		{"without a limit all are kept", "one is complete", testCronJob(lastRun("2026-03-02 13:00:00")), []*batchv1.Job{jobAt(9, ended(batchv1.JobComplete))}, nil, "success 09:01"},
		{"a schedule that cannot be read is told of", "the schedule is a word", testCronJob(schedule("daily")), nil, nil, "UnparseableSchedule"},
		{"a zone that there is not is told of", "Mars/Olympus", testCronJob(zone("Mars/Olympus")), nil, nil, "UnknownTimeZone"},
		{"more than a Job a minute is told of, and comes to one", "every 30 seconds since 13:00:00", testCronJob(schedule("@every 30s"), lastRun("2026-03-02 12:58:00")), nil, nil, "start 13:00; UnsupportedSchedule"},
		{"a Job a minute is as often as can be", "every 60 seconds", testCronJob(schedule("@every 60s")), nil, nil, "start 13:00"},
		{"a day that never comes is told of", "February 31", testCronJob(schedule("0 0 31 2 *")), nil, nil, "InvalidSchedule"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			p := decide(observed{cronJob: test.cronJob, jobs: test.jobs, gone: test.gone, now: instant("2026-03-02 13:00:10")})
			assert.Equal(t, test.want, told(p), "what is to be done at 13:00:10: %s", test.situation)
		})
	}
}

func TestTheJobOfAMoment(t *testing.T) {
	t.Parallel()
	cj := testCronJob(zone("Asia/Tokyo"), func(cj *batchv1.CronJob) {
		cj.Spec.JobTemplate.Labels, cj.Spec.JobTemplate.Annotations = map[string]string{"app": "nightly"}, map[string]string{"for": "people"}
	})
	job, err := newJob(cj, instant("2026-03-02 18:00:00"))
	require.NoError(t, err)
	assert.Equal(t, "nightly-29541240", job.Name, "its name has the minutes since 1970")
	assert.Equal(t, map[string]string{"for": "people", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-03T03:00:00+09:00"}, job.Annotations, "its moment in the zone of the CronJob")
	assert.Equal(t, map[string]string{"app": "nightly"}, job.Labels)
	assert.True(t, metav1.IsControlledBy(job, cj))
	assert.Len(t, cj.Spec.JobTemplate.Annotations, 1, "the template, which is the cache's")
}
