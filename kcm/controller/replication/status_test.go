package replication

import (
	"cmp"
	"errors"
	"strings"
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

func TestNextAvailable(t *testing.T) {
	t.Parallel()
	notReady := readyPod("c", time.Second)
	notReady.Status.Conditions[0].Status = corev1.ConditionFalse
	unknown := runningPod("d", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} })
	readyForSecond, readyForSeven := readyPod("a", time.Second), readyPod("b", 7*time.Second)
	const never = "nothing to wait for"
	tests := map[string]struct {
		minReadySeconds int32
		pods            []*corev1.Pod
		want            string
	}{
		"without pods there is nothing to wait for": {10, nil, never},
		"with zero seconds a ready pod is available at once": {
			0, []*corev1.Pod{readyForSecond}, never,
		},
		"with zero seconds a clock that is behind makes no difference": {
			0, []*corev1.Pod{readyPod("a", -time.Second)}, never,
		},
		"pods that are available are not waited for": {
			10, []*corev1.Pod{readyPod("a", 10*time.Second), readyPod("b", time.Hour)}, never,
		},
		"pods that are not ready are not waited for": {
			10, []*corev1.Pod{notReady}, never,
		},
		"a pod that is ready since nobody knows when is not waited for": {
			10, []*corev1.Pod{unknown}, never,
		},
		"a ready pod is waited for until its seconds are over": {
			10, []*corev1.Pod{readyForSecond}, "look again in 9s",
		},
		"the time counts from when it became ready and not from its creation": {
			10, []*corev1.Pod{runningPod("a", func(p *corev1.Pod) {
				setReady(p, 4*time.Second)
				p.CreationTimestamp = metav1.NewTime(testNow.Add(-8 * time.Second))
			})}, "look again in 6s",
		},
		"of several pods the first to become available is waited for": {
			10, []*corev1.Pod{readyForSecond, notReady, readyForSeven, readyPod("e", 3*time.Second), readyPod("f", time.Hour)}, "look again in 3s",
		},
		"in whatever order they are listed the first is waited for": {
			10, []*corev1.Pod{readyForSeven, readyPod("e", 3*time.Second), readyForSecond}, "look again in 3s",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := testSet(3)
			set.Spec.MinReadySeconds = tt.minReadySeconds
			seen := never
			if at, ok := nextAvailable(observed{set: set, active: tt.pods, now: testNow}); ok {
				seen = "look again in " + at.Sub(testNow).String()
			}
			assert.Equal(t, tt.want, seen, "minReadySeconds: %d; pods ready for: %s", tt.minReadySeconds, readyFor(tt.pods))
		})
	}
}

// readyFor says how long pods have been ready.
func readyFor(pods []*corev1.Pod) string {
	var times []string
	for _, pod := range pods {
		ready := pod.Status.Conditions[0]
		switch {
		case ready.Status != corev1.ConditionTrue:
			times = append(times, "not at all")
		case ready.LastTransitionTime.IsZero():
			times = append(times, "nobody knows")
		default:
			times = append(times, testNow.Sub(ready.LastTransitionTime.Time).String())
		}
	}
	return cmp.Or(strings.Join(times, ", "), "none")
}
