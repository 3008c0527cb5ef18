package cronjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// hourly is a CronJob of a bubble, where it is midnight on January 1, 2000.
func hourly(edits ...func(*batchv1.CronJob)) *batchv1.CronJob {
	return testCronJob(append([]func(*batchv1.CronJob){func(cj *batchv1.CronJob) {
		cj.CreationTimestamp = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		cj.Spec.JobTemplate.Labels = map[string]string{"app": "nightly"}
	}}, edits...)...)
}

// run runs a controller while something happens, and returns when Jobs were
// created and what the CronJob's status then is. The API server refuses so many
// creations at first.
func run(t *testing.T, cj *batchv1.CronJob, refusals int, happens func(client *fake.Clientset), objects ...runtime.Object) (created string, status batchv1.CronJobStatus) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset(append(objects, cj)...)
		var at []string
		names := map[string]bool{}
		client.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if refusals > 0 {
				refusals--
				return true, nil, apierrors.NewInternalError(errors.New("the API server is busy"))
			}
			job := action.(clienttesting.CreateAction).GetObject().(*batchv1.Job)
			job.UID, job.CreationTimestamp = types.UID("uid-"+job.Name), metav1.Now()
			if !names[job.Name] { // no second one of a name can be
				at = append(at, time.Now().UTC().Format(time.TimeOnly))
			}
			names[job.Name] = true
			return false, nil, nil
		})
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
		ctx, stop := context.WithCancel(t.Context())
		c := NewController(ctx, factory.Batch().V1().Jobs(), factory.Batch().V1().CronJobs(), client)
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { c.Run(ctx, 2); close(ended) }()
		happens(client)
		now, err := client.BatchV1().CronJobs("shop").Get(t.Context(), cj.Name, metav1.GetOptions{})
		require.NoError(t, err)
		created, status = cmp.Or(strings.Join(at, " "), "never"), now.Status
		stop()
		<-ended
		factory.Shutdown()
	})
	return created, status
}

func hours(n time.Duration) func(*fake.Clientset) {
	return func(*fake.Clientset) { time.Sleep(n*time.Hour + 10*time.Minute) }
}

func TestJobsAreCreatedInTime(t *testing.T) {
	t.Parallel()
	t.Run("one is created at each moment", func(t *testing.T) {
		t.Parallel()
		created, status := run(t, hourly(), 0, hours(3))
		assert.Equal(t, "01:00:00 02:00:00 03:00:00", created, "when Jobs are created: each full hour, for three hours")
		assert.Len(t, status.Active, 3, "active Jobs")
		assert.Equal(t, "03:00:00", status.LastScheduleTime.UTC().Format(time.TimeOnly), "last moment")
	})
	t.Run("a schedule that changes counts from then on", func(t *testing.T) {
		t.Parallel()
		created, _ := run(t, hourly(), 0, func(client *fake.Clientset) {
			time.Sleep(70 * time.Minute)
			cj, err := client.BatchV1().CronJobs("shop").Get(t.Context(), "nightly", metav1.GetOptions{})
			require.NoError(t, err)
			cj.Spec.Schedule = "20 * * * *"
			_, err = client.BatchV1().CronJobs("shop").Update(t.Context(), cj, metav1.UpdateOptions{})
			require.NoError(t, err)
			time.Sleep(time.Hour)
		})
		assert.Equal(t, "01:00:00 01:20:00", created, "when Jobs are created: at each full hour, and from 01:10 on at 20 past")
	})
	t.Run("one that was changed before the process began, too", func(t *testing.T) {
		t.Parallel()
		changed := hourly(schedule("5,25,45 * * * *"), lastRun("1999-12-31 22:45:00"), wrote("kubectl-edit", "1999-12-31 23:50:00", `{"f:schedule":{}}`))
		changed.CreationTimestamp = metav1.NewTime(instant("1999-12-31 12:00:00"))
		created, _ := run(t, changed, 0, hours(1))
		assert.Equal(t, "00:05:00 00:25:00 00:45:00 01:05:00", created, "when Jobs are created: every 20 minutes since 23:50, so not for 23:45")
	})
	t.Run("one is created in each interval, whatever the deadline", func(t *testing.T) {
		t.Parallel()
		for _, deadline := range []int64{0, 1, 30, 3599, 3600, 9000} {
			created, _ := run(t, hourly(schedule("@every 1h"), startingDeadline(deadline)), 0, hours(3))
			assert.Equal(t, "01:00:00 02:00:00 03:00:00", created, "when Jobs are created: every hour, and there are %d seconds", deadline)
			created, _ = run(t, hourly(startingDeadline(deadline)), 0, hours(3))
			assert.Equal(t, "01:00:00 02:00:00 03:00:00", created, "when Jobs are created: at each full hour, and there are %d seconds", deadline)
		}
	})
	t.Run("an interval of less than a minute is a minute", func(t *testing.T) {
		t.Parallel()
		created, status := run(t, hourly(schedule("@every 1s")), 0, func(*fake.Clientset) { time.Sleep(150 * time.Second) })
		assert.Equal(t, "00:01:00 00:02:00", created, "when Jobs are created: every second, for two and a half minutes")
		assert.Equal(t, "00:02:00", status.LastScheduleTime.UTC().Format(time.TimeOnly), "last moment")
	})
	t.Run("a creation that fails is tried again", func(t *testing.T) {
		t.Parallel()
		created, status := run(t, hourly(), 2, hours(1))
		assert.Equal(t, "01:00:00", created, "when Jobs are created, refusals left out: the first two requests are refused")
		assert.Len(t, status.Active, 1, "active Jobs")
	})
}

