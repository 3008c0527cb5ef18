package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
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
	podTemplate.Labels = controller.With(podTemplate.Labels, hashLabel, "hash"+version)
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

// told tells of changes: "v1 from 10 to 8; v2 from 0 to 3". In which order they
// come does not matter.
func told(changes []change) string {
	var texts []string
	for _, c := range changes {
		if size(c.from) == size(c.to) {
			texts = append(texts, fmt.Sprintf("%s stays at %d, noted anew", versionOf(c.from), size(c.from)))
		} else {
			texts = append(texts, fmt.Sprintf("%s from %d to %d", versionOf(c.from), size(c.from), size(c.to)))
		}
	}
	slices.Sort(texts)
	return cmp.Or(strings.Join(texts, "; "), "no change")
}

// tells tells of a whole plan but for its status.
func (p plan) tells() string {
	var texts []string
	if p.create != nil {
		texts = append(texts, fmt.Sprintf("create %s with size %d", versionOf(p.create), size(p.create)))
	}
	if len(p.change) > 0 {
		texts = append(texts, told(p.change))
	}
	for _, rs := range p.remove {
		texts = append(texts, "delete "+versionOf(rs))
	}
	if p.spec != nil {
		texts = append(texts, "roll back to "+p.spec.Spec.Template.Spec.Containers[0].Image[len("web:"):])
	}
	return cmp.Or(strings.Join(texts, "; "), "no change")
}

// situation tells what is seen: "4 replicas of v2, up to 5 pods, at least 3
// available; old v1: size 4, 4 available; new v2: size 1, 0 available".
func situation(seen observed) string {
	d := seen.deployment
	least, most := promised(d)
	text := fmt.Sprintf("%d replicas of v2, up to %d pods, at least %d available", *d.Spec.Replicas, most, least)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		text = fmt.Sprintf("%d replicas of v2, Recreate", *d.Spec.Replicas)
	}
	for _, rs := range seen.all() {
		which := "old"
		if rs == seen.newRS {
			which = "new"
		}
		text += fmt.Sprintf("; %s %s: size %d, %d available", which, versionOf(rs), size(rs), rs.Status.AvailableReplicas)
		if rs.Status.Replicas != size(rs) {
			text += fmt.Sprintf(", status of %d pods", rs.Status.Replicas)
		}
	}
	for _, pod := range seen.oldPods {
		text += fmt.Sprintf("; an old pod %s", pod.Status.Phase)
		if pod.DeletionTimestamp != nil {
			text += ", being deleted"
		}
	}
	return text
}

// promised returns how many pods the API documentation promises to be available
// at least and to be asked for at most, reckoned once more: a percentage of
// surge is rounded up, one of unavailable pods down, and one pod may be
// unavailable if both come to nothing.
func promised(d *appsv1.Deployment) (least, most int32) {
	wanted := *d.Spec.Replicas
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return wanted, wanted
	}
	of := func(bound *intstr.IntOrString, roundUp float64) int32 {
		percent, isPercent := strings.CutSuffix(bound.StrVal, "%")
		if !isPercent {
			return bound.IntVal
		}
		n, err := strconv.Atoi(percent)
		if err != nil {
			panic(err)
		}
		return int32((float64(n)*float64(wanted) + roundUp) / 100)
	}
	surge := of(d.Spec.Strategy.RollingUpdate.MaxSurge, 99)
	unavailable := of(d.Spec.Strategy.RollingUpdate.MaxUnavailable, 0)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return max(0, wanted-unavailable), wanted + surge
}

// drawBound returns a maxSurge or maxUnavailable.
func drawBound(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"0", "1", "2", "5", "10%", "25%", "60%", "100%"}).Draw(t, label)
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
