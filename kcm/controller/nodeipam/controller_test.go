package nodeipam

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// cluster is an API server with nodes in a bubble, and a loop that gives them ranges.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	watch  *watch.FakeWatcher // where the test says what the loop hears of

	mu      sync.Mutex
	story   []string
	looks   int
	refused error // what a patch is answered with, which is not done
	lost    bool  // what is done is answered with nothing
}

// in calls body with a cluster that has these nodes.
func in(t *testing.T, there []*corev1.Node, body func(c *cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, client: fake.NewSimpleClientset()}
		for _, n := range there {
			require.NoError(t, c.client.Tracker().Add(n))
		}
		c.client.PrependReactor("*", "*", c.react)
		body(c)
	})
}

// late has the loop see what is there now, and hear of a change only when it is told.
func (c *cluster) late() {
	c.watch = watch.NewFake()
	c.client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) { return true, c.watch, nil })
}

// lists has the loop see a node as it once was, when it begins.
func (c *cluster) lists(n *corev1.Node) {
	c.client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.NodeList{Items: []corev1.Node{*n}}, nil
	})
}

// runs has a loop with these ranges run until body returns.
func (c *cluster) runs(ranges Ranges, body func()) {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim()))
	loop := New(ctx, factory.Core().V1().Nodes(), c.client, ranges)
	sync := loop.loop.Sync
	loop.loop.Sync = func(ctx context.Context, key cache.ObjectName) error {
		c.mu.Lock()
		c.looks++
		c.mu.Unlock()
		return sync(ctx, key)
	}
	factory.Start(ctx.Done())
	synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
	ended := make(chan struct{})
	go func() { loop.Run(ctx, 30); close(ended) }()
	time.Sleep(time.Second) // it has begun by then
	body()
	stop()
	<-ended
	factory.Shutdown()
}

// react is the API server. It lets the loop do what the role of its account allows.
func (c *cluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	request := action.GetVerb() + " " + action.GetResource().Resource
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			about := event.InvolvedObject
			c.story = append(c.story, fmt.Sprintf("%s %s: %s (%s, %s, %s)", event.Type, event.Reason, event.Message, event.Source.Component, about.UID, event.Namespace))
			return true, event, nil
		}
	case clienttesting.PatchActionImpl:
		if request == "patch events" {
			c.story = append(c.story, "the event again")
			return true, &corev1.Event{}, nil
		}
		return c.patch(action)
	}
	if request == "list nodes" || request == "watch nodes" {
		return false, nil, nil
	}
	return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", fmt.Errorf("the role allows no %s", request))
}

func (c *cluster) patch(action clienttesting.PatchActionImpl) (bool, runtime.Object, error) {
	var patch struct {
		Metadata struct{ UID types.UID }
		Spec     struct {
			PodCIDR  string
			PodCIDRs []string
		}
	}
	require.NoError(c.t, json.Unmarshal(action.Patch, &patch))
	require.Equal(c.t, patch.Spec.PodCIDR, patch.Spec.PodCIDRs[0])
	c.story = append(c.story, action.Name+" "+strings.Join(patch.Spec.PodCIDRs, " "))
	there, err := c.client.Tracker().Get(nodes, "", action.Name)
	if err != nil {
		return true, nil, err
	}
	changed := there.(*corev1.Node).DeepCopy()
	switch {
	case patch.Metadata.UID != changed.UID:
		return true, nil, invalid(action.Name, "metadata", "uid")
	case c.refused != nil:
		return true, nil, c.refused
	case len(changed.Spec.PodCIDRs) > 0 && !slices.Equal(changed.Spec.PodCIDRs, patch.Spec.PodCIDRs):
		return true, nil, invalid(action.Name, "spec", "podCIDRs")
	}
	changed.Spec.PodCIDR, changed.Spec.PodCIDRs = patch.Spec.PodCIDR, patch.Spec.PodCIDRs
	require.NoError(c.t, c.client.Tracker().Update(nodes, changed, ""))
	if c.lost {
		return true, nil, errors.New("EOF")
	}
	return true, changed, nil
}

// invalid is what the API server says of a field that cannot be so.
func invalid(name, first, then string) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), name,
		field.ErrorList{field.Invalid(field.NewPath(first, then), "", "field is immutable")})
}

