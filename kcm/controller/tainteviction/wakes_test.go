package tainteviction

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs that only if
// it is said to.
func starting(client *fake.Clientset, syncs bool) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := stored(New(ctx, client, factory.Core().V1().Pods(), factory.Core().V1().Nodes(), "taint-eviction-controller"))
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - a node: its taints with the effect NoExecute. Each change of them wakes the pods that are bound
//     to it, and nothing else of it does;
//   - of a pod: its node and its tolerations. That it is being deleted or gone is asked when its time
//     is up.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	node := func(name string, edit func(*corev1.Node)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), name, edit)
		}
	}
	pod := func(name string, edit func(*corev1.Pod)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Pods("shop"), name, edit)
		}
	}
	comes := func(obj runtime.Object) change {
		return func(ctx context.Context, client *fake.Clientset) error { return client.Tracker().Add(obj) }
	}
	keepsAway := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a node gets a taint":                   {node("well", tainted(undated("a"))), "web-0 web-1"},
		"a node gets one that keeps pods away":  {node("well", tainted(keepsAway)), ""},
		"a node loses its taint":                {node("ill", tainted()), "db"},
		"a node has its taint from another day": {node("ill", tainted(added("a", 0))), "db"},
		"a node gets a second taint":            {node("ill", tainted(undated("a"), undated("b"))), "db"},
		"a node says how it is":                 {node("ill", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning }), ""},
		"a node that is well is labelled":       {node("well", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), ""},
		"a node comes to which a pod is bound":  {comes(testNode("away", undated("a"))), "lost"},
		"a node without a taint comes":          {comes(testNode("away")), ""},
		"a pod comes to a node with a taint":    {comes(on("ill", testPod("new"))), "new"},
		"a pod comes to a node without one":     {comes(on("well", testPod("new"))), ""},
		"a pod comes that is not bound":         {comes(on("", testPod("new"))), ""},
		"a pod is bound to a node with a taint": {pod("free", func(p *corev1.Pod) { p.Spec.NodeName = "ill" }), "free"},
		"a pod tolerates something else there":  {pod("db", tolerating(always("a"))), "db"},
		"a pod tolerates something else":        {pod("web-0", tolerating(always("a"))), ""},
		"a pod says how it is":                  {pod("db", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(testNode("ill", undated("a")), testNode("well"), on("ill", testPod("db")),
				on("well", testPod("web-0")), on("well", testPod("web-1")), on("away", testPod("lost")), on("", testPod("free")))
			woken := bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, test.want, woken, "db is on a node with a taint, web-0 and web-1 are on one without")
		})
	}
}

func TestTimeWakesThePodsWhoseDeadlineComes(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		toleration corev1.Toleration
		want       string
	}{
		"its time is up within ten minutes": {bears("a", 300), "web"},
		"it is not":                         {bears("a", 3600), ""},
		"it may stay for ever":              {always("a"), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := testPod("web", test.toleration)
			client := fake.NewClientset(testNode("node-1", undated("a")), pod)
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, true), bubble.Nothing))
		})
	}
}

func TestWhoIsRefusedDoesNotPoll(t *testing.T) {
	t.Parallel()
	for what, request := range map[string][2]string{
		"nobody may look at nodes":   {"get", "nodes"},
		"nobody may mark a pod":      {"patch", "pods"},
		"nobody may delete a pod":    {"delete", "pods"},
		"the cache shows no changes": {"", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(testNode("node-1", undated("a")), testPod("web"))
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				switch {
				case action.Matches(request[0], request[1]):
					return true, nil, apierrors.NewForbidden(corev1.Resource(request[1]), "", errors.New("not now"))
				case request[0] == "" && action.Matches("get", "nodes"):
					return true, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, nil
				}
				return false, nil, nil
			})
			sent := func() int { return len(client.Actions()) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true), sent), bubble.Most)
		})
	}
}
