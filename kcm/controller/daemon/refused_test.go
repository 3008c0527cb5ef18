package daemon

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// refusing returns a loop whose API server refuses pods for some nodes, and the
// nodes that have one.
func refusing(refuses func(node int) bool) (c *Controller, has map[string]bool, requests *int) {
	client, has, requests := &fake.Clientset{}, map[string]bool{}, new(int)
	client.AddReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		var node int
		if _, err := fmt.Sscanf(nodeOf(pod), "node-%d", &node); err != nil {
			return true, nil, err
		}
		*requests++
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
		refusals:     &refusals{},
	}, has, requests
}

func TestNodesThatRefuseTheirPodsKeepNoOtherWaiting(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		nodes, tries int
		refuses      func(node int) bool
	}{
		"the first of four":                           {4, 2, func(node int) bool { return node == 0 }},
		"the first ten of a hundred":                  {100, 4, func(node int) bool { return node < 10 }},
		"the first third of three hundred":            {300, 12, func(node int) bool { return node < 100 }},
		"three hundred in the midst of twice as many": {600, 60, func(node int) bool { return 150 <= node && node < 450 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, has, requests := refusing(tt.refuses)
			set, good := testSet(), 0
			for node := range tt.nodes {
				if !tt.refuses(node) {
					good++
				}
			}
			tries := 0
			for ; len(has) < good && tries < 1000; tries++ {
				seen := observed{set: set, mayAct: true, history: history{current: testRevision("new", 1)}, now: testNow.Add(time.Duration(tries) * time.Second)}
				for node := range tt.nodes {
					p := testPlace(fmt.Sprintf("node-%03d:", node))
					p.refused = c.refusals.last(cache.MetaObjectToName(set), p.node)
					if has[p.node] {
						p = testPlace(p.node + ": new available")
					}
					seen.places = append(seen.places, p)
				}
				_ = c.act(t.Context(), seen, decide(seen, burstReplicas))
			}
			t.Logf("%d tries, %d requests", tries, *requests)
			assert.LessOrEqual(t, tries, tt.tries, "tries until all %d other nodes have their pods", good)
			assert.LessOrEqual(t, *requests, 2*tt.nodes, "for each node one request, and for one that refuses one more at most")
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	agent, other := cache.NewObjectName("ns", "agent"), cache.NewObjectName("ns", "other")
	var r refusals
	r.note(agent, "a", testNow)
	r.note(agent, "a", testNow.Add(time.Minute))
	r.note(other, "b", testNow)
	assert.Equal(t, testNow.Add(time.Minute), r.last(agent, "a"), "the last counts")
	assert.Zero(t, r.last(agent, "b"), "it was another set's pod")
	r.forget(testNow.Add(time.Second))
	assert.Equal(t, testNow.Add(time.Minute), r.last(agent, "a"))
	assert.Len(t, r.bySet, 1, "nothing is kept of a set without refusals")
}
