package faults

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Model says where all has to end after some steps, whatever faults there were.
// It knows what users have asked for, and nothing of when a loop does what. So
// where the end depends on that, as it does for what is orphaned in the middle of
// a rollout, it says what may be there and no more.
type Model struct {
	Apps []*App // in the order of their names
}

// NewModel returns the model of a namespace that is empty.
func NewModel() *Model {
	m := &Model{}
	for _, group := range []struct {
		name  string
		count int
	}{{"rc", 3}, {"set", 4}, {"web", 8}} {
		for i := range group.count {
			m.Apps = append(m.Apps, &App{Name: fmt.Sprintf("%s-%d", group.name, i+1)})
		}
	}
	return m
}

// App is a Deployment, ReplicaSet or ReplicationController, and all that has its
// name in the label app.
type App struct {
	Name  string
	There bool
	// What it is asked for.
	Replicas      int32
	Image, Former string
	Strategy      string
	Paused        bool
	// awaited tells that it was seen to be as it is to be, and not changed since.
	awaited bool

	// What users have done to what it owns: how many pods and ReplicaSets they have
	// taken out by their labels, how many pods they have added.
	PodsTaken, SetsTaken, PodsAdded int
	// Orphaned tells that it was deleted once without what it owns.
	Orphaned bool
	// Kept is how many pods have to be left of what was orphaned, or nil if that
	// depends on when it was.
	Kept *int32
}

// outSuffix is added to the label of what is taken out.
const outSuffix = "-out"

// kind is the resource that the name says.
func (a *App) kind() string { return kindOf(a.Name) }

func kindOf(app string) string {
	kind, _, _ := strings.Cut(app, "-")
	return map[string]string{"web": "deployments", "set": "replicasets", "rc": "replicationcontrollers"}[kind]
}

func isThere(a *App) bool      { return a.There }
func isDeployment(a *App) bool { return a.There && a.kind() == "deployments" }

