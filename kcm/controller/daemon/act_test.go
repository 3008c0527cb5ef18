package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
		podWrites:    controller.NewOwnWrites(tellsNothing{}),
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
