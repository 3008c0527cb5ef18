package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyPodsThatMayRunAreActiveAndOnlyThoseThatMayStillRunAreTerminating(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	tests := map[string]struct {
		phase               corev1.PodPhase
		deleted             *metav1.Time
		active, terminating bool
	}{
		"pending":            {phase: corev1.PodPending, active: true},
		"running":            {phase: corev1.PodRunning, active: true},
		"unknown":            {phase: corev1.PodUnknown, active: true},
		"succeeded":          {phase: corev1.PodSucceeded},
		"failed":             {phase: corev1.PodFailed},
		"pending, deleted":   {phase: corev1.PodPending, deleted: &now, terminating: true},
		"running, deleted":   {phase: corev1.PodRunning, deleted: &now, terminating: true},
		"succeeded, deleted": {phase: corev1.PodSucceeded, deleted: &now},
		"failed, deleted":    {phase: corev1.PodFailed, deleted: &now},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: tt.deleted},
				Status:     corev1.PodStatus{Phase: tt.phase},
			}
			assert.Equal(t, tt.active, IsPodActive(pod))
			assert.Equal(t, tt.terminating, IsPodTerminating(pod))
		})
	}
}

func TestIsPodAvailable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		conditions      []corev1.PodCondition
		minReadySeconds int32
		ready           bool
		available       bool
	}{
		"a pod without a Ready condition is not ready": {},
		"a pod that is not ready is not available": {
			conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}},
		},
		"another true condition does not make it ready": {
			conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
		},
		"ready is enough for zero seconds": {
			conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ready:      true, available: true,
		},
		"ready for less than the time is not available": {
			conditions:      []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-9 * time.Second))}},
			minReadySeconds: 10, ready: true,
		},
		"ready for exactly the time is available": {
			conditions:      []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Second))}},
			minReadySeconds: 10, ready: true, available: true,
		},
		"ready since an unknown time is not available": {
			conditions:      []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			minReadySeconds: 10, ready: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: tt.conditions}}
			assert.Equal(t, tt.ready, IsPodReady(pod))
			assert.Equal(t, tt.available, IsPodAvailable(pod, tt.minReadySeconds, now))
		})
	}
}

func TestAPodIsMarkedAsATargetOfADisruptionOnce(t *testing.T) {
	t.Parallel()
	since := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for what, test := range map[string]struct {
		there []corev1.PodCondition
		same  bool
	}{
		"it was not marked":      {nil, false},
		"it is marked":           {[]corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: since}}, true},
		"it was marked and not":  {[]corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: since}}, false},
		"something else is true": {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: corev1.PodStatus{Conditions: test.there}}
			condition := DisruptionTarget(pod, "Why", "because")
			assert.Equal(t, test.same, condition.LastTransitionTime.Equal(&since), "it is true since then")
			condition.LastTransitionTime = metav1.Time{}
			assert.Equal(t, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "Why", Message: "because", ObservedGeneration: 3,
			}, condition)
		})
	}
}
