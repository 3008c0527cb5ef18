package replication

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// planned says what a plan does about pods.
func planned(p plan) string {
	var steps []string
	if p.create != 0 {
		steps = append(steps, fmt.Sprintf("create %d", p.create))
	}
	if len(p.delete) > 0 {
		steps = append(steps, "delete "+names(p.delete))
	}
	return cmp.Or(strings.Join(steps, "; "), "nothing")
}

// names lists pods in the order of their names.
func names(pods []*corev1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, " "), "none")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	deleted := testSet(3)
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	tests := map[string]struct {
		seen observed
		want string
	}{
		"too few pods are made up for":                   {observed{set: testSet(3), active: testPods(1), mayAct: true}, "create 2"},
		"too many pods are deleted":                      {observed{set: testSet(1), active: testPods(3), mayAct: true}, "delete web-00 web-01"},
		"enough pods are left alone":                     {observed{set: testSet(3), active: testPods(3), mayAct: true}, "nothing"},
		"of a set of zero all pods go":                   {observed{set: testSet(0), active: testPods(3), mayAct: true}, "delete web-00 web-01 web-02"},
		"a burst of creations is limited":                {observed{set: testSet(100), mayAct: true}, "create 4"},
		"a burst of deletions is limited":                {observed{set: testSet(0), active: testPods(30), mayAct: true}, "delete web-00 web-01 web-02 web-03"},
		"a burst is created whole":                       {observed{set: testSet(4), mayAct: true}, "create 4"},
		"nothing is created before the set may act":      {observed{set: testSet(3)}, "nothing"},
		"nothing is deleted before the set may act":      {observed{set: testSet(0), active: testPods(3)}, "nothing"},
		"a set that is being deleted creates nothing":    {observed{set: deleted, mayAct: true}, "nothing"},
		"a set that is being deleted deletes nothing":    {observed{set: deleted, active: testPods(5), mayAct: true}, "nothing"},
		"pods that are terminating are replaced at once": {observed{set: testSet(3), active: testPods(2), terminating: testPods(1), mayAct: true}, "create 1"},
		"pods that are terminating are not too many":     {observed{set: testSet(2), active: testPods(2), terminating: testPods(1), mayAct: true}, "nothing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, planned(decide(tt.seen, 4)), "replicas: %d; pods: %d active, %d terminating; may act: %t; burst: 4",
				*tt.seen.set.Spec.Replicas, len(tt.seen.active), len(tt.seen.terminating), tt.seen.mayAct)
		})
	}
}