// app returns the one of a name, or nil.
func (m *Model) app(name string) *App {
	i := slices.IndexFunc(m.Apps, func(a *App) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return m.Apps[i]
}

// Can tells whether a step can be done. Where steps were left out before it, it
// may concern what is not there.
func (m *Model) Can(s Step) bool {
	can := actNamed(s.Act).can
	return can == nil || can(m.app(s.App))
}

// Then is what there is to be after a step.
func (m *Model) Then(s Step) {
	if !m.Can(s) {
		return
	}
	a := m.app(s.App)
	if then := actNamed(s.Act).then; then != nil {
		then(m, a, s)
	}
	if a != nil {
		a.awaited = s.Act == "await"
	}
}

func create(_ *Model, a *App, s Step) {
	a.There, a.Replicas, a.Image, a.Strategy = true, s.Replicas, s.Image, s.Strategy
	a.Former, a.Paused, a.Kept = "", false, nil
}

func setImage(_ *Model, a *App, s Step) {
	if s.Image != a.Image {
		a.Former, a.Image = a.Image, s.Image
	}
}

func remove(_ *Model, a *App, s Step) {
	a.There = false
	if s.Policy != metav1.DeletePropagationOrphan {
		return
	}
	a.Orphaned = true
	if a.awaited && !a.Paused && a.Image != neverReady {
		a.Kept = new(a.Replicas)
	}
}

// Differences says what is otherwise in a world than it has to be.
func (m *Model) Differences(w *World) (all []string) {
	for _, a := range m.Apps {
		all = append(all, a.differences(w)...)
	}
	for _, made := range [][2]string{{"serviceaccounts", "default"}, {"configmaps", "kube-root-ca.crt"}} {
		if !w.Others[made[0]][made[1]] {
			all = append(all, strings.Join(made[:], "/")+" is missing")
		}
	}
	return all
}

// verdict is what is wrong with an app.
type verdict struct {
	about string
	says  []string
}

// unless says something unless it is right.
func (v *verdict) unless(right bool, format string, args ...any) {
	if !right {
		v.says = append(v.says, v.about+": "+fmt.Sprintf(format, args...))
	}
}

func (a *App) differences(w *World) []string {
	v := &verdict{about: a.Name}
	sets := sorted(w.ReplicaSets, func(rs *appsv1.ReplicaSet) bool { return appOf(rs) == a.Name })
	for _, rs := range sets {
		v.unless(stays(rs), "%s is still going", rs.Name)
		v.unless(w.hasAllPods(rs), "%s asks for %d, has %d pods, and its status says %d", rs.Name, size(rs.Spec.Replicas), count(w.podsOf(rs), isActive), rs.Status.Replicas)
	}
	a.lookAtPods(w, sets, v)
	if a.kind() == "deployments" {
		a.lookAtSets(w, sets, v)
		a.lookAtDeployment(w, v)
	} else {
		a.lookAtSet(w, v)
	}
	return v.says
}

// lookAtPods looks at whose pods are.
func (a *App) lookAtPods(w *World, sets []*appsv1.ReplicaSet, v *verdict) {
	in, out := 0, 0
	for _, pod := range sorted(w.Pods, func(pod *corev1.Pod) bool { return strings.TrimSuffix(pod.Labels[appLabel], outSuffix) == a.Name }) {
		isOut := pod.Labels[appLabel] != a.Name
		v.unless(stays(pod), "pod %s is still going", pod.Name)
		switch owned := metav1.GetControllerOf(pod) != nil; {
		case owned:
			v.unless(w.setOf(pod) != nil, "the owner of pod %s is gone", pod.Name)
			v.unless(!isOut, "pod %s has an owner that does not select it", pod.Name)
		case isOut:
			out++
		default:
			in++
			for _, rs := range sets {
				selects := labels.SelectorFromSet(rs.Spec.Selector.MatchLabels).Matches(labels.Set(pod.Labels))
				v.unless(!selects, "pod %s is of nobody, and %s selects it", pod.Name, rs.Name)
			}
		}
	}
	v.unless(out <= a.PodsTaken, "%d pods are out, and users have taken %d", out, a.PodsTaken)
	switch {
	case a.kind() == "deployments" || !a.There && !a.Orphaned:
		v.unless(in <= a.PodsTaken+a.PodsAdded, "%d pods are of nobody, and users have touched %d", in, a.PodsTaken+a.PodsAdded)
	case a.Kept != nil:
		v.unless(in == int(*a.Kept), "%d pods are left, and %d were orphaned", in, *a.Kept)
	}
}

// lookAtSets looks at whose ReplicaSets are.
func (a *App) lookAtSets(w *World, sets []*appsv1.ReplicaSet, v *verdict) {
	in, out, kept := 0, 0, int32(0)
	for _, rs := range sets {
		isOut := rs.Labels[appLabel] != a.Name
		switch owned := metav1.GetControllerOf(rs) != nil; {
		case owned:
			v.unless(w.deploymentOf(rs) != nil, "the owner of %s is gone", rs.Name)
			v.unless(!isOut, "%s has an owner that does not select it", rs.Name)
		case isOut:
			out++
		default:
			in++
			kept += size(rs.Spec.Replicas)
			v.unless(!a.There, "%s is of nobody, and the Deployment selects it", rs.Name)
			v.unless(a.Kept == nil || size(rs.Spec.Replicas) == 0 || imageOf(rs.Spec.Template.Spec) == a.Image, "%s was orphaned with %s", rs.Name, a.Image)
		}
	}
	v.unless(out <= a.SetsTaken, "%d ReplicaSets are out, and users have taken %d", out, a.SetsTaken)
	v.unless(a.There || a.Orphaned || in <= a.SetsTaken, "%d ReplicaSets are left behind", in)
	if a.Kept != nil {
		v.unless(kept == *a.Kept, "ReplicaSets for %d pods are left, and for %d were orphaned", kept, *a.Kept)
	}
}

// lookAtSet looks at a ReplicaSet or ReplicationController that is no
// Deployment's.
func (a *App) lookAtSet(w *World, v *verdict) {
	rs := w.set(a.Name)
	v.unless((rs != nil) == a.There, "it is there: %t", rs != nil)
	if rs == nil || !a.There {
		return
	}
	n, s := a.Replicas, rs.Status
	available := count(w.podsOf(rs), isAvailable)
	v.unless(size(rs.Spec.Replicas) == n, "it asks for %d, and not for %d", size(rs.Spec.Replicas), n)
	v.unless(available == n && s.ReadyReplicas == n && s.AvailableReplicas == n, "%d pods are available; its status says %d ready, %d available; it is asked for %d", available, s.ReadyReplicas, s.AvailableReplicas, n)
	v.unless(len(s.Conditions) == 0, "it has the condition %v", s.Conditions)
}

// historyLimit is how many old ReplicaSets a Deployment keeps.
const historyLimit = 2

func (a *App) lookAtDeployment(w *World, v *verdict) {
	d := w.deployment(a.Name)
	v.unless((d != nil) == a.There, "it is there: %t", d != nil)
	if d == nil || !a.There {
		return
	}
	v.unless(stays(d), "it is being deleted")
	v.unless(size(d.Spec.Replicas) == a.Replicas && imageOf(d.Spec.Template.Spec) == a.Image && d.Spec.Paused == a.Paused,
		"it asks for %d of %s, paused %t", size(d.Spec.Replicas), imageOf(d.Spec.Template.Spec), d.Spec.Paused)
	v.unless(d.Status.ObservedGeneration == d.Generation, "generation %d is not observed", d.Generation)
	sets := w.setsOf(d)
	sum, updated, current := int32(0), int32(0), 0
	for _, rs := range sets {
		sum += size(rs.Spec.Replicas)
		if equality.Semantic.DeepEqual(*template(rs), d.Spec.Template) {
			current++
			updated += size(rs.Spec.Replicas)
		}
	}
	v.unless(d.Status.Replicas == sum && d.Status.UpdatedReplicas == updated, "its status says %d pods, %d updated; its ReplicaSets say %d, %d", d.Status.Replicas, d.Status.UpdatedReplicas, sum, updated)
	failing := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentReplicaFailure })
	v.unless(!failing || a.Paused, "it has a ReplicaFailure") // a pause keeps the condition, as in the original
	v.unless(current == 1 || current == 0 && a.Paused || current > 1 && a.SetsTaken > 0, "%d ReplicaSets have its template", current)
	switch {
	case a.Paused:
		v.unless(reasonOf(d) == "DeploymentPaused", "it is paused, and Progressing says %s", reasonOf(d))
	case a.Image == neverReady && a.Replicas > 0:
		a.lookAtStuck(d, sum-updated, updated, v)
	default:
		v.unless(w.isRolledOut(d) && updated == a.Replicas, "it has %d pods, %d updated, %d available, of %d", d.Status.Replicas, updated, d.Status.AvailableReplicas, a.Replicas)
		v.unless(reasonOf(d) == "NewReplicaSetAvailable", "it is rolled out, and Progressing says %s", reasonOf(d))
		v.unless(len(sets) <= historyLimit+current, "it has %d ReplicaSets", len(sets))
	}
}

// lookAtStuck looks at a rollout that cannot go on. How far it has come depends on
// what was there before, but it has gone as far as it may. What Progressing says
// does, too: with Recreate it may say of a version before that it is available.
func (a *App) lookAtStuck(d *appsv1.Deployment, old, updated int32, v *verdict) {
	most, least := bounds(d)
	v.unless(old <= least, "%d old pods are left; %d are the least", old, least)
	v.unless(updated >= min(a.Replicas, most-old) && updated <= a.Replicas, "%d new pods beside %d old ones; all may be %d", updated, old, most)
}

// reasonOf is that of the condition Progressing.
func reasonOf(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Reason
		}
	}
	return "nothing"
}
