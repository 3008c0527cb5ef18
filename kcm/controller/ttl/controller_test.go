package ttl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	watch.DefaultChanSize = 2000       // for what all nodes are told at once
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// cluster is an API server with nodes in a bubble.
type cluster struct {
	t      *testing.T
	client *fake.Clientset

	mu      sync.Mutex
	written map[string]int  // how many nodes were told which annotation
	told    map[string]bool // which node was told what, so that a patch that a stale cache causes is not counted again
	refused error           // what a patch is answered with
	made    func(loop *Controller)
}

// in calls body with a cluster that has these nodes.
func in(t *testing.T, there []*corev1.Node, body func(c *cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, client: fake.NewSimpleClientset(), written: map[string]int{}, told: map[string]bool{}}
		for _, node := range there {
			require.NoError(t, c.client.Tracker().Add(node))
		}
		c.client.PrependReactor("*", "nodes", c.react)
		body(c)
	})
}

// runs has a loop run until body returns.
func (c *cluster) runs(body func()) {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim()))
	loop := NewTTLController(ctx, factory.Core().V1().Nodes(), c.client)
	if c.made != nil {
		c.made(loop)
	}
	factory.Start(ctx.Done())
	synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
	ended := make(chan struct{})
	go func() { loop.Run(ctx, 5); close(ended) }()
	time.Sleep(time.Second) // it has begun by then
	body()
	stop()
	<-ended
	factory.Shutdown()
}

// react lets a loop do what the role of its account allows, unless that is refused.
func (c *cluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch action := action.(type) {
	case clienttesting.ListAction, clienttesting.WatchAction:
		return false, nil, nil
	case clienttesting.PatchActionImpl:
		if c.refused != nil {
			c.written["refused"]++
			return true, nil, c.refused
		}
		if once := action.Name + string(action.Patch); !c.told[once] {
			c.told[once] = true
			c.written[string(action.Patch)]++
		}
		return false, nil, nil
	}
	return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("the role does not allow it"))
}

func (c *cluster) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = err
}

// after lets time pass, and returns what was written meanwhile, and to how many nodes.
func (c *cluster) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var writes []string
	for _, patch := range slices.Sorted(maps.Keys(c.written)) {
		value := strings.TrimSuffix(strings.TrimPrefix(patch, `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"`), `"}}}`)
		writes = append(writes, fmt.Sprintf("%d x %s", c.written[patch], value))
	}
	clear(c.written)
	clear(c.told)
	return cmp.Or(strings.Join(writes, ", "), "nothing")
}

func (c *cluster) come(all ...*corev1.Node) {
	for _, node := range all {
		require.NoError(c.t, c.client.Tracker().Create(nodes, node, ""))
	}
}

func (c *cluster) leave(names ...string) {
	for _, name := range names {
		require.NoError(c.t, c.client.Tracker().Delete(nodes, "", name))
	}
}

func (c *cluster) annotations(name string) map[string]string {
	node, err := c.client.Tracker().Get(nodes, "", name)
	require.NoError(c.t, err)
	return node.(*corev1.Node).Annotations
}

// edit changes a node as somebody else does.
func (c *cluster) edit(name string, edit func(*corev1.Node)) {
	node, err := c.client.Tracker().Get(nodes, "", name)
	require.NoError(c.t, err)
	changed := node.DeepCopyObject().(*corev1.Node)
	edit(changed)
	require.NoError(c.t, c.client.Tracker().Update(nodes, changed, ""))
}

// heartbeats has a node change ten times as its kubelet does.
func (c *cluster) heartbeats(name string) {
	for range 10 {
		c.edit(name, func(node *corev1.Node) { node.ResourceVersion += "1"; node.Status.Phase += "x" })
	}
}

// some returns nodes from the first to below the last number, which have been told these
// seconds, or nothing.
func some(first, last int, told string) (all []*corev1.Node) {
	for i := first; i < last; i++ {
		name := fmt.Sprint("node-", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if told != "" {
			node.Annotations = map[string]string{"node.alpha.kubernetes.io/ttl": told}
		}
		all = append(all, node)
	}
	return all
}

func names(all []*corev1.Node) (names []string) {
	for _, node := range all {
		names = append(names, node.Name)
	}
	return names
}

func TestANodeIsToldHowLongItMayGoByWhatItHasRead(t *testing.T) {
	for what, node := range map[string]*corev1.Node{
		"a node that was told nothing":        some(0, 1, "")[0],
		"a node that was told something else": some(0, 1, "300")[0],
		"a node that has no number":           some(0, 1, "soon")[0],
		"a node that has it in another way":   some(0, 1, "00")[0],
		"a node that is being deleted": {ObjectMeta: metav1.ObjectMeta{
			Name: "node-0", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"example.com/hold"},
		}},
	} {
		t.Run(what, func(t *testing.T) {
			in(t, nil, func(c *cluster) {
				c.runs(func() {
					c.come(node)
					assert.Equal(t, "1 x 0", c.after(time.Hour))
				})
			})
		})
	}
	t.Run("other annotations stay", func(t *testing.T) {
		in(t, some(0, 1, ""), func(c *cluster) {
			c.edit("node-0", func(node *corev1.Node) { node.Annotations = map[string]string{"mine": "1"} })
			c.runs(func() {
				c.after(time.Hour)
				assert.Equal(t, map[string]string{"mine": "1", "node.alpha.kubernetes.io/ttl": "0"}, c.annotations("node-0"))
			})
		})
	})
	t.Run("what somebody else writes is put back", func(t *testing.T) {
		in(t, some(0, 1, "0"), func(c *cluster) {
			c.runs(func() {
				assert.Equal(t, "nothing", c.after(time.Hour))
				c.edit("node-0", func(node *corev1.Node) { node.Annotations["node.alpha.kubernetes.io/ttl"] = "15" })
				assert.Equal(t, "1 x 0", c.after(time.Hour))
				c.edit("node-0", func(node *corev1.Node) { node.Annotations = nil })
				assert.Equal(t, "1 x 0", c.after(time.Hour))
			})
		})
	})
}

