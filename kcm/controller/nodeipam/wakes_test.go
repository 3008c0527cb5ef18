package nodeipam

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs that only if
// it is said to.
func starting(client *fake.Clientset, syncs bool) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := New(ctx, factory.Core().V1().Nodes(), client, four)
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - other nodes: the ranges that they have, or that are set aside for them. What one of them frees
//     wakes the node that has waited for it longest, and no other;
//   - of a node: whether it has ranges, and whether it is being deleted.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	edit := func(name string, edit func(*corev1.Node)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), name, edit)
		}
	}
	given := func(name, cidr string) change {
		return edit(name, func(n *corev1.Node) { n.Spec.PodCIDRs = []string{cidr} })
	}
	toGo := func(n *corev1.Node) { n.DeletionTimestamp = going(n).DeletionTimestamp }
	alive := func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning }
	comes := func(n *corev1.Node) change {
		return func(_ context.Context, client *fake.Clientset) error { return client.Tracker().Add(n) }
	}
	goes := func(names ...string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			for _, name := range names {
				if err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a node goes":  {goes("a"), "e"},
		"two nodes go": {goes("a", "b"), "e f"},
		"the node goes for which a range is set aside": {goes("d"), "e"},
		"that node is given another range":             {given("d", "192.168.7.0/24"), "e"},
		"that node is given the range":                 {given("d", "10.9.0.48/28"), ""},
		"that node is to go":                           {edit("d", toGo), "d"},
		"a node that waits goes":                       {goes("e"), ""},
		"a node that waits is to go":                   {edit("e", toGo), "e"},
		"a node that waits is given a range":           {given("e", "192.168.7.0/24"), ""},
		"a node that waits says how it is":             {edit("e", alive), ""},
		"a node that has its range is to go":           {edit("a", toGo), ""},
		"a node that has its range says how it is":     {edit("a", alive), ""},
		"a node comes":                                 {comes(node("new")), "new"},
		"a node comes that has a range":                {comes(node("new", "192.168.7.0/24")), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(node("a", "10.9.0.0/28"), node("b", "10.9.0.16/28"), node("c", "10.9.0.32/28"), node("d"), node("e"), node("f"))
			woken := bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, test.want, woken, "a, b and c have three of four ranges, the fourth is set aside for d, and e and f wait")
		})
	}
}

func TestTimeWakesWhoWaitsForARangeAndNobodyElse(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(node("a", "10.9.0.0/28"), node("b", "10.9.0.16/28"), node("c", "10.9.0.32/28"), node("d"), node("e"), node("f"))
	assert.Equal(t, "e f", bubble.Woken(t, client, starting(client, true), bubble.Nothing), "a, b, c and d have the four ranges, and it is to be told that e and f have none")
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true), sent), bubble.Most)
}
