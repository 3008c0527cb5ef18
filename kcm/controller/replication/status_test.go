package replication

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func readyPod(name string, readyFor time.Duration) *corev1.Pod {
	return runningPod(name, func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		setReady(p, readyFor)
	})
}

func TestDecideStatusCountsPods(t *testing.T) {
	t.Parallel()
	set := testSet(3)
	set.Spec.MinReadySeconds = 10
	set.Spec.Template.Labels["tier"] = "front"
	full := readyPod("full", time.Minute)
	full.Labels["tier"], full.Labels["more"] = "front", "yes"
	notReady := runningPod("c", func(p *corev1.Pod) { p.Status.Conditions = nil })
	seen := observed{
		set:               set,
		active:            []*corev1.Pod{full, readyPod("b", 9*time.Second), notReady},
		terminating:       testPods(2),
		countsTerminating: true,
		now:               testNow,
	}
	assert.Equal(t, appsv1.ReplicaSetStatus{
		Replicas: 3, FullyLabeledReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 1,
		TerminatingReplicas: ptr.To[int32](2), ObservedGeneration: 3,
	}, decideStatus(seen, nil))

	seen.countsTerminating = false
	assert.Nil(t, decideStatus(seen, nil).TerminatingReplicas)
}

func TestDecideConditions(t *testing.T) {
	t.Parallel()
	other := appsv1.ReplicaSetCondition{Type: "Other", Status: corev1.ConditionTrue}
	failed := func(reason, message string, at time.Time) appsv1.ReplicaSetCondition {
		return appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at),
		}
	}
	earlier := testNow.Add(-time.Hour)
	refused := errors.New("quota exceeded")
	tests := map[string]struct {
		old     []appsv1.ReplicaSetCondition
		pods    int
		failure error
		want    []appsv1.ReplicaSetCondition
	}{
		"without failure there is no condition":      {},
		"a refused creation is told":                 {pods: 1, failure: refused, want: []appsv1.ReplicaSetCondition{failed("FailedCreate", "quota exceeded", testNow)}},
		"a refused deletion is told":                 {pods: 5, failure: refused, want: []appsv1.ReplicaSetCondition{failed("FailedDelete", "quota exceeded", testNow)}},
		"a second failure leaves the first standing": {pods: 1, failure: refused, old: []appsv1.ReplicaSetCondition{failed("FailedDelete", "first", earlier)}, want: []appsv1.ReplicaSetCondition{failed("FailedDelete", "first", earlier)}},
		"a success takes it away":                    {old: []appsv1.ReplicaSetCondition{failed("FailedCreate", "first", earlier)}, want: []appsv1.ReplicaSetCondition{}},
		"other conditions stay":                      {old: []appsv1.ReplicaSetCondition{other, failed("FailedCreate", "first", earlier)}, want: []appsv1.ReplicaSetCondition{other}},
		"other conditions stay with a failure":       {old: []appsv1.ReplicaSetCondition{other}, failure: refused, want: []appsv1.ReplicaSetCondition{other, failed("FailedCreate", "quota exceeded", testNow)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := testSet(3)
			set.Status.Conditions = tt.old
			before := set.DeepCopy()
			seen := observed{set: set, active: testPods(tt.pods), now: testNow}
			assert.Equal(t, tt.want, decideStatus(seen, tt.failure).Conditions)
			assert.Equal(t, before, set, "the cached set is not changed")
		})
	}
}

func TestNextAvailableIsWhenTheFirstReadyPodBecomesAvailable(t *testing.T) {
	t.Parallel()
	notReady := runningPod("c", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	unknown := runningPod("d", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} })
	tests := map[string]struct {
		minReadySeconds int32
		pods            []*corev1.Pod
		in              time.Duration
		ok              bool
	}{
		"no pods":                          {minReadySeconds: 10},
		"none asked for":                   {pods: []*corev1.Pod{readyPod("a", time.Second)}},
		"all available":                    {minReadySeconds: 10, pods: []*corev1.Pod{readyPod("a", 10*time.Second), readyPod("b", time.Hour)}},
		"not ready, or since unknown time": {minReadySeconds: 10, pods: []*corev1.Pod{notReady, unknown}},
		"the earliest of several":          {minReadySeconds: 10, pods: []*corev1.Pod{readyPod("a", time.Second), notReady, readyPod("b", 7*time.Second), readyPod("c", time.Hour)}, in: 3 * time.Second, ok: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := testSet(3)
			set.Spec.MinReadySeconds = tt.minReadySeconds
			at, ok := nextAvailable(observed{set: set, active: tt.pods, now: testNow})
			assert.Equal(t, tt.ok, ok)
			if tt.ok {
				assert.Equal(t, testNow.Add(tt.in), at)
			}
		})
	}
}
