package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// model is a cluster with one CronJob for each full hour and its loop. The loop is
// the real one, from the handlers of its informers to its client. What surrounds
// it moves when it is told to: time, what the caches show, how the API server
// answers, between which two requests the process is killed, how Jobs end.
type model struct {
	cronJobs     *latecache.Store[*batchv1.CronJob]
	jobs         *latecache.Store[*batchv1.Job]
	cronJobCache *latecache.Informer[*batchv1.CronJob]
	jobCache     *latecache.Informer[*batchv1.Job]
	clock        *clocktesting.FakePassiveClock
	loop         *Controller

	how      outcome // how requests of the present sync are answered
	after    int     // how many are well before that
	requests int
	// created are the names of all Jobs that ever were, and unlisted those of which
	// the status may know nothing: the loop did not live to write it.
	created, unlisted map[string]bool
	// unheard says that an answer was lost, and that the cache does not show yet
	// what the request has done. Nobody can wait for that.
	unheard bool

	trace []string
	wrong string
}

type outcome string

const (
	well    outcome = "all is done"
	refused outcome = "the rest is refused"
	unsure  outcome = "the next is done, but its answer is lost"
	killed  outcome = "the process is killed"
)

func newModel(edits ...func(*batchv1.CronJob)) *model {
	m := &model{
		cronJobs: latecache.NewStore[*batchv1.CronJob](batchv1.Resource("cronjobs")),
		jobs:     latecache.NewStore[*batchv1.Job](batchv1.Resource("jobs")),
		clock:    clocktesting.NewFakePassiveClock(instant("2026-03-02 12:10:00")),
		created:  map[string]bool{},
		unlisted: map[string]bool{},
	}
	stored(m.cronJobs.Create(testCronJob(edits...)))
	return m
}

// stored stops the test when the API server refuses what the model itself wants.
func stored[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

// start starts the loop, with caches that have just been filled and with a memory
// in which there is nothing.
func (m *model) start(t *rapid.T) {
	m.cronJobCache, m.jobCache = latecache.NewInformer(m.cronJobs), latecache.NewInformer(m.jobs)
	client := &fake.Clientset{}
	client.AddReactor("*", "*", m.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&batchv1.CronJob{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.cronJobCache })
	factory.InformerFor(&batchv1.Job{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.jobCache })
	c := NewController(t.Context(), factory.Batch().V1().Jobs(), factory.Batch().V1().CronJobs(), client)
	c.clock = m.clock
	m.loop, m.unheard = c, false
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
		cancel()
		c.Run(ended, 0)
	})
	m.note("the loop starts")
}

// sync is one round of the loop. It may come at any moment.
func (m *model) sync(t *rapid.T, how outcome, after int) error {
	m.how, m.after, m.requests = how, after, 0
	err := m.loop.sync(t.Context(), cache.NewObjectName("shop", "nightly"))
	m.note("the loop syncs, with %d requests: %d, then %s", m.requests, after, how)
	if m.wrong != "" {
		m.fail(t, m.wrong)
	}
	return err
}

// answer is the API server.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	if m.requests++; m.requests > m.after && m.how == killed {
		return true, nil, errors.New("the process is no more")
	}
	if get, ok := action.(clienttesting.GetActionImpl); ok {
		job, err := m.jobs.Get(get.Name)
		return true, job, err
	}
	if m.requests > m.after && m.how == refused {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New("exceeded quota"))
	}
	obj, err := m.do(action)
	if m.requests == m.after+1 && m.how == unsure {
		m.unheard = true
		return true, nil, apierrors.NewTimeoutError("request did not complete", 0)
	}
	return true, obj, err
}

func (m *model) do(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		return m.create(action.Object.(*batchv1.Job))
	case clienttesting.DeleteActionImpl:
		return nil, m.delete(action.Name, action.DeleteOptions.Preconditions)
	case clienttesting.UpdateActionImpl: // of the status
		updated, err := m.cronJobs.Update(action.Object.(*batchv1.CronJob))
		if err == nil {
			for _, ref := range updated.Status.Active {
				delete(m.unlisted, ref.Name)
			}
		}
		return updated, err
	}
	panic("the model knows no " + action.GetVerb())
}

func (m *model) create(job *batchv1.Job) (*batchv1.Job, error) {
	job.CreationTimestamp, job.Status.StartTime = metav1.NewTime(m.clock.Now()), new(metav1.NewTime(m.clock.Now()))
	created, err := m.jobs.Create(job)
	if err != nil {
		return nil, err
	}
	if m.created[job.Name] {
		m.wrong = "a second Job was created for a moment"
	}
	if policy := m.cronJob().Spec.ConcurrencyPolicy; policy != batchv1.AllowConcurrent && len(m.running()) > 1 && !m.unheard {
		m.wrong = fmt.Sprintf("under %s two Jobs run at the same time", policy)
	}
	m.created[job.Name], m.unlisted[job.Name] = true, true
	return created, nil
}

