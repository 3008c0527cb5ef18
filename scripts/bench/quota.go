package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// limitedPods are in the namespace of a quota, which was made after them.
	limitedPods = 10_000
	// recounts is how many of them are deleted, one after the other.
	recounts = 100
)

// used is how many pods the status of the quota says there are, or -1.
type used struct {
	moments
	pods int64
}

func (t *trial) watchQuota(ctx context.Context) (u *used, stop func(), err error) {
	u = &used{pods: -1}
	seen := func(q *corev1.ResourceQuota) {
		if sum, ok := q.Status.Used[corev1.ResourcePods]; ok {
			u.change(func() { u.pods = sum.Value() })
		}
	}
	stop, err = startInformers(ctx, t.client, func(factory informers.SharedInformerFactory) []cache.InformerSynced {
		return []cache.InformerSynced{
			controller.Handle(factory.Core().V1().ResourceQuotas().Informer(), controller.Handlers[*corev1.ResourceQuota]{
				Add: seen, Update: func(_, q *corev1.ResourceQuota) { seen(q) },
			}),
		}
	})
	return u, stop, err
}

// await waits until the status says that there are n pods.
func (u *used) await(ctx context.Context, n int64) (time.Time, error) {
	said := u.when(func() bool { return u.pods == n })
	return u.wait(ctx, fmt.Sprintf("the quota says %d pods", n), said, func() string { return fmt.Sprintf("%d", u.pods) })
}

// recount has a quota counted for the first time, and then each time that one of
// its pods goes.
func (t *trial) recount(ctx context.Context) error {
	if err := t.lead(ctx); err != nil {
		return err
	}
	defer func() { t.leader.end(syscall.SIGTERM) }()
	if err := t.createLimited(ctx); err != nil {
		return err
	}
	used, stop, err := t.watchQuota(ctx)
	if err != nil {
		return err
	}
	defer stop()
	begin := time.Now()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("20k"), corev1.ResourceRequestsCPU: resource.MustParse("20k"), corev1.ResourceLimitsMemory: resource.MustParse("20Ti"),
	}}}
	if _, err := t.client.CoreV1().ResourceQuotas(quotaNamespace).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		return err
	}
	counted, err := used.await(ctx, limitedPods)
	if err != nil {
		return err
	}
	t.set(keyQuota, counted.Sub(begin))
	return t.freeLimited(ctx, used)
}

// createLimited creates pods that no scheduler takes, so that nothing but the
// quota has to do with them.
func (t *trial) createLimited(ctx context.Context) error {
	return inParallel(ctx, limitedPods, limitClients, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: limitedPod(i)}, Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "kcm-book.io/never"}},
			Containers: []corev1.Container{{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			}}},
		}}
		_, err := t.client.CoreV1().Pods(quotaNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func limitedPod(i int) string { return fmt.Sprintf("web-%05d", i) }

// freeLimited deletes pods one by one, each when the quota says that the one
// before is gone.
func (t *trial) freeLimited(ctx context.Context, used *used) error {
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	var waited time.Duration
	for i := range recounts {
		begin := time.Now()
		if err := t.client.CoreV1().Pods(quotaNamespace).Delete(ctx, limitedPod(i), metav1.DeleteOptions{}); err != nil {
			return err
		}
		at, err := used.await(ctx, int64(limitedPods-i-1))
		if err != nil {
			return err
		}
		waited += at.Sub(begin)
	}
	after, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyRecount] = waited.Seconds() * 1000 / recounts
	t.result.Values[keyRecountCPU] = (after.cpu - before.cpu) * 1000 / recounts
	t.say("a quota over %d pods: counted after %.2f s; each that goes after %.1f ms, CPU %.1f ms",
		limitedPods, t.result.Values[keyQuota], t.result.Values[keyRecount], t.result.Values[keyRecountCPU])
	return nil
}