func (c *cluster) answer(refused error, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused, c.lost = refused, lost
}

// after lets time pass, and returns what happened meanwhile, in sorted order.
func (c *cluster) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	story := c.story
	c.story = nil
	slices.Sort(story)
	return cmp.Or(strings.Join(story, "; "), "nothing")
}

// looked returns how many syncs there were since it was asked last.
func (c *cluster) looked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.looks = 0 }()
	return c.looks
}

// come has nodes come, one after the other.
func (c *cluster) come(all ...*corev1.Node) {
	for _, n := range all {
		require.NoError(c.t, c.client.Tracker().Create(nodes, n, ""))
		synctest.Wait()
	}
}

func (c *cluster) leave(name string) {
	require.NoError(c.t, c.client.Tracker().Delete(nodes, "", name))
}

// ranges says which ranges nodes have: "a 10.9.0.0/28; b".
func (c *cluster) ranges() string {
	list, err := c.client.Tracker().List(nodes, corev1.SchemeGroupVersion.WithKind("Node"), "")
	require.NoError(c.t, err)
	var said []string
	for _, n := range list.(*corev1.NodeList).Items {
		said = append(said, strings.Join(append([]string{n.Name}, n.Spec.PodCIDRs...), " "))
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// edit changes a node as somebody else does.
func (c *cluster) edit(name string, edit func(*corev1.Node)) {
	there, err := c.client.Tracker().Get(nodes, "", name)
	require.NoError(c.t, err)
	changed := there.DeepCopyObject().(*corev1.Node)
	edit(changed)
	require.NoError(c.t, c.client.Tracker().Update(nodes, changed, ""))
}

// event is one about a node of a name, which is its UID, too.
func event(name, reason string) string {
	return fmt.Sprintf("Normal %s: Node %s status is now: %s (cidrAllocator, uid-%s, default)", reason, name, reason, name)
}

const fourRanges = "a 10.9.0.0/28; b 10.9.0.16/28; c 10.9.0.32/28; d 10.9.0.48/28"

func TestEachNodeGetsARangeOfItsOwnOnce(t *testing.T) {
	t.Run("one after the other", func(t *testing.T) {
		in(t, nil, func(c *cluster) {
			c.runs(four, func() {
				c.come(node("a"), node("b"), node("c"), node("d"))
				assert.Equal(t, fourRanges, c.after(time.Hour), "what is written")
				assert.Equal(t, fourRanges, c.ranges())
			})
		})
	})
	t.Run("those that are there already", func(t *testing.T) {
		in(t, []*corev1.Node{bornAt(4, node("d")), bornAt(3, node("c")), bornAt(2, node("b", "10.9.0.16/28")), bornAt(1, node("a"))}, func(c *cluster) {
			c.runs(four, func() {
				c.after(time.Hour)
				assert.Equal(t, fourRanges, c.ranges())
			})
		})
	})
	t.Run("one of each family", func(t *testing.T) {
		in(t, nil, func(c *cluster) {
			c.runs(cutInto("10.9.0.0/26 28", "fd00::/62 64"), func() {
				c.come(node("a"), node("b"))
				assert.Equal(t, "a 10.9.0.0/28 fd00::/64; b 10.9.0.16/28 fd00:0:0:1::/64", c.after(time.Hour))
			})
		})
	})
	t.Run("a node that is being deleted gets none", func(t *testing.T) {
		in(t, []*corev1.Node{going(node("a"))}, func(c *cluster) {
			c.runs(four, func() {
				c.come(going(node("b")))
				assert.Equal(t, "nothing", c.after(time.Hour))
			})
		})
	})
}

func TestANodeThatHasItsRangeCausesNothing(t *testing.T) {
	in(t, []*corev1.Node{node("a", "10.9.0.0/28"), node("b", "192.168.7.0/24")}, func(c *cluster) {
		c.runs(four, func() {
			c.come(node("c", "10.9.0.16/28"))
			c.after(time.Minute)
			c.looked()
			for range 10 {
				c.edit("a", func(n *corev1.Node) { n.ResourceVersion += "1"; n.Status.Phase += "x" })
			}
			c.edit("a", func(n *corev1.Node) { n.DeletionTimestamp = going(n).DeletionTimestamp })
			assert.Equal(t, "nothing", c.after(time.Hour))
			assert.Zero(t, c.looked())
		})
	})
}

func TestANodeForWhichNothingIsLeftIsToldOf(t *testing.T) {
	there := []*corev1.Node{node("a", "10.9.0.0/28"), node("b", "10.9.0.16/28"), node("c", "10.9.0.32/28"), node("d", "10.9.0.48/28")}
	t.Run("it gets the range of one that goes, at once", func(t *testing.T) {
		in(t, there, func(c *cluster) {
			c.runs(four, func() {
				c.come(node("e"), node("f"))
				assert.Equal(t, event("e", "CIDRNotAvailable")+"; "+event("f", "CIDRNotAvailable"), c.after(4*time.Minute))
				c.leave("c")
				assert.Equal(t, "e 10.9.0.32/28", c.after(time.Second), "f waits, which has come later, and nothing is told anew")
				c.leave("a")
				assert.Equal(t, "f 10.9.0.0/28", c.after(time.Second))
				assert.Equal(t, "nothing", c.after(time.Hour))
			})
		})
	})
	t.Run("a node that is being deleted waits no more", func(t *testing.T) {
		in(t, there, func(c *cluster) {
			c.runs(four, func() {
				c.come(node("e"), node("f"))
				c.after(time.Minute)
				c.edit("e", func(n *corev1.Node) { n.DeletionTimestamp = going(n).DeletionTimestamp })
				c.leave("a")
				assert.Equal(t, "f 10.9.0.0/28", c.after(time.Second))
			})
		})
	})
	t.Run("it is told of every five minutes", func(t *testing.T) {
		in(t, append(there, node("e")), func(c *cluster) {
			c.runs(four, func() {
				assert.Equal(t, event("e", "CIDRNotAvailable"), c.after(4*time.Minute))
				c.looked()
				for range 3 {
					assert.Equal(t, "the event again", c.after(5*time.Minute))
					c.edit("e", func(n *corev1.Node) { n.ResourceVersion += "1"; n.Status.Phase += "x" })
				}
				assert.Equal(t, 3, c.looked())
				c.leave("e")
				assert.Equal(t, "nothing", c.after(time.Hour))
			})
		})
	})
	t.Run("it gets what it was given by somebody else", func(t *testing.T) {
		in(t, append(there, node("e")), func(c *cluster) {
			c.runs(four, func() {
				c.after(time.Minute)
				c.edit("e", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.9.0.0/28"} })
				c.leave("b")
				assert.Equal(t, "nothing", c.after(time.Hour))
			})
		})
	})
	t.Run("a range that was set aside, and is not needed, is given at once", func(t *testing.T) {
		in(t, there[:3], func(c *cluster) {
			c.answer(apierrors.NewForbidden(corev1.Resource("nodes"), "e", errors.New("not now")), false)
			c.runs(four, func() {
				c.come(node("e"), node("f"))
				c.after(time.Minute)
				c.answer(nil, false)
				c.edit("e", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"192.168.7.0/24"} })
				assert.Equal(t, "f 10.9.0.48/28", c.after(time.Second))
			})
		})
	})
}

func TestWhatIsRefusedIsAskedForAgainUntilItIsGranted(t *testing.T) {
	resource := corev1.Resource("nodes")
	for _, refusal := range []error{
		apierrors.NewForbidden(resource, "a", errors.New("not now")),
		apierrors.NewConflict(resource, "a", errors.New("not now")),
		invalid("a", "spec", "unschedulable"),
		apierrors.NewTooManyRequests("not now", 0),
		apierrors.NewInternalError(errors.New("failed calling webhook")),
		&apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: "a webhook that gives no reason denied it"}},
	} {
		reason := cmp.Or(apierrors.ReasonForError(refusal), "no reason")
		t.Run(fmt.Sprintf("what is refused with %s is asked for again", reason), func(t *testing.T) {
			in(t, nil, func(c *cluster) {
				c.runs(four, func() {
					c.answer(refusal, false)
					c.come(node("a"), node("b"))
					story := c.after(20 * time.Minute)
					// Its coming wakes the key twice, once for the range and once for the node, which may be one try or two.
					tries := "from 5 ms on, each time twice as long, up to 300 s"
					assert.InDelta(t, 19, strings.Count(story, "a 10.9.0.0/28"), 1, tries)
					assert.InDelta(t, 19, strings.Count(story, "b 10.9.0.16/28"), 1, tries)
					assert.Contains(t, story, event("a", "CIDRAssignmentFailed"))
					assert.NotContains(t, story, "10.9.0.32/28", "it is the same range each time")
					c.answer(nil, false)
					assert.Equal(t, "a 10.9.0.0/28; b 10.9.0.16/28", c.after(tellAgain))
					assert.Equal(t, "nothing", c.after(time.Hour))
				})
			})
		})
	}
}