func (m *model) delete(name string, wanted *metav1.Preconditions) error {
	job, err := m.jobs.Get(name)
	if err != nil {
		return err
	}
	if wanted != nil && *wanted.UID != job.UID {
		return apierrors.NewConflict(batchv1.Resource("jobs"), name, errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2"))
	}
	if end(job) == "" && m.cronJob().Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent {
		m.wrong = "a Job was deleted that had not ended"
	}
	return m.jobs.Delete(name)
}

func (m *model) cronJob() *batchv1.CronJob { return stored(m.cronJobs.Get("nightly")) }

// running are the Jobs that have not ended, but for those of which the status may
// know nothing.
func (m *model) running() []*batchv1.Job {
	return slices.DeleteFunc(m.jobs.List(), func(job *batchv1.Job) bool { return end(job) != "" || m.unlisted[job.Name] })
}

// comeToRest lets all be well, and wants the last moment to have had its Job, and
// no more history than is kept.
func (m *model) comeToRest(t *rapid.T) {
	for rounds := range 10 {
		m.cronJobCache.CatchUp()
		m.jobCache.CatchUp()
		if err := m.sync(t, well, 0); err != nil {
			m.fail(t, fmt.Sprintf("all was well, and a sync failed: %v", err))
		}
		if rounds == 5 { // what Forbid waits for
			for _, job := range m.jobs.List() {
				m.end(job, batchv1.JobComplete)
			}
		}
	}
	cj := m.cronJob()
	if last := m.clock.Now().Truncate(time.Hour); last.After(cj.CreationTimestamp.Time) && (cj.Status.LastScheduleTime == nil || !cj.Status.LastScheduleTime.Time.Equal(last)) {
		m.fail(t, fmt.Sprintf("all was well, and the last Job is for %v and not for %v", cj.Status.LastScheduleTime, last))
	}
	if len(m.running()) != len(cj.Status.Active) {
		m.fail(t, fmt.Sprintf("%d Jobs run, and %d are active in the status", len(m.running()), len(cj.Status.Active)))
	}
	for _, how := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		ended := slices.DeleteFunc(m.jobs.List(), func(job *batchv1.Job) bool { return end(job) != how })
		if kept := *cj.Spec.SuccessfulJobsHistoryLimit; len(ended) > int(kept) {
			m.fail(t, fmt.Sprintf("%d Jobs with condition %s are kept, and %d are to be", len(ended), how, kept))
		}
	}
}

func (m *model) end(job *batchv1.Job, how batchv1.JobConditionType) {
	if end(job) == "" {
		ended(how)(job)
		stored(m.jobs.Update(job))
	}
}

// note adds a line to the trace: what has happened, and how things are now.
func (m *model) note(format string, args ...any) {
	var jobs []string
	for _, job := range m.jobs.List() {
		jobs = append(jobs, job.Name[len(job.Name)-4:]+string(end(job)))
	}
	status := m.cronJob().Status
	m.trace = append(m.trace, fmt.Sprintf("%s %-60s | jobs %v, %d in the cache; %d active, last %v", m.clock.Now().Format("15:04"),
		fmt.Sprintf(format, args...), jobs, len(m.jobCache.Cached()), len(status.Active), status.LastScheduleTime))
}

func (m *model) fail(t *rapid.T, promise string) {
	t.Logf("%s", strings.Join(m.trace, "\n"))
	t.Fatal(promise)
}

// anything is what may happen, at any time.
func anything(m *model) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"the loop syncs": func(t *rapid.T) { m.sync(t, well, 0) },
		"the loop syncs in trouble": func(t *rapid.T) {
			m.sync(t, rapid.SampledFrom([]outcome{refused, unsure}).Draw(t, "how"), rapid.IntRange(0, 3).Draw(t, "after"))
		},
		"the process is killed in the middle of a sync": func(t *rapid.T) {
			m.sync(t, killed, rapid.IntRange(0, 3).Draw(t, "after"))
			m.start(t)
		},
		"the CronJob is shown": func(t *rapid.T) {
			m.cronJobCache.CatchUp()
			m.unheard = false
		},
		"a change of Jobs is shown": func(t *rapid.T) {
			m.jobCache.Show(1)
			m.jobCache.Tell(1)
			m.note("a change of Jobs is shown")
		},
		"the watch of Jobs breaks": func(t *rapid.T) {
			m.jobCache.Relist()
			m.note("Jobs are listed anew")
		},
		"time goes by": func(t *rapid.T) {
			m.clock.SetTime(m.clock.Now().Add(time.Duration(rapid.IntRange(1, 150).Draw(t, "minutes")) * time.Minute))
			m.note("time goes by")
		},
		"a Job ends": func(t *rapid.T) {
			jobs := m.jobs.List()
			if len(jobs) == 0 {
				t.SkipNow()
			}
			m.end(jobs[rapid.IntRange(0, len(jobs)-1).Draw(t, "job")], rapid.SampledFrom([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}).Draw(t, "how"))
			m.note("a Job ends")
		},
	}
}

func TestSchedulesOnALateCache(t *testing.T) {
	t.Parallel()
	for promise, concurrency := range map[string]batchv1.ConcurrencyPolicy{
		"however late its caches and wherever it is killed, no moment has two Jobs": batchv1.AllowConcurrent,
		"under Forbid no Job is created while one runs that the loop has entered":   batchv1.ForbidConcurrent,
		"under Replace the one that runs has gone before":                           batchv1.ReplaceConcurrent,
	} {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				kept := rapid.Int32Range(0, 2).Draw(t, "kept")
				m := newModel(policy(concurrency), keep(kept, kept), func(cj *batchv1.CronJob) { cj.Status.Active = []corev1.ObjectReference{} })
				m.start(t)
				t.Repeat(anything(m))
				m.comeToRest(t)
			})
		})
	}
}
