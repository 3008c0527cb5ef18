package tainteviction

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/feature"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop reads of pods. Of nodes it reads the spec.
var Reads = []*controller.Keep{controller.PodState, controller.KeepOf(func(kept, whole *corev1.Pod) {
	kept.Spec.Tolerations = nil
	for _, t := range whole.Spec.Tolerations {
		if t.Effect == corev1.TaintEffectNoExecute || t.Effect == "" {
			kept.Spec.Tolerations = append(kept.Spec.Tolerations, t)
		}
	}
})}

// Controller deletes each pod when its deadline has come.
type Controller struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	loop   *controller.Loop[cache.ObjectName]
	events *controller.Events
	synced []cache.InformerSynced
	// deadlines has, by name, the deadline that each pod had when it was looked at last. The next
	// leader does without.
	deadlines sync.Map
}

// New returns the loop of that name, which is also the source of its events. It watches pods and
// nodes with the informers, which the caller starts, and writes through client.
func New(
	ctx context.Context,
	client kubernetes.Interface,
	podInformer coreinformers.PodInformer,
	nodeInformer coreinformers.NodeInformer,
	name string,
) (*Controller, error) {
	registerMetrics()
	c := &Controller{
		client: client,
		pods:   podInformer.Lister(),
		nodes:  nodeInformer.Lister(),
		events: controller.NewEvents(ctx, client, name),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       name,
		QueueName:  "noexec_taint_pod",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.watchNodes(nodeInformer.Informer(), controller.PodsOn(podInformer.Informer()))
	c.watchPods(podInformer.Informer())
	return c, nil
}

// Run works on as many pods at a time as there are workers, until ctx ends and the last worker has
// finished. What fails is tried again, ever less often. That a pod is gone, or that another has
// its name by now, is no failure.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	c.loop.Run(ctx, workers, c.synced...)
}

// sync deletes a pod whose deadline has come, and has one whose deadline will come looked at then.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	pod, due, before := c.observe(key)
	if due == nil {
		c.deadlines.Delete(key)
		if pod != nil && before != nil && before.pod == pod.UID {
			c.tell(pod, "Cancelling deletion of Pod")
		}
		return nil
	}
	c.deadlines.Store(key, due)
	if left := time.Until(due.at); left > 0 {
		c.loop.AddAfter(key, left)
		return nil
	}
	if err := c.evict(ctx, pod, due); err != nil && !controller.IsGone(err) {
		return fmt.Errorf("evict pod %s from node %s: %w", key, pod.Spec.NodeName, err)
	}
	c.deadlines.Delete(key)
	return nil
}

// observe returns a pod that nobody has deleted yet, its deadline by what the caches show, and that
// of the last look. Each may be nil.
func (c *Controller) observe(key cache.ObjectName) (pod *corev1.Pod, due, before *deadline) {
	if d, ok := c.deadlines.Load(key); ok {
		before = d.(*deadline)
	}
	pod, _ = c.pods.Pods(key.Namespace).Get(key.Name) // nil if the cache has none
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil, nil, before
	}
	node, _ := c.nodes.Get(pod.Spec.NodeName)
	if node == nil {
		return pod, nil, before // what is bound to a node that is gone is the pod garbage collector's
	}
	return pod, c.deadlineOn(node, pod, before), before
}

// deadlineOn returns the deadline of a pod by the taints of a node, after another one, or nil.
func (c *Controller) deadlineOn(node *corev1.Node, pod *corev1.Pod, before *deadline) *deadline {
	compare := feature.DefaultFeatureGate.Enabled(controller.TaintTolerationComparisonOperators)
	due := deadlineOf(pod, node, time.Now(), compare)
	if due == nil {
		return nil
	}
	return due.after(before)
}
