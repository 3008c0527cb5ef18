package replication

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// survives makes up a ReplicaSet and pods whose annotations, phases, conditions
// and counts of restarts are anything. Whatever they are, a decision comes of it:
// it never asks for fewer than no pods, and never deletes one that is not there.
func survives(t *rapid.T) {
	set := testSet(rapid.Int32Range(0, 1000).Draw(t, "replicas"))
	set.Spec.MinReadySeconds = rapid.Int32Range(0, 1<<31-1).Draw(t, "minReadySeconds")
	pods := testPods(rapid.IntRange(0, 12).Draw(t, "pods"))
	for _, pod := range pods {
		cost := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "-0", "+1", "2147483647", "2147483648", "1.5"}))
		pod.Annotations = map[string]string{corev1.PodDeletionCost: cost.Draw(t, "cost")}
		pod.Status.Phase = corev1.PodPhase(rapid.SampledFrom([]string{"", "Pending", "Running", "Failed", "Unheard"}).Draw(t, "phase"))
		pod.Spec.NodeName = rapid.String().Draw(t, "node")
		for range rapid.IntRange(0, 2).Draw(t, "conditions") {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type:               corev1.PodConditionType(rapid.SampledFrom([]string{"Ready", "", "Other"}).Draw(t, "type")),
				Status:             corev1.ConditionStatus(rapid.SampledFrom([]string{"True", "", "Perhaps"}).Draw(t, "status")),
				LastTransitionTime: metav1.Unix(rapid.Int64().Draw(t, "since"), 0),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "container statuses") {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: rapid.String().Draw(t, "container"), RestartCount: rapid.Int32().Draw(t, "restarts")})
		}
	}
	p := decide(observed{
		set: set, active: pods, related: pods, mayAct: true, now: testNow,
		countsTerminating: rapid.Bool().Draw(t, "counts terminating"), honoursCost: rapid.Bool().Draw(t, "honours cost"),
	}, rapid.IntRange(1, 500).Draw(t, "burst"))
	require.GreaterOrEqual(t, p.create, 0)
	require.Subset(t, pods, p.delete)
}

func TestWhateverIsSaidOfPodsADecisionComesOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, survives)
}

func FuzzWhateverIsSaidOfPodsADecisionComesOfIt(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(survives))
}
