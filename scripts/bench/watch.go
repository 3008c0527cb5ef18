package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watch counts pods and knows the Deployments, by namespace.
type watch struct {
	moments
	pods        map[string]*count
	ready       map[types.UID]bool
	deployments map[string]map[string]*appsv1.Deployment
}

type count struct{ existing, ready int }

// startWatch returns a watch that has seen everything there is. It ends when
// stop is called.
func startWatch(ctx context.Context, client kubernetes.Interface) (w *watch, stop func(), err error) {
	w = &watch{pods: map[string]*count{}, ready: map[types.UID]bool{}, deployments: map[string]map[string]*appsv1.Deployment{}}
	stop, err = startInformers(ctx, client, func(factory informers.SharedInformerFactory) []cache.InformerSynced {
		return []cache.InformerSynced{
			controller.Handle(factory.Core().V1().Pods().Informer(), controller.Handlers[*corev1.Pod]{
				Add:    func(pod *corev1.Pod) { w.change(func() { w.observePod(pod) }) },
				Update: func(_, pod *corev1.Pod) { w.change(func() { w.observePod(pod) }) },
				Delete: func(pod *corev1.Pod) { w.change(func() { w.forgetPod(pod) }) },
			}),
			controller.Handle(factory.Apps().V1().Deployments().Informer(), controller.Handlers[*appsv1.Deployment]{
				Add:    func(d *appsv1.Deployment) { w.change(func() { w.observeDeployment(d) }) },
				Update: func(_, d *appsv1.Deployment) { w.change(func() { w.observeDeployment(d) }) },
			}),
		}
	})
	return w, stop, err
}

// startInformers starts what handle has asked for and returns when its
// handlers have been given all that there is.
func startInformers(ctx context.Context, client kubernetes.Interface, handle func(informers.SharedInformerFactory) []cache.InformerSynced) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	synced := handle(factory)
	factory.Start(ctx.Done())
	stop = func() {
		cancel()
		factory.Shutdown()
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		stop()
		return nil, fmt.Errorf("start to watch the cluster: %w", context.Cause(ctx))
	}
	return stop, nil
}

func (w *watch) observePod(pod *corev1.Pod) {
	count := w.count(pod.Namespace)
	was, known := w.ready[pod.UID]
	is := isReady(pod)
	if !known {
		count.existing++
	}
	if is && !was {
		count.ready++
	}
	if was && !is {
		count.ready--
	}
	w.ready[pod.UID] = is
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *watch) forgetPod(pod *corev1.Pod) {
	count := w.count(pod.Namespace)
	count.existing--
	if w.ready[pod.UID] {
		count.ready--
	}
	delete(w.ready, pod.UID)
}

func (w *watch) count(namespace string) *count {
	if w.pods[namespace] == nil {
		w.pods[namespace] = &count{}
	}
	return w.pods[namespace]
}

func (w *watch) observeDeployment(d *appsv1.Deployment) {
	if w.deployments[d.Namespace] == nil {
		w.deployments[d.Namespace] = map[string]*appsv1.Deployment{}
	}
	w.deployments[d.Namespace][d.Name] = d
}

// existing tells when a namespace has exactly n pods.
func (w *watch) existing(namespace string, n int) <-chan time.Time {
	return w.when(func() bool { return w.count(namespace).existing == n })
}

// allReady tells when a namespace has exactly n pods and all are Ready.
func (w *watch) allReady(namespace string, n int) <-chan time.Time {
	return w.when(func() bool { return *w.count(namespace) == count{existing: n, ready: n} })
}

// complete tells when a namespace has n Deployments and the status of each
// says that its rollout is complete, from a given generation on.
func (w *watch) complete(namespace string, n int, generation int64) <-chan time.Time {
	return w.when(func() bool {
		if len(w.deployments[namespace]) != n {
			return false
		}
		for _, d := range w.deployments[namespace] {
			if d.Generation < generation || !isComplete(d) {
				return false
			}
		}
		return true
	})
}

// completeOne tells when the status of one Deployment says that its rollout is
// complete, from its present generation on.
func (w *watch) completeOne(d *appsv1.Deployment) <-chan time.Time {
	return w.when(func() bool {
		seen := w.deployments[d.Namespace][d.Name]
		return seen != nil && seen.Generation >= d.Generation && isComplete(seen)
	})
}

// isComplete is what `kubectl rollout status` waits for.
func isComplete(d *appsv1.Deployment) bool {
	wanted := *d.Spec.Replicas
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == wanted &&
		d.Status.Replicas == wanted && d.Status.AvailableReplicas == wanted
}

// await waits for something in a namespace.
func (w *watch) await(ctx context.Context, what, namespace string, reached <-chan time.Time) (time.Time, error) {
	return w.wait(ctx, what, reached, func() string {
		complete := 0
		for _, d := range w.deployments[namespace] {
			if isComplete(d) {
				complete++
			}
		}
		return fmt.Sprintf("%+v pods, %d of %d Deployments complete", *w.count(namespace), complete, len(w.deployments[namespace]))
	})
}
