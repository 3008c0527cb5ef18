package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// indexOf returns an index of the DaemonSets.
func indexOf(tb testing.TB, sets ...*appsv1.DaemonSet) setIndex {
	informer := cache.NewSharedIndexInformer(nil, &appsv1.DaemonSet{}, 0, cache.Indexers{})
	index := newSetIndex(informer)
	for _, set := range sets {
		require.NoError(tb, informer.GetStore().Add(set))
	}
	return index
}

// selectingBy returns a DaemonSet with a node selector.
func selectingBy(name string, selector map[string]string) *appsv1.DaemonSet {
	set := asking(func(spec *corev1.PodSpec) { spec.NodeSelector = selector })
	set.Name = name
	return set
}

func TestConcerned(t *testing.T) {
	t.Parallel()
	index := indexOf(t,
		selectingBy("everywhere", nil),
		selectingBy("on-ssd", map[string]string{"disk": "ssd"}),
		selectingBy("on-tape", map[string]string{"disk": "tape"}),
		selectingBy("on-ssd-in-a", map[string]string{"zone": "a", "disk": "ssd"}),
		selectingBy("in-a", map[string]string{"zone": "a"}),
		selectingBy("with-empty-gpu", map[string]string{"gpu": ""}),
	)
	with := func(labels map[string]string) *corev1.Node {
		return testNode("a", func(node *corev1.Node) { node.Labels = labels })
	}
	ssd, tape := with(map[string]string{"disk": "ssd"}), with(map[string]string{"disk": "tape"})
	for name, tt := range map[string]struct {
		nodes []*corev1.Node
		want  []string
	}{
		"a DaemonSet without node selector is asked of any node":    {[]*corev1.Node{with(nil)}, []string{"everywhere"}},
		"one whose selector wants another value is not asked":       {[]*corev1.Node{tape, tape}, []string{"everywhere", "on-tape"}},
		"nor is one that wants a label of another name":             {[]*corev1.Node{with(map[string]string{"disks": "ssd"})}, []string{"everywhere"}},
		"what the node was and what it is are asked for":            {[]*corev1.Node{tape, ssd}, []string{"everywhere", "on-tape", "on-ssd", "on-ssd-in-a"}},
		"one of several labels is asked for, and the first will do": {[]*corev1.Node{with(map[string]string{"zone": "a"})}, []string{"everywhere", "in-a"}},
		"each is there once, whatever has stayed":                   {[]*corev1.Node{ssd, ssd}, []string{"everywhere", "on-ssd", "on-ssd-in-a"}},
		"a node that has come was none before":                      {[]*corev1.Node{nil, tape}, []string{"everywhere", "on-tape"}},
		"a node that goes is none afterwards":                       {[]*corev1.Node{tape, nil}, []string{"everywhere", "on-tape"}},
		"a label without value is another than no label":            {[]*corev1.Node{with(map[string]string{"gpu": ""})}, []string{"everywhere", "with-empty-gpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := index.concerned(tt.nodes...)
			require.NoError(t, err)
			var names []string
			for _, set := range found {
				names = append(names, set.Name)
			}
			assert.ElementsMatch(t, tt.want, names, "DaemonSets that are asked for a verdict")
		})
	}
}
