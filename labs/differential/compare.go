package differential

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
	// slight says that these are times of conditions that are close to each other: that is no mistake.
	slight bool
}

func (d difference) String() string {
	return fmt.Sprintf("%s: kcm %s, the original %s", d.of, cmp.Or(d.kcm, "nothing"), cmp.Or(d.original, "nothing"))
}

// look returns what is to be seen of a world, without what differs between any two runs: UIDs, versions, how often a spec
// was changed, and the names of pods. Those are numbers in the order of how they look.
func (w *world) look() settled {
	s := settled{deployments: w.deployments.List(), replicaSets: w.replicaSets.List(), pods: w.pods.List(), restless: w.restless}
	s.writes, s.events = w.doings()
	s.events = told(s.events, w.ever)
	sortByLooks(s.pods)
	here := map[types.UID]bool{}
	for _, d := range s.deployments {
		here[d.UID] = true
		d.Status.ObservedGeneration, d.Generation = d.Generation-d.Status.ObservedGeneration, 0
		slices.SortFunc(d.Status.Conditions, func(a, b appsv1.DeploymentCondition) int { return cmp.Compare(a.Type, b.Type) })
		for i := range d.Status.Conditions {
			sumUp(&d.Status.Conditions[i])
		}
		normalise(d, here)
	}
	for _, rs := range s.replicaSets {
		here[rs.UID] = true
		rs.Status.ObservedGeneration, rs.Generation = rs.Generation-rs.Status.ObservedGeneration, 0
		normalise(rs, here)
	}
	number := map[string]int{}
	for _, pod := range s.pods {
		number[pod.GenerateName]++
		pod.Name = fmt.Sprint(pod.GenerateName, number[pod.GenerateName])
		normalise(pod, here)
	}
	return s
}

// goesOn are reasons of the Progressing condition. Which of them it has while a rollout goes on depends on what its loop
// has seen on the way, and with that on the other loop.
var goesOn = []string{"NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated", "DeploymentResumed"}

// sumUp leaves of a condition that says that a rollout goes on just that, and since when.
func sumUp(c *appsv1.DeploymentCondition) {
	if slices.Contains(goesOn, c.Reason) {
		c.Status, c.Reason, c.Message = "", "goes on", ""
	}
}

// sortByLooks sorts pods by what is to be seen of them, and those that look alike by their times.
func sortByLooks(pods []*corev1.Pod) {
	looks := map[*corev1.Pod]string{}
	for _, pod := range pods {
		timeless := pod.DeepCopy()
		timeless.Name, timeless.UID, timeless.ResourceVersion, timeless.CreationTimestamp = "", "", "", metav1.Time{}
		for i := range timeless.OwnerReferences {
			timeless.OwnerReferences[i].UID = ""
		}
		for i := range timeless.Status.Conditions {
			timeless.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		if timeless.DeletionTimestamp != nil {
			timeless.DeletionTimestamp = &metav1.Time{}
		}
		looks[pod] = pod.GenerateName + string(done(timeless.Marshal()))
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(looks[a], looks[b]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), readySince(a).Compare(readySince(b)))
	})
}

// readySince returns since when a pod is ready or not, or the zero time.
func readySince(pod *corev1.Pod) time.Time {
	if len(pod.Status.Conditions) == 0 {
		return time.Time{}
	}
	return pod.Status.Conditions[0].LastTransitionTime.Time
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
		found = append(found, difference{of: "rest", kcm: fmt.Sprint(!kcm.restless), original: fmt.Sprint(!original.restless)})
	}
	found = append(found, compareObjects("Deployment", kcm.deployments, original.deployments)...)
	found = append(found, compareObjects("ReplicaSet", kcm.replicaSets, original.replicaSets)...)
	found = append(found, compareObjects("Pod", kcm.pods, original.pods)...)
	found = append(found, compareWrites(kcm.writes, original.writes)...)
	return append(found, compareCounts("event", kcm.events, original.events)...)
}

// writesMore is how many updates of a kind kcm may make more than the original between two settled states. A round of the
// original may be several of kcm's, and each of them may write a status. The original's count also when they were refused
// because they were made of something old.
const writesMore = 2

// compareWrites finds kinds of which kcm has made more.
func compareWrites(kcm, original map[string]int) []difference {
	var found []difference
	for _, kind := range slices.Sorted(maps.Keys(kcm)) {
		bound := original[kind]
		if strings.HasPrefix(kind, "update ") {
			bound += writesMore
		}
		if kcm[kind] > bound {
			found = append(found, difference{of: "writes: " + kind, kcm: fmt.Sprint(kcm[kind]), original: fmt.Sprint(original[kind])})
		}
	}
	return found
}

var scaling = regexp.MustCompile(`Scaled \w+ replica set (\S+) from (\d+) to (\d+)`)

// told sums up what events tell, so that other steps to the same end are the same: by how much each ReplicaSet was scaled
// in the end, how many pods it has created more than deleted, and what else was ever told.
func told(events, ever map[string]int) map[string]int {
	sum := map[string]int{}
	for event, n := range events {
		object, _, _ := strings.Cut(event, ": ")
		words := scaling.FindStringSubmatch(event)
		switch {
		case words != nil:
			from, _ := strconv.Atoi(words[2])
			to, _ := strconv.Atoi(words[3])
			sum[words[1]+" scaled by"] += n * (to - from)
		case strings.Contains(event, " SuccessfulCreate: "):
			sum[object+" pods created"] += n
		case strings.Contains(event, " SuccessfulDelete: "):
			sum[object+" pods created"] -= n
		case strings.Contains(event, " FailedCreate: ") && strings.Contains(event, exceeded):
			// Whether a ReplicaSet asks for pods before it is made smaller depends on which loop comes first.
		default:
			ever[event] = 1
		}
	}
	maps.Copy(sum, ever)
	maps.DeleteFunc(sum, func(_ string, n int) bool { return n == 0 })
	return sum
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
		if ours[of] != theirs[of] {
			slight := strings.Contains(of, ".status.conditions") && kind != "Pod" && soonAfter(ours[of], theirs[of])
			found = append(found, difference{of, ours[of], theirs[of], slight})
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
			found = append(found, difference{of: of + ": " + what, kcm: fmt.Sprint(kcm[what]), original: fmt.Sprint(original[what])})
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
