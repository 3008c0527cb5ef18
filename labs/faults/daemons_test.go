package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// agent adds a DaemonSet for three nodes.
func (p *past) agent(surge, unavailable int32) *appsv1.DaemonSet {
	more, without := intstr.FromInt32(surge), intstr.FromInt32(unavailable)
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", UID: "agent"},
		Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &more, MaxUnavailable: &without},
		}},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3},
	}
	p.change(watch.Added, "daemonsets", set)
	return set
}

// daemon adds an available pod that no scheduler has bound to its node yet.
func (p *past) daemon(set *appsv1.DaemonSet, name, node string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set,
				appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
					Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	p.change(watch.Added, "pods", pod)
	return pod
}

func TestADaemonSetRollsOutNodeByNode(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	set := p.agent(0, 1)
	for _, node := range []string{"a", "b", "c"} {
		p.daemon(set, "old-"+node, node)
	}
	for _, node := range []string{"a", "b", "c"} {
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "old-" + node, UID: types.UID("old-" + node)}}
		p.change(watch.Deleted, "pods", old)
		p.daemon(set, "new-"+node, node)
	}
	violations, err := NewJudge().Look(p.changes...)
	require.NoError(t, err)
	require.Empty(t, violations)
}

func TestASetThatSurgesRollsOutWithoutANodeThatHasNone(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	set := p.agent(1, 0)
	a, b := p.daemon(set, "a", "a"), p.daemon(set, "b", "b")
	p.daemon(set, "c", "c")
	p.daemon(set, "new-a", "a")
	p.deletePod(a)
	p.daemon(set, "new-b", "b") // a's old pod has not ended yet
	p.deletePod(b)
	violations, err := NewJudge().Look(p.changes...)
	require.NoError(t, err)
	require.Empty(t, violations)
}
