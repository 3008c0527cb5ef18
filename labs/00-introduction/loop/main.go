// Loop keeps as many pods as each ReplicaSet asks for. It is a whole
// controller in one file, and believes its cache.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "file with the API server's address and our identity")
	late := flag.Duration("late", 0, "how long each change of a pod is held up on its way to the cache")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	l := newLoop(client, factory, *late)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	context.AfterFunc(ctx, l.queue.ShutDown)
	for l.next(ctx) {
	}
}

type loop struct {
	client      kubernetes.Interface
	replicaSets appslisters.ReplicaSetLister
	pods        corelisters.PodLister
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// newLoop returns a loop that the factory's informers wake. Each change of a
// pod is held up for late.
func newLoop(client kubernetes.Interface, factory informers.SharedInformerFactory, late time.Duration) *loop {
	replicaSets, pods := factory.Apps().V1().ReplicaSets(), factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	l := &loop{client, replicaSets.Lister(), pods.Lister(), queue}
	update := func(_, obj any) { l.wake(obj) }
	always := cache.ResourceEventHandlerFuncs{AddFunc: l.wake, UpdateFunc: update, DeleteFunc: l.wake}
	replicaSets.Informer().AddEventHandler(always)
	pods.Informer().AddEventHandler(always)
	pods.Informer().SetTransform(func(obj any) (any, error) {
		time.Sleep(late)
		return obj, nil
	})
	return l
}

// wake puts the ReplicaSet that a change concerns into the queue: the one that
// has changed, or the owner of a pod.
func (l *loop) wake(obj any) {
	switch changed := obj.(type) {
	case *appsv1.ReplicaSet:
		l.queue.Add(cache.MetaObjectToName(changed))
	case *corev1.Pod:
		if owner, found := ownerOf(changed); found {
			l.queue.Add(owner)
		}
	}
}

// ownerOf returns the name of the ReplicaSet that controls the pod, and whether there is one.
func ownerOf(pod *corev1.Pod) (cache.ObjectName, bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(pod.Namespace, owner.Name), true
}

// next waits for a key and syncs it. It returns false when the queue was shut down.
func (l *loop) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	if err := l.sync(ctx, key); err != nil {
		log.Printf("%s: %v", key, err)
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	return true
}

// sync creates the pods that the ReplicaSet lacks, or deletes as many as it has
// too many. An error is the API server's, and says that the key is to be tried
// again.
func (l *loop) sync(ctx context.Context, key cache.ObjectName) error {
	rs, err := l.replicaSets.ReplicaSets(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || rs.DeletionTimestamp != nil {
		return err
	}
	all, err := l.pods.Pods(key.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	pods, wanted := counted(rs, all), int(*rs.Spec.Replicas)
	log.Printf("%s: wants %d, sees %d", key, wanted, len(pods))
	client := l.client.CoreV1().Pods(key.Namespace)
	for range wanted - len(pods) {
		if _, err := client.Create(ctx, newPod(rs), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, pod := range pods[min(wanted, len(pods)):] {
		if err := client.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// counted returns those of the pods that serve as pods of the ReplicaSet, or
// will.
func counted(rs *appsv1.ReplicaSet, pods []*corev1.Pod) []*corev1.Pod {
	var count []*corev1.Pod
	for _, pod := range pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if metav1.IsControlledBy(pod, rs) && !ended && pod.DeletionTimestamp == nil {
			count = append(count, pod)
		}
	}
	return count
}

// newPod returns the pod that rs asks for. The API server completes its name.
func newPod(rs *appsv1.ReplicaSet) *corev1.Pod {
	template := rs.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = rs.Name + "-"
	kind := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, kind)}
	return pod
}
