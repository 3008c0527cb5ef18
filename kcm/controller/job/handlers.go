package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// newsPeriod is how long news of a Job's pods is collected before the Job is
// synced. Each sync that finds pods which have ended writes the status, so what
// ends within a second costs one write.
const newsPeriod = time.Second

// watchJobs has a change of a Job's spec wake it at once, and one of its status,
// which the loop itself writes, when there may be other news. Who no longer
// counts pods lets go of them.
func (c *Controller) watchJobs(informer cache.SharedIndexInformer) {
	wake := func(job *batchv1.Job, delay time.Duration) { c.loop.AddAfter(cache.MetaObjectToName(job), delay) }
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*batchv1.Job]{
		Add: func(job *batchv1.Job) {
			countManagedElsewhere(job)
			c.orphanPods(job) // they may have been seen before it, and it may be over
			wake(job, 0)
		},
		Update: func(old, job *batchv1.Job) {
			switch {
			case isFinished(job):
				c.orphanPods(job)
				wake(job, 0)
			case old.Generation != job.Generation:
				wake(job, 0)
			default:
				wake(job, newsPeriod)
			}
		},
		Delete: func(job *batchv1.Job) {
			c.orphanPods(job)
			wake(job, 0)
		},
	}))
}

// watchPods has changes of pods wake the Jobs that they concern, and those that no
// Job will count wake the other loop.
func (c *Controller) watchPods(informer cache.SharedIndexInformer) {
	waker := &controller.Waker[*batchv1.Job, *corev1.Pod]{
		Loop: c.loop,
		Kind: kind.Kind,
		Get:  c.job,
		List: func(namespace string) ([]*batchv1.Job, error) {
			return c.jobs.Jobs(namespace).List(labels.Everything())
		},
		Selector:     func(job *batchv1.Job) *metav1.LabelSelector { return job.Spec.Selector },
		NewsPeriod:   newsPeriod,
		Expectations: c.expectations,
	}
	c.synced = append(c.synced,
		controller.Handle(informer, waker.Handlers()),
		controller.Handle(informer, controller.Handlers[*corev1.Pod]{
			Add: func(pod *corev1.Pod) {
				countTracking(nil, pod)
				c.orphanPod(pod)
			},
			Update: func(old, pod *corev1.Pod) {
				countTracking(old, pod)
				c.orphanPod(pod)
			},
			Delete: func(pod *corev1.Pod) { countTracking(pod, nil) },
		}))
}

// job reads the cache.
func (c *Controller) job(key cache.ObjectName) (*batchv1.Job, error) {
	return c.jobs.Jobs(key.Namespace).Get(key.Name)
}
