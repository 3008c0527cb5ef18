package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var testNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testSet(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web-1", Generation: 3},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		},
	}
}

func testPods(n int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		name := fmt.Sprintf("web-%02d", i)
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}})
	}
	return pods
}

func TestDecide(t *testing.T) {
	t.Parallel()
	deleted := testSet(3)
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	tests := map[string]struct {
		seen           observed
		create, delete int
	}{
		"too few pods are made up for":                         {seen: observed{set: testSet(3), active: testPods(1), settled: true}, create: 2},
		"too many pods are deleted":                            {seen: observed{set: testSet(1), active: testPods(3), settled: true}, delete: 2},
		"enough pods are left alone":                           {seen: observed{set: testSet(3), active: testPods(3), settled: true}},
		"zero replicas delete all":                             {seen: observed{set: testSet(0), active: testPods(3), settled: true}, delete: 3},
		"a burst of creations is limited":                      {seen: observed{set: testSet(100), settled: true}, create: 10},
		"a burst of deletions is limited":                      {seen: observed{set: testSet(0), active: testPods(30), settled: true}, delete: 10},
		"nothing is created before earlier writes are seen":    {seen: observed{set: testSet(3)}},
		"nothing is deleted before earlier writes are seen":    {seen: observed{set: testSet(0), active: testPods(3)}},
		"a set that is being deleted creates nothing":          {seen: observed{set: deleted, settled: true}},
		"a set that is being deleted deletes nothing":          {seen: observed{set: deleted, active: testPods(5), settled: true}},
		"pods that are terminating are replaced at once":       {seen: observed{set: testSet(3), active: testPods(2), terminating: testPods(1), settled: true}, create: 1},
		"pods that are terminating are not counted as surplus": {seen: observed{set: testSet(2), active: testPods(2), terminating: testPods(1), settled: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := decide(tt.seen, 10)
			assert.Equal(t, tt.create, plan.create)
			assert.Len(t, plan.delete, tt.delete)
		})
	}
}
