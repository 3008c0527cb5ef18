package faults

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// after returns the model after some steps.
func after(steps ...Step) *Model {
	m := NewModel()
	for _, s := range steps {
		m.Then(s)
	}
	return m
}

func create3(app string) Step {
	return Step{Act: "create", App: app, Replicas: 3, Image: "web:1", Strategy: "1/0"}
}

func TestAModelIsWhatUsersHaveAskedForLast(t *testing.T) {
	t.Parallel()
	m := after(create3("web-1"),
		Step{Act: "scale", App: "web-1", Replicas: 5}, Step{Act: "image", App: "web-1", Image: "web:2"}, Step{Act: "image", App: "web-1", Image: "web:3"},
		Step{Act: "undo", App: "web-1", Image: "web:2"}, Step{Act: "pause", App: "web-1"}, Step{Act: "strategy", App: "web-1", Strategy: "Recreate"})
	require.Equal(t, App{Name: "web-1", There: true, Replicas: 5, Image: "web:2", Former: "web:3", Strategy: "Recreate", Paused: true}, *m.app("web-1"))
	require.False(t, m.app("web-2").There)
}

func TestWhatIsOrphanedIsKnownWhenItWasAwaitedBefore(t *testing.T) {
	t.Parallel()
	orphan := Step{Act: "delete", App: "set-1", Policy: metav1.DeletePropagationOrphan}
	rest := Step{Act: "await", App: "set-1"}
	require.Nil(t, after(create3("set-1"), orphan).app("set-1").Kept)
	require.Nil(t, after(create3("set-1"), rest, Step{Act: "scale", App: "set-1", Replicas: 1}, orphan).app("set-1").Kept)
	require.Equal(t, int32(3), *after(create3("set-1"), rest, Step{Act: "fault"}, orphan).app("set-1").Kept)
	require.Nil(t, after(create3("set-1"), rest, orphan, create3("set-1")).app("set-1").Kept, "it is adopted")
}

func TestAStepThatConcernsWhatIsNotThereChangesNothing(t *testing.T) {
	t.Parallel()
	for _, act := range Acts {
		if act.can == nil || act.Name == "create" {
			continue
		}
		require.Equal(t, NewModel(), after(Step{Act: act.Name, App: "web-1", Replicas: 2, Image: "web:2"}), act.Name)
	}
	m := after(create3("rc-1"), Step{Act: "namespace"})
	require.Equal(t, NewModel(), m, "with the namespace all is gone")
}

// scene is a world that a test builds.
type scene struct {
	*World
	t *testing.T
}

func newScene(t *testing.T) *scene {
	w := newWorld()
	w.Others = map[string]map[string]bool{"serviceaccounts": {"default": true}, "configmaps": {"kube-root-ca.crt": true}}
	return &scene{w, t}
}

// set adds one with all its pods.
func (s *scene) set(name, app, image string, replicas int32, owner *appsv1.Deployment) *appsv1.ReplicaSet {
	template := podTemplate(image, image != neverReady)
	template.Labels[appLabel] = app
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{appLabel: app}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: metav1.SetAsLabelSelector(map[string]string{appLabel: app}), Template: template},
		Status:     appsv1.ReplicaSetStatus{Replicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas},
	}
	if owner != nil {
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	s.ReplicaSets[rs.UID] = rs
	for i := range replicas {
		pod := s.pod(fmt.Sprintf("%s-%d", name, i), app)
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		if image == neverReady {
			pod.Status.Conditions = nil
		}
	}
	return rs
}

// pod adds one that is available and of nobody.
func (s *scene) pod(name, app string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{appLabel: app}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	s.Pods[pod.UID] = pod
	return pod
}

// web adds a Deployment of 3 whose ReplicaSets have these images and sizes.
func (s *scene) web(image, reason string, sizes map[string]int32) *appsv1.Deployment {
	d := deployment(3, appsv1.RollingUpdateDeploymentStrategyType)
	d.Name, d.UID = "web-1", "web-1"
	template := podTemplate(image, image != neverReady)
	template.Labels[appLabel] = d.Name
	d.Spec.Template = template
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reason}}
	for each, size := range sizes {
		s.set("web-1-"+each, "web-1", each, size, d)
		d.Status.Replicas += size
		if each == image {
			d.Status.UpdatedReplicas += size
		}
		if each != neverReady {
			d.Status.AvailableReplicas += size
		}
	}
	s.Deployments[d.UID] = d
	return d
}

func TestTheEndThatUsersHaveAskedForIsRight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.web("web:2", "NewReplicaSetAvailable", map[string]int32{"web:1": 0, "web:2": 3})
	s.set("set-1", "set-1", "web:1", 3, nil)
	s.pod("taken", "set-1-out")
	m := after(create3("web-1"), Step{Act: "image", App: "web-1", Image: "web:2"}, create3("set-1"), Step{Act: "take-pod", App: "set-1"})
	require.Empty(t, m.Differences(s.World))

	stuck := newScene(t)
	stuck.web(neverReady, "ReplicaSetUpdated", map[string]int32{"web:1": 3, neverReady: 1})
	require.Empty(t, after(create3("web-1"), Step{Act: "image", App: "web-1", Image: neverReady}).Differences(stuck.World))

	paused := newScene(t)
	paused.web("web:2", "DeploymentPaused", map[string]int32{"web:1": 3}).Spec.Paused = true
	require.Empty(t, after(create3("web-1"), Step{Act: "pause", App: "web-1"}, Step{Act: "image", App: "web-1", Image: "web:2"}).Differences(paused.World))
}

