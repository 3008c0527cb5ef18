package tainteviction

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/feature"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop reads of pods. Of nodes it reads the spec. Most pods are bound when they are
// created, and only of the others the cache says when that was.
var Reads = []*controller.Keep{controller.PodState, controller.KeepOf(func(kept, whole *corev1.Pod) {
	kept.Spec.Tolerations = nil
	for _, t := range whole.Spec.Tolerations {
		if t.Effect == corev1.TaintEffectNoExecute || t.Effect == "" {
			kept.Spec.Tolerations = append(kept.Spec.Tolerations, t)
		}
	}
	if bound := boundAt(whole); bound.After(boundAt(kept)) {
		kept.Status.Conditions = append(kept.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodScheduled, LastTransitionTime: metav1.NewTime(bound)})
	}
})}

// lookAgain is when a pod is looked at again at the latest, lest what is gone is remembered for as long
// as it tolerated a taint, which may be for years.
const lookAgain = time.Hour

// Controller deletes each pod when its deadline has come.
type Controller struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	loop   *controller.Loop[cache.ObjectName]
	events *controller.Events
	synced []cache.InformerSynced
	// deadlines has, by name, the deadlines that each pod had when it was looked at last. The next
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
	if len(due) == 0 {
		c.deadlines.Delete(key)
		if pod != nil && len(before) > 0 && before[0].pod == pod.UID {
			c.tell(pod, "Cancelling deletion of Pod")
		}
		return nil
	}
	c.deadlines.Store(key, due)
	if left := time.Until(due[0].at); left > 0 {
		c.loop.AddAfter(key, min(left, lookAgain))
		return nil
	}
	if err := c.evict(ctx, pod, due); err != nil && !controller.IsGone(err) {
		return fmt.Errorf("evict pod %s from node %s: %w", key, pod.Spec.NodeName, err)
	}
	c.deadlines.Delete(key)
	return nil
}

// observe returns a pod that nobody has deleted yet, its deadlines by what the caches show, and those
// of the last look. The pod may be nil.
func (c *Controller) observe(key cache.ObjectName) (pod *corev1.Pod, due, before []deadline) {
	if known, ok := c.deadlines.Load(key); ok {
		before = known.([]deadline)
	}
	pod, _ = c.pods.Pods(key.Namespace).Get(key.Name) // nil if the cache has none
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil, nil, before
	}
	node, _ := c.nodes.Get(pod.Spec.NodeName)
	if node == nil {
		return pod, nil, before // what is bound to a node that is gone is the pod garbage collector's
	}
	return pod, c.deadlinesOn(node, pod, before), before
}

// deadlinesOn returns the deadlines of a pod by the taints of a node, after others, the first one first.
func (c *Controller) deadlinesOn(node *corev1.Node, pod *corev1.Pod, before []deadline) []deadline {
	compare := feature.DefaultFeatureGate.Enabled(controller.TaintTolerationComparisonOperators)
	due := deadlinesOf(pod, node, time.Now(), compare)
	for i := range due {
		due[i] = due[i].after(before)
	}
	slices.SortStableFunc(due, func(a, b deadline) int { return a.at.Compare(b.at) })
	return due
}