func TestWhatAWebhookLeavesOutIsWrittenAgain(t *testing.T) {
	in(t, nil, func(c *cluster) {
		leavesOut := true
		c.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return leavesOut, node("a"), nil
		})
		c.runs(four, func() {
			c.come(node("a"))
			assert.Contains(t, c.after(time.Hour), event("a", "CIDRAssignmentFailed"))
			c.mu.Lock()
			leavesOut = false
			c.mu.Unlock()
			assert.Equal(t, "a 10.9.0.0/28", c.after(tellAgain))
		})
	})
}

func TestANodeThatIsBeingDeletedIsNotWritten(t *testing.T) {
	in(t, nil, func(c *cluster) {
		c.runs(four, func() {
			c.answer(apierrors.NewForbidden(corev1.Resource("nodes"), "a", errors.New("not now")), false)
			c.come(node("a"))
			c.after(time.Minute)
			c.edit("a", func(n *corev1.Node) { n.DeletionTimestamp = going(n).DeletionTimestamp })
			c.answer(nil, false)
			assert.Equal(t, "nothing", c.after(time.Hour))
			c.come(node("b"))
			assert.Equal(t, "b 10.9.0.16/28", c.after(time.Minute), "until a is gone, it may have what was sent")
		})
	})
}

// The answers are lost, and the watch is late: only the loop knows what it may have done.
func TestAnAnswerThatIsLostCostsNoRange(t *testing.T) {
	in(t, []*corev1.Node{bornAt(1, node("a"))}, func(c *cluster) {
		c.late()
		c.answer(nil, true)
		c.runs(four, func() {
			story := c.after(10 * time.Second)
			assert.Equal(t, strings.Count(story, ";")+1, strings.Count(story, "a 10.9.0.0/28"), "it is asked for what it was asked for, and told of nothing: %s", story)
			assert.Greater(t, strings.Count(story, ";"), 5)
			for i, name := range []string{"b", "c", "d", "e"} {
				n := bornAt(int64(i)+2, node(name))
				c.come(n)
				c.watch.Add(n)
			}
			c.answer(nil, false)
			c.after(time.Hour)
			assert.Equal(t, fourRanges+"; e", c.ranges())
		})
	})
}

