package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
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
