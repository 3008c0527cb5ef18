package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kcm-book/kcm-book/labs/history"
)

// past is a history that a test makes up.
type past struct {
	t       *testing.T
	changes []history.Change
}

func (p *past) change(kind watch.EventType, resource string, object metav1.Object) {
	p.t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(p.t, err)
	kinds, _, err := scheme.Scheme.ObjectKinds(object.(runtime.Object))
	require.NoError(p.t, err)
	seen := &unstructured.Unstructured{Object: fields}
	seen.SetGroupVersionKind(kinds[0])
	p.changes = append(p.changes,
		history.Change{Type: kind, Resource: resource, Object: seen, Version: uint64(len(p.changes) + 1)})
}

// web adds a Deployment, which may ask for one pod more than 3 and have all 3.
func (p *past) web(replicas int32) *appsv1.Deployment {
	d := deployment(replicas, appsv1.RollingUpdateDeploymentStrategyType)
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	d.UID, d.Spec.Strategy.RollingUpdate = "web", &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}
	p.change(watch.Added, "deployments", d)
	return d
}

func (p *past) slice(name string, pods ...string) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef:  &corev1.ObjectReference{Name: pod, UID: types.UID(pod)},
		})
	}
	p.change(watch.Added, "endpointslices", slice)
}

func (p *past) set(owner *appsv1.Deployment, image string, replicas int32) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + image, UID: types.UID("web-" + image),
			Labels: map[string]string{"app": app}},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas,
			Selector: metav1.SetAsLabelSelector(map[string]string{"app": app}), Template: podTemplate(image)},
	}
	if owner != nil {
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner,
			appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	p.change(watch.Added, "replicasets", rs)
	return rs
}

func (p *past) resize(rs *appsv1.ReplicaSet, replicas int32) {
	rs.Spec.Replicas = &replicas
	rs.Generation++
	p.change(watch.Modified, "replicasets", rs)
}

// pod adds an available one.
func (p *past) pod(owner *appsv1.ReplicaSet, name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner,
				appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: app, Image: "web:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	p.change(watch.Added, "pods", pod)
	return pod
}

func (p *past) deletePod(pod *corev1.Pod) {
	now := metav1.Now()
	pod.DeletionTimestamp = &now
	p.change(watch.Modified, "pods", pod)
}

// Each history is right until its last change.
func TestAHistoryThatBreaksAnInvariantIsFoundAtTheChangeThatDoesIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		invariant, says string
		happens         func(p *past)
	}{
		{"surge", "web-2 now asks for 2, and all ReplicaSets of web for 5; 4 are allowed", func(p *past) {
			d := p.web(3)
			p.set(d, "1", 3)
			p.resize(p.set(d, "2", 1), 2)
		}},
		{"available", "available pod one was deleted, and web has 2 available pods left; 3 are the least", func(p *past) {
			rs := p.set(p.web(3), "1", 3)
			one := p.pod(rs, "one")
			p.pod(rs, "two")
			p.pod(rs, "three")
			p.resize(rs, 2)
			p.deletePod(one)
		}},
		{"too-many", "two was made, and web-1 has 2 pods; it is asked for 1", func(p *past) {
			rs := p.set(nil, "1", 1)
			p.pod(rs, "one")
			p.pod(rs, "two")
		}},
		{"too-few", "one was deleted, and web-1 has 1 pods left; it is asked for 2", func(p *past) {
			rs := p.set(nil, "1", 2)
			one := p.pod(rs, "one")
			p.pod(rs, "two")
			p.deletePod(one)
		}},
		{"twins", "web-2 and web-1 have the same template", func(p *past) {
			d := p.web(3)
			p.set(d, "1", 1)
			rs := p.set(d, "2", 1)
			rs.Spec.Template = podTemplate("1")
			rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "2"
			p.change(watch.Modified, "replicasets", rs)
		}},
		{"one-owner", "one has 2 owners", func(p *past) {
			pod := p.pod(p.set(nil, "1", 1), "one")
			pod.OwnerReferences = append(pod.OwnerReferences,
				metav1.OwnerReference{Kind: "ReplicaSet", Name: "other", UID: "other"})
			p.change(watch.Modified, "pods", pod)
		}},
		{"orphaned", "one was taken from web-1, whose selector it matches", func(p *past) {
			pod := p.pod(p.set(nil, "1", 1), "one")
			pod.OwnerReferences = nil
			p.change(watch.Modified, "pods", pod)
		}},
		{"recreate", "two was made while one of web-1 is there", func(p *past) {
			d := p.web(1)
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			p.change(watch.Modified, "deployments", d)
			old := p.set(d, "1", 1)
			one := p.pod(old, "one")
			p.resize(old, 0)
			p.deletePod(one) // it is there until it has ended
			p.pod(p.set(d, "2", 1), "two")
		}},
		{"counted-twice", "report counts 2 pods, and 1 have succeeded", func(p *past) {
			job := p.report()
			p.succeed(p.jobPod(job, "one"))
			p.counts(job, 0, "one")
			p.counts(job, 1, "one")
		}},
		{"uncounted", "one has lost its finalizer, and its Job does not know that it has succeeded", func(p *past) {
			pod := p.jobPod(p.report(), "one")
			p.succeed(pod)
			p.letGo(pod)
		}},
		{"parallelism", "two was made, and report has 2 pods that run; 1 may", func(p *past) {
			job := p.report()
			p.jobPod(job, "one")
			p.jobPod(job, "two")
		}},
		{"pair", "two was made, and node a has 2 pods of agent; 1 may be there", func(p *past) {
			set := p.agent(0, 1)
			p.deletePod(p.daemon(set, "one", "a")) // it is there until it has ended
			p.daemon(set, "two", "a")
		}},
		{"second", "four was made, and agent has a second pod on 2 nodes; 1 are allowed", func(p *past) {
			set := p.agent(1, 0)
			p.daemon(set, "one", "a")
			p.daemon(set, "two", "b")
			p.daemon(set, "three", "a")
			p.daemon(set, "four", "b")
		}},
		{"bare", "available pod two was deleted, and agent has an available pod on 1 nodes; 2 are the least", func(p *past) {
			set := p.agent(0, 1)
			one, two := p.daemon(set, "one", "a"), p.daemon(set, "two", "b")
			p.daemon(set, "three", "c")
			p.deletePod(one)
			p.deletePod(two)
		}},
		{"told-twice", "slices tell of one 2 times", func(p *past) {
			p.slice("first", "one")
			p.slice("second", "two", "one")
		}},
		{"above-quota", "pods of web is 4; 3 are allowed", func(p *past) {
			three := corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}}
			p.change(watch.Added, "resourcequotas",
				&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}, Spec: three})
			unknown := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "unknown", UID: "unknown"}}
			p.succeed(p.pod(unknown, "ended"))
			p.deletePod(p.pod(unknown, "going")) // it is there until it has ended
			p.pod(unknown, "two")
			p.pod(unknown, "three")
			p.pod(unknown, "four")
		}},
	}
	tested := map[string]bool{}
	for _, test := range tests {
		tested[test.invariant] = true
		t.Run(test.invariant, func(t *testing.T) {
			t.Parallel()
			p := &past{t: t}
			test.happens(p)
			last := len(p.changes) - 1
			before, err := NewJudge().Look(p.changes[:last]...)
			require.NoError(t, err)
			require.Empty(t, before, "the history is right until its last change")
			violations, err := NewJudge().Look(p.changes...)
			require.NoError(t, err)
			require.Contains(t, violations, Violation{Invariant: test.invariant, Says: test.says})
		})
	}
	for _, invariant := range Invariants {
		require.True(t, tested[invariant.Name], "no history breaks %s", invariant.Name)
	}
}

