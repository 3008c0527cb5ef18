package nodelifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop, with a grace period of so long. It notes what it is asked to
// look at, and syncs that only if it is said to.
func starting(client *fake.Clientset, grace time.Duration, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		core := factory.Core().V1()
		c := stored(NewNodeLifecycleController(ctx, factory.Coordination().V1().Leases(), core.Pods(), core.Nodes(), factory.Apps().V1().DaemonSets(), client,
			5*time.Second, grace, grace, .1, .01, 50, .55))
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		bubble.Note(&c.podLoop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - a node: its spec, labels and conditions. Their statuses wake it, and not that its kubelet says the
//     same again;
//   - a Lease: when it was renewed. That is noted and wakes nobody;
//   - nodes of its zone, and of all zones, as far as their numbers change whose turn it is. The first that
//     waits in the zone is woken, or all when no node is ready any more, or one is again;
//   - of a pod: its node and whether it is ready. On a silent node that wakes it; and a node that falls
//     silent, or is heard again, wakes its pods.
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
	goes := func(name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	ready := func(status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[0].Status = status }
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a kubelet says the same again":       {node("well-2", say("Ready")), ""},
		"a node is not ready":                 {node("well-1", say("not Ready")), "lost-1 well-1"},
		"a node is full":                      {node("well-1", say("DiskPressure")), "lost-1 well-1"},
		"a node is cordoned":                  {node("well-1", func(n *corev1.Node) { n.Spec.Unschedulable = true }), "lost-1 well-1"},
		"a taint is put on":                   {node("lost-2", tainted(taint("example.com/gpu", noExec))), "lost-1 lost-2"},
		"a node is in another zone":           {node("well-1", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "b" }), "lost-1 well-1"},
		"a node is annotated":                 {node("well-1", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }), ""},
		"a node falls silent":                 {node("well-2", say("? Ready")), "lost-1 web well-2"},
		"a node is heard again":               {node("lost-1", say("Ready")), "db lost-1 lost-2"},
		"a node comes":                        {comes(testNode("new", "Ready")), "lost-1 new"},
		"a node goes":                         {goes("lost-1"), "lost-2"},
		"a Lease is renewed":                  {func(ctx context.Context, client *fake.Clientset) error { return renew(ctx, client, "well-1") }, ""},
		"that of a silent node is renewed":    {func(ctx context.Context, client *fake.Clientset) error { return renew(ctx, client, "lost-1") }, ""},
		"a pod of a silent node is ready":     {pod("db", ready(yes)), "db"},
		"one that is not ready changes":       {pod("db", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), ""},
		"a pod of another node is ready":      {pod("web", ready(yes)), ""},
		"a pod comes to a silent node":        {comes(testPod("new", "lost-2", yes)), "new"},
		"a pod comes that is not ready":       {comes(testPod("new", "lost-2", no)), ""},
		"a pod comes to a node that is heard": {comes(testPod("new", "well-1", yes)), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(testNode("well-1", "Ready"), testNode("well-2", "Ready"), lost("lost-1"), lost("lost-2"),
				testPod("web", "well-2", no), testPod("db", "lost-1", no), testLease("well-1"), testLease("lost-1"))
			woken := bubble.Woken(t, client, starting(client, time.Hour, false), func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, test.want, woken, "lost-1 and lost-2 are silent, db is on lost-1, and web on well-2")
		})
	}
	t.Run("no node is ready any more, and one is again", func(t *testing.T) {
		t.Parallel()
		client := fake.NewClientset(testNode("well", "Ready"), lost("lost-1"), lost("lost-2"))
		for _, says := range []string{"not Ready", "Ready"} {
			woken := bubble.Woken(t, client, starting(client, time.Hour, false), func(ctx context.Context) error {
				return bubble.Edit(ctx, client.CoreV1().Nodes(), "well", say(says))
			})
			assert.Equal(t, "lost-1 lost-2 well", woken)
		}
	})
}

// lost is a node that is silent since midnight.
func lost(name string) *corev1.Node {
	node := testNode(name, "? Ready")
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(midnight)
	return node
}

func renew(ctx context.Context, client *fake.Clientset, name string) error {
	return bubble.Edit(ctx, client.CoordinationV1().Leases(corev1.NamespaceNodeLease), name, func(lease *coordinationv1.Lease) {
		lease.Spec.RenewTime = new(metav1.NowMicro())
	})
}

func TestWhatDoesNotComeIsNotPolledFor(t *testing.T) {
	t.Parallel()
	nobody := apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("not now"))
	for what, test := range map[string]struct {
		verb, resource string
		edit           func(c *Controller)
		most           int
	}{
		"all is well":                              {edit: func(*Controller) {}, most: 2},
		"no cache shows which Leases there are":    {edit: func(c *Controller) { c.told = controller.NewOwnWrites(bubble.Late{}) }, most: bubble.Most},
		"nobody may write, it is tried each 5 s":   {"patch", "nodes", func(*Controller) {}, 4 * bubble.Most},
		"nobody may mark a pod":                    {"patch", "pods", func(*Controller) {}, bubble.Most},
		"a node waits for its turn for many hours": {edit: func(c *Controller) { c.zones.rates.usual = 1e-6 }, most: bubble.Most},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(testNode("silent", "Ready"), testNode("away", "Ready"), testPod("web", "silent", yes), testLease("silent"))
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return action.Matches(test.verb, test.resource), nil, nobody
			})
			bubble.Ahead(client)
			edit := func(c *Controller) {
				c.Confirm(client.CoordinationV1().Leases(corev1.NamespaceNodeLease))
				test.edit(c)
			}
			sent := func() int { return len(client.Actions()) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, 50*time.Second, true, edit), sent), test.most, "looks or requests in the tenth minute; both nodes are silent")
		})
	}
}
