package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testNode(name string, edit ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": "ssd"}}}
	for _, edit := range edit {
		edit(node)
	}
	return node
}

func taintedWith(key string, effects ...corev1.TaintEffect) *corev1.Node {
	return testNode("a", func(node *corev1.Node) {
		for _, effect := range effects {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
		}
	})
}

// asking returns a DaemonSet with another pod.
func asking(edit func(*corev1.PodSpec)) *appsv1.DaemonSet {
	return testSet(func(set *appsv1.DaemonSet) { edit(&set.Spec.Template.Spec) })
}

func (v verdict) String() string {
	switch v {
	case verdict{run: true, stay: true}:
		return "gets one"
	case verdict{stay: true}:
		return "gets none, but one may stay"
	case verdict{}:
		return "has none"
	default:
		return "gets one that may not stay"
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	const (
		gets  = "gets one"
		keeps = "gets none, but one may stay"
		none  = "has none"
	)
	named := func(name string) *appsv1.DaemonSet {
		return asking(func(spec *corev1.PodSpec) { spec.NodeName = name })
	}
	selecting := func(disk string) *appsv1.DaemonSet {
		return asking(func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"disk": disk} })
	}
	requiring := func(operator corev1.NodeSelectorOperator, values ...string) *appsv1.DaemonSet {
		return asking(func(spec *corev1.PodSpec) {
			spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: operator, Values: values}},
				}}},
			}}
		})
	}
	tolerating := func(toleration corev1.Toleration) *appsv1.DaemonSet {
		return asking(func(spec *corev1.PodSpec) { spec.Tolerations = []corev1.Toleration{toleration} })
	}
	onHostNetwork := asking(func(spec *corev1.PodSpec) { spec.HostNetwork = true })
	const noSchedule, noExecute, preferNot = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule
	cordoned := taintedWith(corev1.TaintNodeUnschedulable, noSchedule)
	cordoned.Spec.Unschedulable = true
	tests := map[string]struct {
		set  *appsv1.DaemonSet
		node *corev1.Node
		want string
	}{
		"any node gets one":                                       {testSet(), testNode("a"), gets},
		"a node that is not there has none":                       {testSet(), nil, none},
		"the node that the template names gets one":               {named("a"), testNode("a"), gets},
		"other nodes than the one that the template names do not": {named("a"), testNode("b"), none},
		"a node that the node selector selects gets one":          {selecting("ssd"), testNode("a"), gets},
		"one that it does not select has none":                    {selecting("tape"), testNode("a"), none},
		"a node that the affinity requires gets one":              {requiring(corev1.NodeSelectorOpIn, "ssd"), testNode("a"), gets},
		"one that it excludes has none":                           {requiring(corev1.NodeSelectorOpNotIn, "ssd"), testNode("a"), none},
		"an affinity that makes no sense matches no node":         {requiring(corev1.NodeSelectorOpGt, "many"), testNode("a"), none},
		"a taint NoSchedule is about pods to come":                {testSet(), taintedWith("gpu", noSchedule), keeps},
		"a taint NoExecute is about all pods":                     {testSet(), taintedWith("gpu", noExecute), none},
		"both together are as the stronger":                       {testSet(), taintedWith("gpu", noSchedule, noExecute), none},
		"a taint PreferNoSchedule is no obstacle":                 {testSet(), taintedWith("gpu", preferNot), gets},
		"a taint that the template tolerates is none": {
			tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}), taintedWith("gpu", noSchedule, noExecute), gets,
		},
		"a toleration of one effect does not help against another": {
			tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: noSchedule}), taintedWith("gpu", noExecute), none,
		},
		"one that only the coming is tolerated of may go when a NoExecute is added": {
			tolerating(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: noExecute}), taintedWith("gpu", noSchedule, noExecute), keeps,
		},
		"a node that is cordoned gets one":                      {testSet(), cordoned, gets},
		"a node that is short of memory gets one":               {testSet(), taintedWith(corev1.TaintNodeMemoryPressure, noSchedule), gets},
		"a node that is not ready keeps its pod":                {testSet(), taintedWith(corev1.TaintNodeNotReady, noExecute), gets},
		"a node that is not ready is no place for a new one":    {testSet(), taintedWith(corev1.TaintNodeNotReady, noExecute, noSchedule), keeps},
		"a node without network has none":                       {testSet(), taintedWith(corev1.TaintNodeNetworkUnavailable, noSchedule), keeps},
		"but for one of its own, as what brings the network is": {onHostNetwork, taintedWith(corev1.TaintNodeNetworkUnavailable, noSchedule), gets},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, demandsOf(tt.set).verdictOn(tt.node).String(), "what becomes of the node")
		})
	}
}

func TestTolerations(t *testing.T) {
	t.Parallel()
	t.Run("one of the template's that is the same but for its time counts without a time", func(t *testing.T) {
		t.Parallel()
		asked := corev1.Toleration{
			Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(30)),
		}
		spec := corev1.PodSpec{Tolerations: []corev1.Toleration{asked}}
		tolerations := daemonTolerations(spec)
		assert.Len(t, tolerations, 6)
		assert.Nil(t, tolerations[0].TolerationSeconds)
		assert.NotNil(t, spec.Tolerations[0].TolerationSeconds, "the template is the cache's")
	})
}

func TestThePodOfANode(t *testing.T) {
	t.Parallel()
	set := testSet(func(set *appsv1.DaemonSet) {
		set.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "3"}
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	})
	pod := newPod(set, "hash", "a")
	assert.Equal(t, map[string]string{"app": "agent", hashLabel: "hash", generationLabel: "3"}, pod.Labels)
	assert.Equal(t, "a", nodeOf(pod), "before it is bound")
	assert.NotNil(t, pod.Spec.Affinity.PodAffinity, "what else the template asks for stays")
	assert.Nil(t, set.Spec.Template.Spec.Affinity.NodeAffinity, "the template is the cache's")
	assert.Empty(t, nodeOf(&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}}), "a pod that says nothing of a node")
}
