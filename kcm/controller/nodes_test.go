package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestANodeIsReadyWhenItsKubeletSaysSo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		conditions []corev1.NodeCondition
		ready      bool
	}{
		"nobody has said anything":      {},
		"it can work":                   {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, true},
		"it cannot work":                {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}, false},
		"its kubelet is not heard of":   {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}, false},
		"something else is true of it":  {[]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}}, false},
		"it can work beside other news": {[]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.ready, IsNodeReady(&corev1.Node{Status: corev1.NodeStatus{Conditions: tt.conditions}}))
		})
	}
}

func TestTaintsAreReplacedOnAConditionThatTheNodeIsAsItWasSeen(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-1", ResourceVersion: "7"}}
	node.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}, {Key: "b", Effect: corev1.TaintEffectNoExecute}}
	client := fake.NewClientset(node)
	for _, wanted := range [][]corev1.Taint{node.Spec.Taints[1:], nil} {
		require.NoError(t, PatchTaints(t.Context(), client, node, wanted))
		patched, err := client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, wanted, patched.Spec.Taints, "taints of the node")
	}
	assert.JSONEq(t, `{"metadata": {"uid": "uid-1", "resourceVersion": "7"}, "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}`,
		string(client.Actions()[0].(clienttesting.PatchAction).GetPatch()), "the request: the API server compares UID and version")
}
