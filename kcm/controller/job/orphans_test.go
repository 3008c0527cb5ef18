package job

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

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
		jobCache, podCache := latecache.NewInformer(jobs), latecache.NewInformer(pods)
		client := &fake.Clientset{}
		var patched []string
		client.AddReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			name := action.(clienttesting.PatchAction).GetName()
			patched = append(patched, name)
			return true, stored(pods.Get(name)), nil
		})
		factory := informers.NewSharedInformerFactory(client, 0)
		factory.InformerFor(&batchv1.Job{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return jobCache })
		factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return podCache })
		ctx, stop := context.WithCancel(t.Context())
		c := newController(ctx, client, clock.RealClock{}, factory.Core().V1().Pods(), factory.Batch().V1().Jobs())
		defer shutDown(c)
		defer stop()
		go c.orphans.Run(ctx, 1)

		released.Finalizers = nil
		stored(pods.Update(released))
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		stored(jobs.Update(job))
		jobCache.CatchUp() // and the cache of pods is late
		time.Sleep(newsPeriod / 2)
		podCache.CatchUp()
		time.Sleep(newsPeriod)
		synctest.Wait()
		require.Equal(t, []string{name + "-held"}, patched)
	})
}