func TestACacheThatIsBehindCausesNoRequest(t *testing.T) {
	t.Run("of a node that changes", func(t *testing.T) {
		in(t, []*corev1.Node{node("a")}, func(c *cluster) {
			c.late()
			c.runs(four, func() {
				assert.Equal(t, "a 10.9.0.0/28", c.after(time.Minute))
				for range 5 {
					c.watch.Modify(node("a"))
					assert.Equal(t, "nothing", c.after(time.Minute))
				}
			})
		})
	})
	t.Run("of a node that has waited", func(t *testing.T) {
		in(t, []*corev1.Node{node("all", "10.9.0.0/26"), node("a")}, func(c *cluster) {
			c.late()
			c.runs(four, func() {
				c.after(time.Minute)
				c.watch.Delete(node("all", "10.9.0.0/26"))
				assert.Equal(t, "a 10.9.0.0/28", c.after(time.Hour))
			})
		})
	})
}

func TestWhoeverHasWrittenFirstWins(t *testing.T) {
	in(t, []*corev1.Node{node("a")}, func(c *cluster) {
		c.late()
		c.edit("a", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.9.0.16/28"} })
		c.lists(node("a"))
		c.runs(four, func() {
			story := c.after(time.Minute)
			assert.Contains(t, story, event("a", "CIDRAssignmentFailed"))
			assert.Equal(t, "a 10.9.0.16/28", c.ranges())
			c.watch.Modify(node("a", "10.9.0.16/28"))
			assert.Equal(t, "nothing", c.after(time.Hour))
			for _, name := range []string{"b", "c", "d", "e"} {
				c.come(node(name))
				c.watch.Add(node(name))
				synctest.Wait()
			}
			c.after(time.Minute)
			assert.Equal(t, "a 10.9.0.16/28; b 10.9.0.32/28; c 10.9.0.48/28; d 10.9.0.0/28; e", c.ranges(), "what was set aside in vain is given to d")
		})
	})
}

func TestAnotherNodeOfTheNameGetsNothingOfItsNamesake(t *testing.T) {
	t.Run("a write that was meant for another node is refused, and that is all", func(t *testing.T) {
		in(t, []*corev1.Node{node("a")}, func(c *cluster) {
			c.late()
			c.leave("a")
			c.come(node("a/2"))
			c.lists(node("a"))
			c.runs(four, func() {
				assert.Equal(t, "a 10.9.0.0/28", c.after(time.Minute))
				assert.Equal(t, "a", c.ranges())
				c.watch.Delete(node("a"))
				c.watch.Add(node("a/2"))
				assert.Equal(t, "a 10.9.0.16/28", c.after(time.Minute))
				assert.Equal(t, "a 10.9.0.16/28", c.ranges())
			})
		})
	})
	t.Run("so it is where there is none of the name", func(t *testing.T) {
		in(t, []*corev1.Node{node("a")}, func(c *cluster) {
			c.late()
			c.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.story = append(c.story, "patch")
				return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), "a")
			})
			c.runs(four, func() { assert.Equal(t, "patch", c.after(time.Hour)) })
		})
	})
}

