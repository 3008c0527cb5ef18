package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func wasSuspended(job *batchv1.Job) {
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Reason: "JobSuspended", Message: "Job suspended"})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		job                  *batchv1.Job
		pods                 pods
		done                 done
		keepsStart           bool
		want                 string
	}{
		{"what was created is active", "one ran, and two were created", testJob(), pods{"p1": {readyPod}}, done{created: 2}, false, "active 3, ready 1, terminating 0, started 0s ago"},
		{"what was deleted is terminating", "two ran, one of them ready, and both were deleted", testJob(startedAgo(time.Minute)), pods{"p1": {readyPod}, "p2": {}}, done{deleted: 2, deletedReady: 1}, false, "active 0, ready 0, terminating 2, started 1m0s ago"},
		{"a pod that has ended is neither", "one has succeeded, and is being deleted", testJob(startedAgo(time.Minute)), pods{"p1": {ok, going}}, done{}, false, "active 0, ready 0, terminating 0, started 1m0s ago"},
		{"a Job that begins suspended has not started", "it is suspended", testJob(suspended), nil, done{}, false, "active 0, ready 0, terminating 0, Suspended=True"},
		{"a Job that is suspended starts anew", "it had started, and is suspended", testJob(suspended, startedAgo(time.Minute)), nil, done{}, false, "active 0, ready 0, terminating 0, Suspended=True"},
		{"unless the gate for that is off", "it had started, and is suspended", testJob(suspended, startedAgo(time.Minute)), nil, done{}, true, "active 0, ready 0, terminating 0, started 1m0s ago, Suspended=True"},
		{"a Job that goes on starts now", "it was suspended", testJob(wasSuspended), nil, done{}, false, "active 0, ready 0, terminating 0, started 0s ago, Suspended=False"},
		{"a Job that was never suspended has no such condition", "it runs", testJob(startedAgo(time.Minute)), nil, done{}, false, "active 0, ready 0, terminating 0, started 1m0s ago"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := observed{job: test.job, pods: test.pods.of(test.job), mayAct: true, resetsStart: !test.keepsStart, now: testNow}
			status := decideStatus(seen, count(seen), plan{}, test.done)
			got := fmt.Sprintf("active %d, ready %d, terminating %d", status.Active, *status.Ready, *status.Terminating)
			if status.StartTime != nil {
				got += fmt.Sprintf(", started %s ago", testNow.Sub(status.StartTime.Time))
			}
			for _, c := range status.Conditions {
				got += fmt.Sprintf(", %s=%s", c.Type, c.Status)
			}
			assert.Equal(t, test.want, got, "the status: %s", test.situation)
		})
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour   string
		verdict     *verdict
		left        int
		terminating int32
		uncounted   batchv1.UncountedTerminatedPods
		want        batchv1.JobConditionType
	}{
		{"without a verdict it goes on", nil, 0, 0, batchv1.UncountedTerminatedPods{}, ""},
		{"with one it ends", enough, 0, 0, batchv1.UncountedTerminatedPods{}, batchv1.JobComplete},
		{"or fails", fail("BackoffLimitExceeded", ""), 0, 0, batchv1.UncountedTerminatedPods{}, batchv1.JobFailed},
		{"not while a pod has its finalizer", enough, 1, 0, batchv1.UncountedTerminatedPods{}, ""},
		{"not while a pod may still run", enough, 0, 1, batchv1.UncountedTerminatedPods{}, ""},
		{"not while one has to be counted", enough, 0, 0, batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"s1"}}, ""},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			status := batchv1.JobStatus{UncountedTerminatedPods: &test.uncounted, Terminating: &test.terminating}
			finish(&status, test.verdict, test.left, testNow)
			var end batchv1.JobConditionType
			for _, c := range status.Conditions {
				end = c.Type
			}
			assert.Equal(t, test.want, end, "the condition with which it ends")
			assert.Equal(t, test.want == batchv1.JobComplete, status.CompletionTime != nil, "whether it has a completion time")
		})
	}
}

func TestWhatEndsHasStartedAndNotLater(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour   string
		start, want *metav1.Time
	}{
		{"what ends suspended starts with its end", nil, &metav1.Time{Time: testNow}},
		{"what has started ends now", &metav1.Time{Time: testNow.Add(-time.Hour)}, &metav1.Time{Time: testNow}},
		{"what has started by a clock that is ahead ends then", &metav1.Time{Time: testNow.Add(time.Hour)}, &metav1.Time{Time: testNow.Add(time.Hour)}},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			status := batchv1.JobStatus{StartTime: test.start, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}, Terminating: new(int32(0))}
			finish(&status, enough, 0, testNow)
			assert.Equal(t, test.want, status.CompletionTime, "when it was complete")
			assert.NotNil(t, status.StartTime, "when it started")
		})
	}
}

func TestAPodIsHeldOnlyWhileSomebodyWillCountIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		finished, gone := rapid.Bool().Draw(t, "finished"), rapid.Bool().Draw(t, "gone")
		deleted, owned := rapid.Bool().Draw(t, "deleted"), rapid.SampledFrom([]string{"Job", "ReplicaSet", ""}).Draw(t, "owner")
		elsewhere, holds := rapid.Bool().Draw(t, "elsewhere"), rapid.Bool().Draw(t, "holds")
		m := newModel(true, func(job *batchv1.Job) {
			if elsewhere {
				job.Spec.ManagedBy = ptr.To("example.com/us")
			}
		})
		job := m.job()
		if finished {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			job = stored(m.jobs.Update(job))
		}
		if gone {
			stored(job, m.jobs.Delete(name))
			stored(m.jobs.Create(testJob(func(job *batchv1.Job) { job.Name = "other" })))
		}
		pod := podOf(job, "p")
		switch owned {
		case "":
			pod.OwnerReferences = nil
		case "ReplicaSet":
			pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].APIVersion = "ReplicaSet", "apps/v1"
		}
		if deleted {
			pod.DeletionTimestamp = &metav1.Time{Time: testNow}
		}
		if !holds {
			pod.Finalizers = nil
		}
		m.start(t)
		want := holds && (owned == "" || owned == "Job" && (gone && deleted || !gone && finished && !elsewhere))
		if got := m.loop.isOrphan(pod); got != want {
			t.Fatalf("the pod's finalizer is to go: %v, and it says %v", want, got)
		}
	})
}
