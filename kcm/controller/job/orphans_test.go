package job

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

func TestWhenAJobEndsOnlyPodsThatItHasNotLetGoOfArePatchedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		jobs := latecache.NewStore[*batchv1.Job](batchv1.Resource("jobs"))
		pods := latecache.NewStore[*corev1.Pod](corev1.Resource("pods"))
		job := stored(jobs.Create(testJob()))
		released := stored(pods.Create(podOf(job, "released")))
		stored(pods.Create(podOf(job, "held")))
		jobCache, podCache, patched := runOrphans(t, jobs, pods)

		released.Finalizers = nil
		stored(pods.Update(released))
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		stored(jobs.Update(job))
		jobCache.CatchUp() // and the cache of pods is late
		time.Sleep(newsPeriod / 2)
		podCache.CatchUp()
		time.Sleep(newsPeriod)
		synctest.Wait()
		require.Equal(t, []string{name + "-held"}, *patched)
	})
}

// The cache of pods is ahead: it shows that the pods of a Job are going to follow
// it while the cache of Jobs shows the Job, and then another Job of its name.
func TestAJobThatWasReplacedUnseenLetsGoOfItsPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		jobs := latecache.NewStore[*batchv1.Job](batchv1.Resource("jobs"))
		pods := latecache.NewStore[*corev1.Pod](corev1.Resource("pods"))
		pod := stored(pods.Create(podOf(stored(jobs.Create(testJob())), "held")))
		jobCache, podCache, patched := runOrphans(t, jobs, pods)

		pod.DeletionTimestamp = new(metav1.Now())
		stored(pods.Update(pod))
		podCache.CatchUp()
		time.Sleep(2 * newsPeriod)
		synctest.Wait()
		require.Empty(t, *patched, "the cache shows the Job, which would count the pod")

		require.NoError(t, jobs.Delete(name))
		stored(jobs.Create(testJob()))
		jobCache.Relist()
		jobCache.CatchUp()
		time.Sleep(2 * newsPeriod)
		synctest.Wait()
		require.Equal(t, []string{name + "-held"}, *patched)
	})
}

// runOrphans runs the loop that lets go of pods, with caches that show what is in
// the stores, until the test ends. It returns the caches, and of which pods the
// loop has taken the finalizer off.
func runOrphans(t *testing.T, jobs *latecache.Store[*batchv1.Job], pods *latecache.Store[*corev1.Pod]) (
	jobCache *latecache.Informer[*batchv1.Job], podCache *latecache.Informer[*corev1.Pod], patched *[]string) {
	jobCache, podCache, patched = latecache.NewInformer(jobs), latecache.NewInformer(pods), new([]string)
	client := &fake.Clientset{}
	client.AddReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.PatchAction).GetName()
		*patched = append(*patched, name)
		return true, stored(pods.Get(name)), nil
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	factory.InformerFor(&batchv1.Job{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return jobCache })
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return podCache })
	ctx, stop := context.WithCancel(t.Context())
	c := newController(ctx, client, clock.RealClock{}, factory.Core().V1().Pods(), factory.Batch().V1().Jobs())
	t.Cleanup(func() {
		stop()
		shutDown(c)
	})
	go c.orphans.Run(ctx, 1)
	return jobCache, podCache, patched
}
