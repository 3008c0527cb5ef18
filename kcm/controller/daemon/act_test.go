package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// refusing returns a loop whose API server refuses pods for some nodes, and the
// nodes that have one.
func refusing(refuses func(node int) bool) (c *Controller, has map[string]bool) {
	client, has := &fake.Clientset{}, map[string]bool{}
	client.AddReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		var node int
		if _, err := fmt.Sscanf(nodeOf(pod), "node-%d", &node); err != nil {
			return true, nil, err
		}
		if refuses(node) {
			return true, nil, errors.New("refused by a policy")
		}
		has[nodeOf(pod)] = true
		return true, pod, nil
	})
	return &Controller{
		podControl:   controller.NewPodControl(client, &record.FakeRecorder{}),
		expectations: controller.NewExpectations(clocktesting.NewFakeClock(testNow)),
		podWrites:    controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(tellsNothing{})},
		failures:     flowcontrol.NewFakeBackOff(time.Second, time.Minute, clocktesting.NewFakeClock(testNow)),
	}, has
}

func TestNodesThatRefuseTheirPodsKeepNoOtherWaitingForEver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		nodes, tries int
		refuses      func(node int) bool
	}{
		"the first of four":                           {4, 2, func(node int) bool { return node == 0 }},
		"the first ten of a hundred":                  {100, 2, func(node int) bool { return node < 10 }},
		"the first third of as many as one try takes": {750, 12, func(node int) bool { return node < 250 }},
		"all but the last of ten":                     {10, 10, func(node int) bool { return node < 9 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, has := refusing(tt.refuses)
			shuffle, good := rand.New(rand.NewPCG(1, 2)).Shuffle, 0
			for node := range tt.nodes {
				if !tt.refuses(node) {
					good++
				}
			}
			tries := 0
			for ; len(has) < good && tries < 1000; tries++ {
				seen := seenOn(testSet())
				for node := range tt.nodes {
					p := testPlace(fmt.Sprintf("node-%03d:", node))
					if has[p.node] {
						p = testPlace(p.node + ": new available")
					}
					p.refused = c.failures.Get(refusalKey(seen.set, p.node))
					seen.places = append(seen.places, p)
				}
				_ = c.act(t.Context(), seen, decide(seen.inTurn(shuffle), burstReplicas))
			}
			assert.LessOrEqual(t, tries, tt.tries, "tries until all %d other nodes have their pods", good)
		})
	}
}

func TestANodeThatComesIsTriedBeforeThoseThatHaveRefused(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		shuffle := rand.New(rand.NewPCG(seed, 0)).Shuffle
		c, has := refusing(func(node int) bool { return node > 0 })
		try := func(nodes ...int) {
			seen := seenOn(testSet())
			for _, node := range nodes {
				p := testPlace(fmt.Sprintf("node-%03d:", node))
				p.refused = c.failures.Get(refusalKey(seen.set, p.node))
				seen.places = append(seen.places, p)
			}
			_ = c.act(t.Context(), seen, decide(seen.inTurn(shuffle), burstReplicas))
		}
		for range 10 {
			try(1, 2, 3)
		}
		try(0, 1, 2, 3)
		assert.True(t, has["node-000"])
	}
}

func TestARollingUpdateDoesNotAlwaysBeginWithTheSameNode(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]appsv1.DaemonSetUpdateStrategy{"surge": rollingBy(1, 0), "none": rollingBy(0, 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seenOn(testSet(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy = strategy }), "a: old available", "b: old available", "c: old available")
			first, shuffle := sets.New[string](), rand.New(rand.NewPCG(1, 2)).Shuffle
			for range 20 {
				first.Insert(decide(seen.inTurn(shuffle), burstReplicas).String())
			}
			assert.Len(t, first, 3, "%v", first)
			assert.Equal(t, "a", seen.places[0].node, "what was seen stays as it is")
		})
	}
}

func TestADeletionThatIsRefusedIsNotDone(t *testing.T) {
	t.Parallel()
	pods := corev1.Resource("pods")
	conflict := func(text string) error { return apierrors.NewConflict(pods, "a-old", errors.New(text)) }
	for name, tt := range map[string]struct {
		answer error
		fails  bool
	}{
		"it is done":                    {nil, false},
		"the pod is gone":               {apierrors.NewNotFound(pods, "a-old"), false},
		"another pod has its name":      {conflict("the UID in the precondition (1) does not match the UID in record (2)"), false},
		"the pod has changed":           {conflict("the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2)"), true},
		"a webhook calls it a conflict": {refusals[2], true},
		"the caller may not do it":      {refusals[0], true},
		"a policy does not want it":     {refusals[1], true},
		"a webhook cannot be reached":   {refusals[3], true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := refusing(nil)
			client, events := &fake.Clientset{}, record.NewFakeRecorder(10)
			client.AddReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.answer })
			c.podControl, c.events = controller.NewPodControl(client, &record.FakeRecorder{}), &controller.Events{EventRecorder: events}
			seen := seenOn(testSet(), "a: old failed")
			err := c.act(t.Context(), seen, decide(seen, burstReplicas))
			paused := c.pause(seen.set, "a", testNow) > 0
			assert.Equal(t, tt.fails, err != nil, "%v", err)
			assert.Equal(t, !tt.fails, paused, "the node is in pause")
			assert.Len(t, events.Events, map[bool]int{true: 0, false: 1}[tt.fails], "events about the failed pod")
			assert.Equal(t, tt.answer != nil, c.expectations.Satisfied(seen.set), "nothing is waited for")
		})
	}
}

// This is not parallel: in all other tests a panic ends the process.
func TestADeletionThatPanicsIsOneThatHasFailed(t *testing.T) {
	controller.ReallyCrash.Store(false)
	defer controller.ReallyCrash.Store(true)
	c, _ := refusing(nil)
	c.podControl = panicking{}
	seen := seenOn(testSet(), "a: old failed")
	assert.ErrorContains(t, c.act(t.Context(), seen, decide(seen, burstReplicas)), "a defect")
	assert.True(t, c.expectations.Satisfied(seen.set), "what has panicked is waited for no more")
	assert.Zero(t, c.pause(seen.set, "a", testNow), "nor does a pause begin")
}

type panicking struct{ controller.PodControl }

func (panicking) Delete(context.Context, runtime.Object, *corev1.Pod) error { panic("a defect") }
