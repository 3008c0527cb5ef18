// Package ttl tells kubelets for how long they may go by a Secret or a ConfigMap before they
// read it again: the longer, the more nodes there are. A kubelet listens to that if its
// configMapAndSecretChangeDetectionStrategy is Cache.
package ttl

import (
	"context"
	"fmt"
	"math"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Controller writes for how many seconds kubelets may go by what they have read, into the
// annotation node.alpha.kubernetes.io/ttl of each node.
type Controller struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	synced cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]

	mu    sync.Mutex
	count int // how many nodes there are
	step  int
}

// NewTTLController returns a controller that watches nodes with the informer, which the
// caller starts, and annotates them through client.
func NewTTLController(_ context.Context, nodes coreinformers.NodeInformer, client kubernetes.Interface) *Controller {
	c := &Controller{client: client, nodes: nodes.Lister()}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "ttl-controller",
		QueueName:  "ttlcontroller",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.synced = controller.Handle(nodes.Informer(), controller.Handlers[*corev1.Node]{
		Add:          func(node *corev1.Node) { c.counted(1); c.changed(node) },
		Update:       func(_, node *corev1.Node) { c.changed(node) },
		Delete:       func(*corev1.Node) { c.counted(-1) },
		MustNotPanic: true, // the count would be wrong from then on
	})
	return c
}

// Run waits until all nodes are counted, and then writes to as many at a time as there are
// workers, until ctx ends and the last worker has finished. What fails is tried again, ever
// less often. That a node is gone is no failure.
func (c *Controller) Run(ctx context.Context, workers int) {
	if cache.WaitForNamedCacheSyncWithContext(ctx, c.synced) {
		c.begin()
	}
	c.loop.Run(ctx, workers)
}

// step is a size of the cluster and what its nodes are told.
type step struct {
	least, most int // how many nodes there are
	seconds     string
}

// steps overlap: a cluster in which a few nodes come and go does not have all of them
// written each time.
var steps = []step{
	{0, 100, "0"},
	{90, 500, "15"},
	{450, 1000, "30"},
	{900, 2000, "60"},
	{1800, math.MaxInt, "300"},
}

// stepFor returns the step of so many nodes: the current one as long as it allows for them.
func stepFor(nodes, current int) int {
	for nodes > steps[current].most {
		current++
	}
	for nodes < steps[current].least {
		current--
	}
	return current
}

// counted notes that so many nodes have come or, below zero, gone. At another step, all nodes
// are looked at. (The original looks at each when it next changes, which may take minutes.)
func (c *Controller) counted(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += more
	if step := stepFor(c.count, c.step); step != c.step {
		c.step = step
		c.lookAtAll()
	}
}

// begin goes on with the step that the process before this one had come to, as the nodes say.
// (The original begins with the first one: where two are allowed, it goes back to the lower.)
func (c *Controller) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = stepFor(c.count, stepOf(c.lookAtAll()))
}

// stepOf returns the step that most nodes have been told, or the first if none has been told
// any.
func stepOf(nodes []*corev1.Node) (most int) {
	told := map[string]int{}
	for _, node := range nodes {
		told[node.Annotations[corev1.ObjectTTLAnnotationKey]]++
	}
	for i, s := range steps {
		if told[s.seconds] > told[steps[most].seconds] {
			most = i
		}
	}
	return most
}

func (c *Controller) lookAtAll() []*corev1.Node {
	nodes, _ := c.nodes.List(labels.Everything()) // the cache never fails
	for _, node := range nodes {
		c.loop.Add(cache.MetaObjectToName(node))
	}
	return nodes
}

// changed looks at a node that does not say what it should. (The original lets another way to
// write the number stand, such as 015.)
func (c *Controller) changed(node *corev1.Node) {
	if node.Annotations[corev1.ObjectTTLAnnotationKey] != c.wanted() {
		c.loop.Add(cache.MetaObjectToName(node))
	}
}

func (c *Controller) wanted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return steps[c.step].seconds
}

// sync writes to a node, whichever has the name by now. If the cache is behind, it does so
// once more, and nothing changes.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	node, err := c.nodes.Get(key.Name)
	seconds := c.wanted()
	if err == nil && node.Annotations[corev1.ObjectTTLAnnotationKey] != seconds {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, corev1.ObjectTTLAnnotationKey, seconds)
		_, err = c.client.CoreV1().Nodes().Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if controller.IsGone(err) {
		return nil
	}
	return err
}
