package differential

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settled is what is to be seen of a manager that has come to rest.
type settled struct {
	deployments []*appsv1.Deployment
	replicaSets []*appsv1.ReplicaSet
	pods        []*corev1.Pod
	writes      map[string]int
	events      map[string]int
	restless    bool
}

// difference is one thing that is not the same on both sides.
type difference struct {
	// of is what differs, such as "ReplicaSet web-abc .spec.replicas", "writes: update replicasets" or "event: …".
	of string
	// kcm and original are what the two have there, nothing if they do not have it.
	kcm, original string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: kcm %s, the original %s", d.of, cmp.Or(d.kcm, "nothing"), cmp.Or(d.original, "nothing"))
}

// look returns what is to be seen of a world, without what differs between any two runs: UIDs, versions and how often a
// spec was changed. Pods have names that count them, so that those of both sides are called the same.
func (w *world) look() settled {
	s := settled{deployments: w.deployments.List(), replicaSets: w.replicaSets.List(), pods: w.pods.List(), restless: w.restless}
	s.writes, s.events = w.doings()
	here := map[types.UID]bool{}
	for _, d := range s.deployments {
		here[d.UID] = true
		d.Status.ObservedGeneration, d.Generation = d.Generation-d.Status.ObservedGeneration, 0
		slices.SortFunc(d.Status.Conditions, func(a, b appsv1.DeploymentCondition) int { return cmp.Compare(a.Type, b.Type) })
		normalise(d, here)
	}
	for _, rs := range s.replicaSets {
		here[rs.UID] = true
		rs.Status.ObservedGeneration, rs.Generation = rs.Generation-rs.Status.ObservedGeneration, 0
		normalise(rs, here)
	}
	for _, pod := range s.pods {
		normalise(pod, here)
	}
	return s
}

func normalise(obj metav1.Object, here map[types.UID]bool) {
	obj.SetUID("")
	obj.SetResourceVersion("")
	refs := obj.GetOwnerReferences()
	for i := range refs {
		if here[refs[i].UID] {
			refs[i].UID = "here"
		} else {
			refs[i].UID = "gone"
		}
	}
}

// compare returns all that differs.
func compare(kcm, original settled) []difference {
	var found []difference
	if kcm.restless != original.restless {
		found = append(found, difference{"rest", fmt.Sprint(!kcm.restless), fmt.Sprint(!original.restless)})
	}
	found = append(found, compareObjects("Deployment", kcm.deployments, original.deployments)...)
	found = append(found, compareObjects("ReplicaSet", kcm.replicaSets, original.replicaSets)...)
	found = append(found, compareObjects("Pod", kcm.pods, original.pods)...)
	found = append(found, compareCounts("writes", kcm.writes, original.writes)...)
	return append(found, compareCounts("event", kcm.events, original.events)...)
}

func compareObjects[T metav1.Object](kind string, kcm, original []T) []difference {
	if equality.Semantic.DeepEqual(kcm, original) {
		return nil
	}
	var found []difference
	there := func(objects []T) map[string]int {
		names := map[string]int{}
		for _, obj := range objects {
			names[obj.GetName()] = 1
		}
		return names
	}
	found = append(found, compareCounts(kind, there(kcm), there(original))...)
	if len(found) > 0 {
		return found
	}
	ours, theirs := fields(kind, kcm), fields(kind, original)
	for _, of := range slices.Sorted(maps.Keys(union(ours, theirs))) {
		if ours[of] != theirs[of] && !soonAfter(ours[of], theirs[of]) {
			found = append(found, difference{of, ours[of], theirs[of]})
		}
	}
	return found
}

// soonAfter tells whether two times are close to each other.
func soonAfter(kcm, original string) bool {
	a, err := time.Parse(time.RFC3339, kcm)
	b, err2 := time.Parse(time.RFC3339, original)
	return err == nil && err2 == nil && a.Sub(b).Abs() <= 2*patience
}

// fields returns all fields of objects by their paths.
func fields[T metav1.Object](kind string, objects []T) map[string]string {
	all := map[string]string{}
	for _, obj := range objects {
		var tree any
		if err := json.Unmarshal(done(json.Marshal(obj)), &tree); err != nil {
			panic(err)
		}
		flatten(all, kind+" "+obj.GetName()+" ", tree)
	}
	return all
}

func flatten(into map[string]string, path string, tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			flatten(into, path+"."+key, value)
		}
	case []any:
		for i, value := range tree {
			name := fmt.Sprint(i)
			if object, ok := value.(map[string]any); ok && object["type"] != nil {
				name = fmt.Sprint(object["type"]) // a condition
			}
			flatten(into, path+"["+name+"]", value)
		}
	default:
		into[path] = fmt.Sprint(tree)
	}
}

func compareCounts(of string, kcm, original map[string]int) []difference {
	var found []difference
	for _, what := range slices.Sorted(maps.Keys(union(kcm, original))) {
		if kcm[what] != original[what] {
			found = append(found, difference{of + ": " + what, fmt.Sprint(kcm[what]), fmt.Sprint(original[what])})
		}
	}
	return found
}

func union[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// brief tells in a few words how things are: of each ReplicaSet its image, size and pods.
func (w *world) brief() string {
	var parts []string
	if d := w.web(); d != nil {
		parts = append(parts, fmt.Sprintf("%d of %s", *d.Spec.Replicas, strings.TrimPrefix(d.Spec.Template.Spec.Containers[0].Image, "web:")))
	}
	for _, rs := range w.replicaSets.List() {
		name := strings.TrimPrefix(rs.Spec.Template.Spec.Containers[0].Image, "web:")
		var pods, ready int
		for _, pod := range w.pods.List() {
			if metav1.IsControlledBy(pod, rs) && lives(pod) {
				pods++
				if len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		parts = append(parts, fmt.Sprintf("%s=%d(%d/%d)", name, *rs.Spec.Replicas, ready, pods))
	}
	return cmp.Or(strings.Join(parts, " "), "-")
}
