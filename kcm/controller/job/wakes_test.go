package job

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes both loops. They note what they are asked to look at, and
// sync that only if they are said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := NewController(ctx, client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs())
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		bubble.Note(&c.orphans.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// another returns a Job of another name.
func another(name string, edits ...func(*batchv1.Job)) *batchv1.Job {
	return testJob(append([]func(*batchv1.Job){func(job *batchv1.Job) {
		job.Name, job.UID = name, types.UID("uid-"+name)
		job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": name}}
		job.Spec.Template.Labels = job.Spec.Selector.MatchLabels
	}}, edits...)...)
}

func over(job *batchv1.Job) {
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
}

// What decisions read of other objects:
//
//   - a pod of the Job: owner, labels, finalizers, phase, conditions, times, restarts, node,
//     annotations, whether it is to go. Any change of a pod wakes its Job: it waits a second
//     for more, and one sync sees all;
//   - for a pod that has the finalizer, its Job: whether it is there, and whether it is over.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	pod := func(name string, edit func(*corev1.Pod)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Pods(namespace), name, edit)
		}
	}
	podComes := func(pod *corev1.Pod) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		}
	}
	job := func(edit func(*batchv1.Job)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.BatchV1().Jobs(namespace), "report", edit)
		}
	}
	jobComes := func(job *batchv1.Job) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
			return err
		}
	}
	nobodys := func(p *corev1.Pod) { p.OwnerReferences, p.Finalizers = nil, nil }
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a Job is suspended":          {job(suspended), "report"},
		"a Job's status changes":      {job(func(job *batchv1.Job) { job.Status.Active = 7 }), "report"},
		"a Job is over":               {job(over), "report report-going report-mine"},
		"a Job comes that is over":    {jobComes(another("late", over)), "late report-late"},
		"a Job comes that is not":     {jobComes(another("late")), "late"},
		"another Job of a name comes": {jobComes(another("late", func(job *batchv1.Job) { job.UID = "uid-2" })), "late"},
		"a Job goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.BatchV1().Jobs(namespace).Delete(ctx, "report", metav1.DeleteOptions{})
		}, "report report-going"},
		"a pod comes":                              {podComes(podOf(testJob(), "new")), "report"},
		"a pod comes that is wanted":               {podComes(podOf(another("other"), "new", nobodys)), "other"},
		"a pod comes that nobody wants":            {podComes(podOf(testJob(), "new", nobodys, func(p *corev1.Pod) { p.Labels = nil })), ""},
		"a pod comes that nobody will count":       {podComes(podOf(testJob(), "new", func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, nil })), "report-new"},
		"a pod ends":                               {pod("report-mine", bad), "report"},
		"a pod is to go":                           {pod("report-mine", going), "report"},
		"a pod is restarted":                       {pod("report-mine", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} }), "report"},
		"a pod has lost its finalizer":             {pod("report-mine", free), "report"},
		"a pod is another Job's":                   {pod("report-mine", func(p *corev1.Pod) { p.OwnerReferences = podOf(another("other"), "x").OwnerReferences }), "other report"},
		"a pod is nobody's, and has its finalizer": {pod("report-mine", func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, nil }), "report report-mine"},
		"a pod of a Job that is gone is to go":     {pod("report-late", going), "report-late"},
		"a pod of a Job that is gone ends":         {pod("report-late", bad), ""},
		"a pod goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Pods(namespace).Delete(ctx, "report-mine", metav1.DeleteOptions{})
		}, "report"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			late := podOf(another("late"), "late", func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(another("late"), kind)}
			})
			client := fake.NewClientset(testJob(), another("other"), podOf(testJob(), "mine"), podOf(testJob(), "going", going), late)
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	one := testJob(parallelism(1), completions(1))
	now := metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) // when bubbles begin
	failed := func(uid types.UID) *corev1.Pod {
		return podOf(one, uid, bad, func(p *corev1.Pod) { p.CreationTimestamp = now })
	}
	retried := failed("a")
	at(0)(retried)
	retried.Annotations[batchv1.JobIndexFailureCountAnnotation] = "4"
	deadline := func(job *batchv1.Job) { job.Spec.ActiveDeadlineSeconds = new(int64(180)) }
	for what, test := range map[string]struct {
		edits []func(*batchv1.Job)
		pods  []runtime.Object
		deaf  bool
		want  string
	}{
		"the Job may be active for no longer":     {[]func(*batchv1.Job){deadline}, nil, false, "report"},
		"the Job may be active for ever":          {nil, nil, false, ""},
		"the time of one that is suspended stops": {[]func(*batchv1.Job){deadline, suspended}, nil, false, ""},
		"the pause after failures is over":        {nil, []runtime.Object{failed("a"), failed("b"), failed("c"), failed("d"), failed("e")}, false, "report"},
		"the pause of an index is over":           {[]func(*batchv1.Job){indexed, perIndex(9)}, []runtime.Object{retried}, false, "report"},
		"a pod that was created is never shown":   {nil, nil, true, "report"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			job := one.DeepCopy()
			for _, edit := range test.edits {
				edit(job)
			}
			client := fake.NewClientset(append(test.pods, job)...)
			if test.deaf {
				bubble.Deaf(client, "pods")
			}
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, true), bubble.Nothing))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	conflicts := func(verb, resource string) func(*fake.Clientset) {
		return func(client *fake.Clientset) {
			client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewConflict(corev1.Resource(resource), "report", errors.New("it has changed"))
			})
		}
	}
	for what, test := range map[string]struct {
		late        func(c *Controller)
		prepare     func(client *fake.Clientset)
		parallelism int32
	}{
		"no cache shows the pods": {late: func(c *Controller) {
			c.podWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(bubble.Late{})}
		}, parallelism: 2},
		"no cache shows the status":                    {prepare: func(client *fake.Clientset) { bubble.Deaf(client, "jobs") }, parallelism: 1},
		"no cache shows how the Job has changed":       {prepare: conflicts("update", "jobs"), parallelism: 1},
		"no cache shows how a pod's finalizer can go":  {prepare: conflicts("patch", "pods")},
		"no cache shows in which version a pod can go": {prepare: conflicts("delete", "pods")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			job := testJob(parallelism(test.parallelism), func(job *batchv1.Job) { job.ResourceVersion = "1" })
			client := fake.NewClientset(job, podOf(job, "a"))
			bubble.Ahead(client)
			if test.prepare != nil {
				test.prepare(client)
			}
			late := test.late
			if late == nil {
				late = func(*Controller) {}
			}
			sent := func() int { return len(client.Actions()) }
			var last error
			keep := func(c *Controller) { bubble.Last(&c.loop.Sync, &last) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, late, keep), sent), bubble.Most)
			assert.ErrorIs(t, last, controller.ErrStaleCache, "it still waits")
		})
	}
}