func TestAJobThatWasCreatedBeforeACrashIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	at := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
	t.Run("it is entered in the status", func(t *testing.T) {
		t.Parallel()
		job, err := newJob(hourly(), at)
		require.NoError(t, err)
		job.UID = "uid-before"
		_, status := run(t, hourly(), 0, hours(1), job)
		require.Len(t, status.Active, 1, "active Jobs")
		assert.EqualValues(t, "uid-before", status.Active[0].UID, "which one")
		assert.True(t, status.LastScheduleTime.Time.Equal(at), "last moment")
	})
	t.Run("one of that name that is somebody else's is left alone", func(t *testing.T) {
		t.Parallel()
		job, err := newJob(hourly(), at)
		require.NoError(t, err)
		job.OwnerReferences = nil
		_, status := run(t, hourly(), 0, hours(1), job)
		assert.Empty(t, status.Active, "active Jobs")
	})
}

// momentsOfJobs returns for which moments there are Jobs, sorted.
func momentsOfJobs(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	jobs, err := client.BatchV1().Jobs("shop").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var moments []string
	for _, job := range jobs.Items {
		moments = append(moments, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	}
	slices.Sort(moments)
	return moments
}

func TestUnderReplaceOneMakesRoom(t *testing.T) {
	t.Parallel()
	var left []string
	created, status := run(t, hourly(policy(batchv1.ReplaceConcurrent)), 0, func(client *fake.Clientset) {
		hours(2)(client)
		left = momentsOfJobs(t, client)
	})
	assert.Equal(t, "01:00:00 02:00:00", created, "when Jobs are created")
	assert.Equal(t, []string{"2000-01-01T02:00:00Z"}, left, "Jobs that are left: none has ended")
	assert.Len(t, status.Active, 1, "active Jobs")
}

func TestUnderReplaceAllMakeRoom(t *testing.T) {
	t.Parallel()
	var left []string
	_, status := run(t, hourly(), 0, func(client *fake.Clientset) {
		hours(3)(client)
		cj, err := client.BatchV1().CronJobs("shop").Get(t.Context(), "nightly", metav1.GetOptions{})
		require.NoError(t, err)
		cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent
		_, err = client.BatchV1().CronJobs("shop").Update(t.Context(), cj, metav1.UpdateOptions{})
		require.NoError(t, err)
		hours(1)(client)
		left = momentsOfJobs(t, client)
	})
	assert.Equal(t, []string{"2000-01-01T04:00:00Z"}, left, "Jobs that are left: three ran beside each other")
	assert.Len(t, status.Active, 1, "active Jobs")
}

func TestAnActiveJobWhoseNameIsAPathIsGoneAndNotAskedFor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "..", "../../pods/web", "a%2fb"} {
		cj := hourly(active(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "invented"}}))
		var asked []string
		_, status := run(t, cj, 0, func(client *fake.Clientset) {
			time.Sleep(10 * time.Minute)
			for _, action := range client.Actions() {
				if get, ok := action.(clienttesting.GetAction); ok && action.GetResource().Resource == "jobs" {
					asked = append(asked, get.GetName())
				}
			}
		})
		assert.Empty(t, status.Active, "somebody has written that the Job %q is active", name)
		assert.Empty(t, asked, "somebody has written that the Job %q is active", name)
	}
	cj := hourly(active(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 253), UID: "invented"}}))
	_, status := run(t, cj, 0, func(*fake.Clientset) { time.Sleep(10 * time.Minute) })
	assert.Empty(t, status.Active, "somebody has written that a Job with a name of 253 characters is active, and there is none")
}

func TestUnderReplaceTheJobGoesWhateverNameSomebodyHasWrittenBesideItsUID(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "..", "../../pods/web", "a%2fb", "another", strings.Repeat("a", 253)} {
		t.Run(fmt.Sprintf("%.12q", name), func(t *testing.T) {
			t.Parallel()
			first, err := newJob(hourly(), instant("2000-01-01 00:00:00"))
			require.NoError(t, err)
			first.UID = "first"
			renamed := first.DeepCopy()
			renamed.Name = name
			for _, entries := range [][]*batchv1.Job{{renamed}, {first, renamed}} {
				var left, deleted []string
				_, status := run(t, hourly(policy(batchv1.ReplaceConcurrent), active(entries...), lastRun("2000-01-01 00:00:00")), 0, func(client *fake.Clientset) {
					hours(1)(client)
					left = momentsOfJobs(t, client)
					for _, action := range client.Actions() {
						if deletion, ok := action.(clienttesting.DeleteAction); ok {
							deleted = append(deleted, deletion.GetName())
						}
					}
				}, first)
				assert.Equal(t, []string{"2000-01-01T01:00:00Z"}, left, "Jobs that are left: that of midnight stood in the status as %q, in the last of %d entries", name, len(entries))
				assert.Equal(t, []string{first.Name}, slices.Compact(deleted), "names of deletions that were asked for: that of midnight stood in the status as %q, in the last of %d entries", name, len(entries))
				assert.Len(t, status.Active, 1, "active Jobs")
			}
		})
	}
}
