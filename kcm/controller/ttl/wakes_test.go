package ttl

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// What decisions read of other objects:
//
//   - how many nodes there are. Only where that is another step all nodes are woken;
//   - of a node: the annotation. A node that says what it should is not woken.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	node := func(name string, edit func(*corev1.Node)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), name, edit)
		}
	}
	comes := func(told string) change {
		return func(_ context.Context, client *fake.Clientset) error {
			return client.Tracker().Add(some(1000, 1001, told)[0])
		}
	}
	goes := func(ctx context.Context, client *fake.Clientset) error {
		return client.CoreV1().Nodes().Delete(ctx, "node-0", metav1.DeleteOptions{})
	}
	told := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
	}
	few, hundred, ninety := some(0, 3, "0"), some(0, 100, "0"), some(0, 90, "15")
	for what, test := range map[string]struct {
		there  []*corev1.Node
		change change
		want   []*corev1.Node
	}{
		"a node comes that was told nothing":     {few, comes(""), some(1000, 1001, "")},
		"a node comes that was told the same":    {few, comes("0"), nil},
		"a node goes":                            {few, goes, nil},
		"the 101st node comes":                   {hundred, comes(""), append(some(0, 100, ""), some(1000, 1001, "")...)},
		"one of 90 nodes goes that were told 15": {ninety, goes, some(1, 90, "")},
		"a 91st comes that was told 15":          {ninety, comes("15"), nil},
		"somebody writes another number":         {few, node("node-1", told(corev1.ObjectTTLAnnotationKey, "15")), some(1, 2, "")},
		"somebody takes all annotations away":    {few, node("node-1", func(n *corev1.Node) { n.Annotations = nil }), some(1, 2, "")},
		"somebody writes another annotation":     {few, node("node-1", told("mine", "1")), nil},
		"a node says how it is":                  {few, node("node-1", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning }), nil},
		"a node is labelled":                     {few, node("node-1", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			for _, node := range test.there {
				assert.NoError(t, client.Tracker().Add(node))
			}
			start := func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
				c := NewTTLController(ctx, factory.Core().V1().Nodes(), client)
				bubble.Note(&c.loop.Sync, note, false)
				return func(ctx context.Context) { c.Run(ctx, 1) }
			}
			woken := bubble.Woken(t, client, start, func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, strings.Join(slices.Sorted(slices.Values(names(test.want))), " "), woken)
		})
	}
}