func TestAStepIsToldToAllNodes(t *testing.T) {
	t.Run("from 101 nodes on", func(t *testing.T) {
		in(t, some(0, 99, "0"), func(c *cluster) {
			c.runs(func() {
				c.come(some(99, 100, "")...)
				assert.Equal(t, "1 x 0", c.after(time.Hour), "the 100th node has come")
				c.come(some(100, 101, "")...)
				assert.Equal(t, "101 x 15", c.after(time.Hour), "the 101st node has come, and no other one has changed")
				c.leave(names(some(0, 11, ""))...)
				assert.Equal(t, "nothing", c.after(time.Hour), "90 are left")
				c.leave("node-11")
				assert.Equal(t, "89 x 0", c.after(time.Hour), "89 are left")
			})
		})
	})
	t.Run("a node that changes otherwise is not written", func(t *testing.T) {
		in(t, some(0, 3, "0"), func(c *cluster) {
			c.runs(func() {
				c.heartbeats("node-1")
				assert.Equal(t, "nothing", c.after(time.Hour))
			})
		})
	})
}

func TestARestartForgetsNothing(t *testing.T) {
	for _, test := range []struct {
		what  string
		nodes []*corev1.Node
		want  string
	}{
		{"95 nodes that were told 15", some(0, 95, "15"), "nothing"},
		{"95 nodes that were told 0", some(0, 95, "0"), "nothing"},
		{"95 nodes of which some were not told yet", append(some(0, 60, "15"), some(60, 95, "0")...), "35 x 15"},
		{"95 nodes of which a few were told a higher step", append(some(0, 5, "15"), some(5, 95, "0")...), "5 x 0"},
		{"a node that has come meanwhile", append(some(0, 95, "15"), some(95, 96, "")...), "1 x 15"},
		{"so many have gone meanwhile that it is another step", some(0, 89, "15"), "89 x 0"},
		{"so many have come meanwhile that it is another step", some(0, 101, "0"), "101 x 15"},
		{"so many have come meanwhile that it is a later step", some(0, 1001, "0"), "1001 x 60"},
		{"no node", nil, "nothing"},
	} {
		t.Run(test.what, func(t *testing.T) {
			in(t, test.nodes, func(c *cluster) {
				c.runs(func() { assert.Equal(t, test.want, c.after(time.Hour)) })
			})
		})
	}
}

func TestWhatIsRefusedIsTriedAgainUntilItIsGranted(t *testing.T) {
	resource, kind := corev1.Resource("nodes"), corev1.SchemeGroupVersion.WithKind("Node").GroupKind()
	for _, refusal := range []error{
		apierrors.NewForbidden(resource, "node-0", errors.New("not now")),
		apierrors.NewConflict(resource, "node-0", errors.New("not now")),
		apierrors.NewInvalid(kind, "node-0", nil),
		apierrors.NewInternalError(errors.New("failed calling webhook")),
		errors.New("EOF"),
	} {
		reason := cmp.Or(apierrors.ReasonForError(refusal), "no answer")
		t.Run(fmt.Sprintf("what is refused with %s is tried again", reason), func(t *testing.T) {
			in(t, some(0, 1, ""), func(c *cluster) {
				c.refuse(refusal)
				c.runs(func() {
					assert.Equal(t, "18 x refused", c.after(20*time.Minute), "from 5 ms on, each time twice as long, up to 1000 s")
					c.refuse(nil)
					assert.Equal(t, "1 x 0", c.after(1000*time.Second))
				})
			})
		})
	}
	t.Run("a node that is gone is left alone", func(t *testing.T) {
		in(t, some(0, 1, ""), func(c *cluster) {
			c.client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
				return true, watch.NewFake(), nil // the cache does not hear of it
			})
			c.refuse(apierrors.NewNotFound(resource, "node-0"))
			c.runs(func() { assert.Equal(t, "1 x refused", c.after(time.Hour)) })
		})
	})
}

func TestRunReturnsWhenItsTimeIsOver(t *testing.T) {
	in(t, nil, func(c *cluster) {
		factory := informers.NewSharedInformerFactory(c.client, 0)
		loop := NewTTLController(c.t.Context(), factory.Core().V1().Nodes(), c.client)
		ctx, stop := context.WithTimeout(c.t.Context(), time.Minute)
		defer stop()
		loop.Run(ctx, 5) // the informer does not even start
		assert.Error(t, ctx.Err())
	})
}
