package cronjob

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs
// that only if it is said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := NewController(ctx, factory.Batch().V1().Jobs(), factory.Batch().V1().CronJobs(), client)
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// of returns a Job of a CronJob, or of none.
func of(cj *batchv1.CronJob, name string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	if cj != nil {
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)}
	}
	return job
}

// What decisions read of other objects:
//
//   - a Job: owner, times, conditions, and for which moment it was created. Any change of
//     it wakes its CronJob, and the one that it is taken from: a Job has few;
//   - a Job that the status lists and that is not the CronJob's any more: whether it is there.
//     That is asked at the next moment of the schedule, which is when it makes a difference.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	job := func(name string, edit func(*batchv1.Job)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.BatchV1().Jobs("shop"), name, edit)
		}
	}
	cronJob := func(edit func(*batchv1.CronJob)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.BatchV1().CronJobs("shop"), "nightly", edit)
		}
	}
	comes := func(job *batchv1.Job) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.BatchV1().Jobs("shop").Create(ctx, job, metav1.CreateOptions{})
			return err
		}
	}
	goes := func(name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return client.BatchV1().Jobs("shop").Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	other := hourly(func(cj *batchv1.CronJob) { cj.Name, cj.UID = "other", "uid-other" })
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the schedule changes":         {cronJob(schedule("1 * * * *")), "nightly"},
		"the zone changes":             {cronJob(zone("Europe/Berlin")), "nightly"},
		"the CronJob goes on":          {cronJob(func(cj *batchv1.CronJob) { cj.Spec.Suspend = new(false) }), "nightly"},
		"the CronJob keeps fewer Jobs": {cronJob(keep(0, 0)), "nightly"},
		"a Job ends":                   {job("mine", ended(batchv1.JobFailed)), "nightly"},
		"a Job is to be deleted":       {job("mine", func(job *batchv1.Job) { job.DeletionTimestamp = new(metav1.Now()) }), "nightly"},
		"a Job is another CronJob's":   {job("mine", func(job *batchv1.Job) { job.OwnerReferences = of(other, "x").OwnerReferences }), "nightly other"},
		"a Job is nobody's any more":   {job("mine", func(job *batchv1.Job) { job.OwnerReferences = nil }), "nightly"},
		"a Job of nobody's ends":       {job("free", ended(batchv1.JobFailed)), ""},
		"a Job comes":                  {comes(of(hourly(), "new")), "nightly"},
		"a Job of nobody's comes":      {comes(of(nil, "new")), ""},
		"a Job goes":                   {goes("mine"), "nightly"},
		"a Job of nobody's goes":       {goes("free"), ""},
		"a Job of a former CronJob's":  {comes(of(hourly(func(cj *batchv1.CronJob) { cj.UID = "former" }), "new")), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(hourly(suspended), other.DeepCopy(), of(hourly(), "mine"), of(nil, "free"))
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		edits []func(*batchv1.CronJob)
		want  string
	}{
		"a moment of the schedule": {[]func(*batchv1.CronJob){schedule("5 * * * *")}, "nightly"},
		"the end of an interval":   {[]func(*batchv1.CronJob){schedule("@every 5m")}, "nightly"},
		"a moment in another zone": {[]func(*batchv1.CronJob){schedule("5 9 * * *"), zone("Asia/Tokyo")}, "nightly"},
		"no moment is near":        {[]func(*batchv1.CronJob){schedule("30 * * * *")}, ""},
		"it is suspended":          {[]func(*batchv1.CronJob){schedule("5 * * * *"), suspended}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(hourly(test.edits...))
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, true), bubble.Nothing))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	for what, late := range map[string]func(c *Controller){
		"no cache shows the status": func(c *Controller) { c.cronJobWrites = controller.NewOwnWrites(bubble.Late{}) },
		"no cache shows the Jobs":   func(c *Controller) { c.jobWrites = controller.NewOwnWrites(bubble.Late{}) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(hourly(schedule("* * * * *")))
			bubble.Ahead(client)
			sent := func() int { return len(client.Actions()) }
			var last error
			keep := func(c *Controller) { bubble.Last(&c.loop.Sync, &last) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, late, keep), sent), bubble.Most)
			assert.ErrorIs(t, last, controller.ErrStaleCache, "it still waits")
		})
	}
}
