package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func testPod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func TestPodsAreCounted(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(testPod("a", corev1.ConditionFalse))
	w, stop, err := startWatch(t.Context(), client)
	require.NoError(t, err)
	t.Cleanup(stop)
	pods := client.CoreV1().Pods("ns")
	until := func(existing, ready int) {
		t.Helper()
		reached := w.when(func() bool { return *w.count("ns") == count{existing, ready} })
		_, err := w.await(t.Context(), "the pods are counted", "ns", reached)
		require.NoError(t, err)
	}
	until(1, 0)
	_, err = pods.Create(t.Context(), testPod("b", corev1.ConditionTrue), metav1.CreateOptions{})
	require.NoError(t, err)
	until(2, 1)
	for range 2 { // a pod that stays Ready counts once
		_, err = pods.UpdateStatus(t.Context(), testPod("a", corev1.ConditionTrue), metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	until(2, 2)
	_, err = pods.UpdateStatus(t.Context(), testPod("a", corev1.ConditionFalse), metav1.UpdateOptions{})
	require.NoError(t, err)
	until(2, 1)
	require.NoError(t, pods.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	until(1, 0)
	assert.Len(t, w.ready, 1)
}

func TestARolloutIsCompleteWhenItsStatusSaysSo(t *testing.T) {
	t.Parallel()
	d := newDeployment("web", 3)
	d.Namespace, d.Generation = "ns", 2
	w := &watch{deployments: map[string]map[string]*appsv1.Deployment{}, pods: map[string]*count{}}
	observe := func(status appsv1.DeploymentStatus) {
		changed := d.DeepCopy()
		changed.Status = status
		w.change(func() { w.observeDeployment(changed) })
	}
	complete := w.complete("ns", 1, 2)
	all := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
	for name, change := range map[string]func(*appsv1.DeploymentStatus){
		"the spec was not seen":       func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 },
		"an old pod is left":          func(s *appsv1.DeploymentStatus) { s.Replicas = 4 },
		"a new pod is missing":        func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 2 },
		"a new pod does not work yet": func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 2 },
	} {
		status := all
		change(&status)
		observe(status)
		assert.Empty(t, complete, name)
	}
	observe(all)
	assert.Len(t, complete, 1)
	assert.Empty(t, w.complete("ns", 1, 3), "a later generation is waited for")
	assert.Empty(t, w.complete("ns", 2, 2), "another Deployment is waited for")
}

func TestAMomentIsTheTimeOfTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, n := &moments{}, 0
		reached := m.when(func() bool { return n == 2 })
		for range 3 {
			time.Sleep(time.Second)
			m.change(func() { n++ })
		}
		begin := time.Now()
		at, err := m.wait(t.Context(), "it is two", reached, func() string { return "" })
		require.NoError(t, err)
		assert.Equal(t, time.Second, begin.Sub(at))
	})
}

func TestAWaitEndsWithWhatWasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &moments{}
		never := m.when(func() bool { return false })
		seen := func() string { return "2 of 3 pods" }
		_, err := m.wait(t.Context(), "all pods exist", never, seen)
		assert.EqualError(t, err, "waiting until all pods exist, with 2 of 3 pods: given up after 15m0s")

		ctx, died := context.WithCancelCause(t.Context())
		died(errors.New("kcm has ended"))
		_, err = m.wait(ctx, "all pods exist", never, seen)
		assert.EqualError(t, err, "waiting until all pods exist, with 2 of 3 pods: kcm has ended")
	})
}