func TestWhatAUserAsksForIsNoViolation(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	d := p.web(3)
	rs := p.set(d, "1", 3)
	pods := []*corev1.Pod{p.pod(rs, "one"), p.pod(rs, "two"), p.pod(rs, "three")}
	fewer := int32(1)
	d.Generation++
	d.Spec.Replicas = &fewer // and for a moment there is more than it asks for
	p.change(watch.Modified, "deployments", d)
	p.resize(rs, 1)
	p.deletePod(pods[0])
	p.deletePod(pods[1])
	now := metav1.Now()
	d.DeletionTimestamp = &now // in the foreground: what it owns goes first
	p.change(watch.Modified, "deployments", d)
	p.deletePod(pods[2])
	violations, err := NewJudge().Look(p.changes...)
	require.NoError(t, err)
	require.Empty(t, violations)
}

func TestAPodThatIsRelabelledByAUserMayLoseItsOwner(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	pod := p.pod(p.set(nil, "1", 1), "one")
	pod.Labels = map[string]string{"app": "other"}
	p.change(watch.Modified, "pods", pod)
	pod.OwnerReferences = nil
	p.change(watch.Modified, "pods", pod)
	violations, err := NewJudge().Look(p.changes...)
	require.NoError(t, err)
	require.Empty(t, violations)
}

func TestTheBoundsOfADeploymentAreRoundedAsTheAPISaysIt(t *testing.T) {
	t.Parallel()
	percent := func(replicas int32, surge, unavailable string) (most, least int32) {
		d := deployment(replicas, appsv1.RollingUpdateDeploymentStrategyType)
		s, u := intstr.FromString(surge), intstr.FromString(unavailable)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}
		return bounds(d)
	}
	most, least := percent(3, "25%", "25%")
	require.Equal(t, []int32{4, 3}, []int32{most, least}, "0.75 more, 0.75 fewer")
	most, least = percent(10, "0%", "5%")
	require.Equal(t, []int32{10, 9}, []int32{most, least}, "where both are 0, one may be missing")
	most, least = bounds(deployment(3, appsv1.RecreateDeploymentStrategyType))
	require.Equal(t, []int32{3, 0}, []int32{most, least})
}

const app = "web"

func podTemplate(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: app, Image: image}}},
	}
}

func deployment(replicas int32, strategy appsv1.DeploymentStrategyType) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: metav1.SetAsLabelSelector(map[string]string{"app": app}),
			Template: podTemplate("web:1"), Strategy: appsv1.DeploymentStrategy{Type: strategy},
		},
	}
}