func TestWhatIsOtherwiseInTheEndIsTold(t *testing.T) {
	t.Parallel()
	deleted := Step{Act: "delete", App: "web-1", Policy: metav1.DeletePropagationForeground}
	orphaned := Step{Act: "delete", App: "web-1", Policy: metav1.DeletePropagationOrphan}
	rolledOut := func(s *scene) *appsv1.Deployment {
		return s.web("web:1", "NewReplicaSetAvailable", map[string]int32{"web:1": 3})
	}
	for _, test := range []struct {
		says  string
		steps []Step
		build func(s *scene)
	}{
		{"serviceaccounts/default is missing", nil, func(s *scene) { delete(s.Others, "serviceaccounts") }},
		{"web-1: it is there: false", []Step{create3("web-1")}, func(*scene) {}},
		{"web-1: it is there: true", []Step{create3("web-1"), deleted}, func(s *scene) { rolledOut(s) }},
		{"web-1: generation 2 is not observed", []Step{create3("web-1")}, func(s *scene) { rolledOut(s).Generation = 2 }},
		{"web-1: it asks for 3 of web:1, paused false", []Step{create3("web-1"), {Act: "scale", App: "web-1", Replicas: 4}}, func(s *scene) { rolledOut(s) }},
		{"web-1: it has a ReplicaFailure", []Step{create3("web-1")}, func(s *scene) {
			d := rolledOut(s)
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure})
		}},
		{"web-1: it is rolled out, and Progressing says ReplicaSetUpdated", []Step{create3("web-1")}, func(s *scene) {
			rolledOut(s).Status.Conditions[0].Reason = "ReplicaSetUpdated"
		}},
		{"web-1: 2 ReplicaSets have its template", []Step{create3("web-1")}, func(s *scene) { s.set("web-1-twin", "web-1", "web:1", 0, rolledOut(s)) }},
		{"web-1: it has 4 ReplicaSets", []Step{create3("web-1")}, func(s *scene) {
			s.web("web:1", "NewReplicaSetAvailable", map[string]int32{"web:1": 3, "web:2": 0, "web:3": 0, "web:4": 0})
		}},
		{"web-1: it has 4 pods, 3 updated, 4 available, of 3", []Step{create3("web-1")}, func(s *scene) {
			s.web("web:1", "NewReplicaSetAvailable", map[string]int32{"web:1": 3, "web:2": 1})
		}},
		{"web-1: 0 new pods beside 3 old ones; all may be 4", []Step{create3("web-1"), {Act: "image", App: "web-1", Image: neverReady}}, func(s *scene) {
			s.web(neverReady, "ReplicaSetUpdated", map[string]int32{"web:1": 3, neverReady: 0})
		}},
		{"web-1: it is paused, and Progressing says DeploymentResumed", []Step{create3("web-1"), {Act: "pause", App: "web-1"}}, func(s *scene) {
			d := rolledOut(s)
			d.Spec.Paused, d.Status.Conditions[0].Reason = true, "DeploymentResumed"
		}},
		{"web-1: 1 ReplicaSets are left behind", []Step{create3("web-1"), deleted}, func(s *scene) { s.set("web-1-a", "web-1", "web:1", 1, nil) }},
		{"web-1: the owner of web-1-a is gone", []Step{create3("web-1"), deleted}, func(s *scene) {
			s.set("web-1-a", "web-1", "web:1", 0, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "gone"}})
		}},
		{"web-1: ReplicaSets for 2 pods are left, and for 3 were orphaned", []Step{create3("web-1"), {Act: "await", App: "web-1"}, orphaned}, func(s *scene) {
			s.set("web-1-a", "web-1", "web:1", 2, nil)
		}},
		{"web-1: web-1-a is of nobody, and the Deployment selects it", []Step{create3("web-1")}, func(s *scene) {
			rolledOut(s)
			s.set("web-1-a", "web-1", "web:2", 0, nil)
		}},
		{"set-1: pod loose is of nobody, and set-1 selects it", []Step{create3("set-1")}, func(s *scene) {
			s.set("set-1", "set-1", "web:1", 3, nil)
			s.pod("loose", "set-1")
		}},
		{"set-1: the owner of pod set-1-0 is gone", []Step{create3("set-1"), {Act: "delete", App: "set-1"}}, func(s *scene) {
			delete(s.ReplicaSets, s.set("set-1", "set-1", "web:1", 1, nil).UID)
		}},
		{"rc-1: set asks for 3, has 2 pods, and its status says 3", []Step{create3("rc-1")}, func(s *scene) {
			s.set("set", "rc-1", "web:1", 3, nil)
			delete(s.Pods, "set-0")
		}},
		{"rc-1: 1 pods are out, and users have taken 0", []Step{create3("rc-1")}, func(s *scene) { s.pod("loose", "rc-1-out") }},
		{"rc-1: pod set-0 has an owner that does not select it", []Step{create3("rc-1")}, func(s *scene) {
			s.set("set", "rc-1", "web:1", 3, nil)
			s.Pods["set-0"].Labels[appLabel] = "rc-1-out"
		}},
		{"set-1: pod set-1-0 is still going", []Step{create3("set-1")}, func(s *scene) {
			s.set("set-1", "set-1", "web:1", 3, nil)
			now := metav1.Now()
			s.Pods["set-1-0"].DeletionTimestamp = &now
		}},
	} {
		s := newScene(t)
		test.build(s)
		require.Contains(t, after(test.steps...).Differences(s.World), test.says)
	}
}
