// Package podgc deletes pods that nobody else deletes: those that have ended
// and are too many, and those whose node or whose way to a node is gone, so
// that no kubelet will ever say that they have ended.
package podgc

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// period is the time from the end of one round to the next, and how long a
	// round lasts at most. What is left then is looked at anew.
	period = 20 * time.Second
	// quarantine is how long a node has to be missing in the cache before the
	// API server is asked whether it is gone.
	quarantine = 40 * time.Second
)

// Reads is what the loop reads of pods and nodes.
var Reads = []*controller.Keep{controller.PodState, controller.NodeConditions}

// Controller looks at all pods and nodes again and again, and deletes the pods
// that nobody else deletes.
type Controller struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	synced []cache.InformerSynced
	// threshold is how many pods that have ended are kept. With zero or less
	// all are.
	threshold int

	mu sync.Mutex
	// missing says since when a node has been missing that pods are bound to.
	missing map[string]time.Time
}

// New returns a controller that keeps as many pods as terminatedThreshold says
// of those that have ended, or all with zero or less. It reads the two
// informers, which the caller starts, and writes through client. More than one
// may be made in a process, which has one set of metrics.
func New(
	client kubernetes.Interface,
	podInformer coreinformers.PodInformer,
	nodeInformer coreinformers.NodeInformer,
	terminatedThreshold int,
) *Controller {
	registerMetrics()
	return &Controller{
		client:    client,
		pods:      podInformer.Lister(),
		nodes:     nodeInformer.Lister(),
		synced:    []cache.InformerSynced{podInformer.Informer().HasSynced, nodeInformer.Informer().HasSynced},
		threshold: terminatedThreshold,
	}
}

// Run waits until both informers have synced. Then it makes a round at once,
// and another one 20 seconds after each has ended. It deletes as many pods at
// the same time as it has workers, those of each namespace in turn, and after 20
// seconds looks again at what there is. What fails is left to the next round, and
// keeps nothing else from being done. When ctx ends it returns, with nothing of
// it left running.
func (c *Controller) Run(ctx context.Context, workers int) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("controller", "pod-garbage-collector-controller"))
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced...) {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		round := controller.Recovered(ctx, func() error { return c.round(ctx, workers) })
		if err := round(); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Round failed, will look again")
		}
	}, period)
}

// round deletes what is to be deleted by now.
func (c *Controller) round(ctx context.Context, workers int) error {
	for done := false; !done; {
		seen, err := c.observe(ctx)
		if err != nil {
			return err
		}
		done = c.act(ctx, seen, decide(seen, c.threshold), workers)
	}
	return nil
}

// observe returns what there is, as the caches have it. That a node is gone is
// asked of the API server when a pod's turn comes: there may be thousands.
func (c *Controller) observe(ctx context.Context) (situation, error) {
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return situation{}, err
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return situation{}, err
	}
	seen := situation{pods: pods, nodes: map[string]*corev1.Node{}, gone: map[string]func() bool{}}
	for _, node := range nodes {
		seen.nodes[node.Name] = node
	}
	now := time.Now()
	c.note(seen, now)
	for name, since := range c.missing {
		if now.Sub(since) >= quarantine {
			// A pod may be bound to what no node can be called.
			seen.gone[name] = sync.OnceValue(func() bool { return !controller.CanBeName(name) || c.isGone(ctx, name) })
		}
	}
	return seen, nil
}

// note brings up to date since when nodes have been missing.
func (c *Controller) note(seen situation, now time.Time) {
	missing := map[string]time.Time{}
	for _, pod := range seen.pods {
		name := pod.Spec.NodeName
		if name == "" || seen.nodes[name] != nil {
			continue
		}
		missing[name] = now
		if since, ok := c.missing[name]; ok {
			missing[name] = since
		}
	}
	c.missing = missing
}

// isGone asks the API server whether a node is gone. It is called for several
// nodes at the same time.
func (c *Controller) isGone(ctx context.Context, name string) bool {
	_, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case controller.IsGone(err):
		return true
	case err != nil:
		utilruntime.HandleErrorWithContext(ctx, err, "Cannot tell whether a node is gone", "node", klog.KRef("", name))
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.missing[name] = time.Now()
	}
	return false
}
