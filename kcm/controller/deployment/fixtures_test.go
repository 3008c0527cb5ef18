package deployment

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rolling returns a deployment of version v2 in the state in which its spec
// has been taken note of.
func rolling(replicas int32, maxSurge, maxUnavailable string) *appsv1.Deployment {
	surge, unavailable := intstr.Parse(maxSurge), intstr.Parse(maxUnavailable)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid-web", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template("v2"),
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			ProgressDeadlineSeconds: new(int32(600)),
			RevisionHistoryLimit:    new(int32(10)),
		},
	}
	setCondition(&d.Status, newCondition(noon.Add(-time.Minute), appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonNewReplicaSet, "Created"))
	return d
}

func recreating(replicas int32) *appsv1.Deployment {
	d := rolling(replicas, "0", "0")
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	return d
}

func template(version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:" + version}}},
	}
}

// replicaSet returns a ReplicaSet of d with version vN, revision N and age in
// that order, as if d had sized it and all its pods were available.
func replicaSet(d *appsv1.Deployment, n int, replicas int32) *appsv1.ReplicaSet {
	version := fmt.Sprintf("v%d", n)
	podTemplate := template(version)
	podTemplate.Labels = withHash(podTemplate.Labels, "hash"+version)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-" + version, UID: types.UID("uid-" + version),
			CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(n-100) * time.Hour)),
			Generation:        1,
			Labels:            podTemplate.Labels,
			Annotations:       map[string]string{revisionAnnotation: strconv.Itoa(n)},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
		},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &replicas, Template: podTemplate},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, Replicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas, TerminatingReplicas: new(int32)},
	}
	annotateSize(d, rs)
	return rs
}

// with changes a ReplicaSet for a test.
func with(rs *appsv1.ReplicaSet, change func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	change(rs)
	return rs
}

// having sets how many available pods the status tells of.
func having(rs *appsv1.ReplicaSet, available int32) *appsv1.ReplicaSet {
	rs.Status.AvailableReplicas, rs.Status.ReadyReplicas = available, available
	return rs
}

// see observes a deployment and ReplicaSets in the state in which the
// deployment's revision is that of its new ReplicaSet.
func see(d *appsv1.Deployment, replicaSets ...*appsv1.ReplicaSet) observed {
	seen := observed{deployment: d, now: noon, countsTerminating: true}
	seen.newRS, seen.oldRSs = tellApart(d, replicaSets)
	if seen.newRS != nil {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, revisionAnnotation, seen.newRS.Annotations[revisionAnnotation])
	}
	return seen
}

// sizes tells which sizes a plan sets, by version.
func sizes(p plan) map[string]int32 {
	result := map[string]int32{}
	for _, change := range p.change {
		result[versionOf(change.to)] = size(change.to)
	}
	return result
}

func versionOf(rs *appsv1.ReplicaSet) string {
	return rs.Spec.Template.Spec.Containers[0].Image[len("web:"):]
}

// assertNothing wants a plan that does nothing, not even later.
func assertNothing(t *testing.T, p plan) {
	t.Helper()
	assert.Empty(t, p.remove)
	p.remove = nil
	assert.Equal(t, plan{}, p)
}