func TestARestartKeepsWhatNodesHaveAndGoesOnBehind(t *testing.T) {
	in(t, nil, func(c *cluster) {
		c.runs(four, func() {
			c.come(bornAt(1, node("a")), bornAt(2, node("b")), bornAt(3, node("c")))
			c.after(time.Minute)
			c.leave("a")
			c.after(time.Minute)
		})
		c.runs(four, func() {
			assert.Equal(t, "nothing", c.after(time.Minute))
			c.come(bornAt(4, node("d")), bornAt(5, node("e")))
			assert.Equal(t, "d 10.9.0.48/28; e 10.9.0.0/28", c.after(time.Minute), "the range of a has rested")
		})
	})
}

func TestRunReturnsWhenItsTimeIsOver(t *testing.T) {
	in(t, nil, func(c *cluster) {
		ctx, stop := context.WithTimeout(c.t.Context(), time.Minute)
		defer stop()
		factory := informers.NewSharedInformerFactory(c.client, 0)
		New(ctx, factory.Core().V1().Nodes(), c.client, four).Run(ctx, 30) // the informer does not even start
		assert.Error(t, ctx.Err())
	})
}

func TestThePiecesAreMeasured(t *testing.T) {
	p := cutInto("10.77.0.0/26 28").Pools[0] // of no other test
	in(t, nil, func(c *cluster) {
		c.runs(Ranges{Pools: []Pool{p}, Services: []netip.Prefix{netip.MustParsePrefix("10.77.0.0/28")}}, func() {
			c.come(node("a"), node("b"), node("copy", "10.77.0.16/28"))
			c.after(time.Minute)
			c.leave("b")
			c.after(time.Minute)
		})
	})
	assert.Equal(t, map[string]float64{
		"node_ipam_controller_cidrset_cidrs_allocations_total":      3,
		"node_ipam_controller_cidrset_cidrs_releases_total":         1,
		"node_ipam_controller_cirdset_max_cidrs":                    4,
		"node_ipam_controller_cidrset_usage_cidrs":                  0.5,
		"node_ipam_controller_cidrset_allocation_tries_per_request": 1,
		"of these up to 1":            2,
		"of these up to 5":            2,
		"of these up to 25":           2,
		"of these up to 125":          2,
		"of these up to 625":          2,
		"kcm_node_ipam_shared_ranges": 1,
	}, measured(t, "10.77.0.0/26"))
}

// measured returns what the metrics say of a range, and of a histogram the sum and the buckets.
func measured(t *testing.T, cluster string) map[string]float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if len(m.Label) == 1 && m.Label[0].GetName() == "clusterCIDR" && m.Label[0].GetValue() == cluster {
				all[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
				for _, b := range m.GetHistogram().GetBucket() {
					all[fmt.Sprint("of these up to ", b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
			}
		}
	}
	return all
}
