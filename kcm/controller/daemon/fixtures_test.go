package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var testNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// testSet returns a DaemonSet whose pods are available when they have been
// ready for ten seconds.
func testSet(edit ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent", UID: "agent-1", Generation: 1},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent:1"}}},
			},
			MinReadySeconds:      10,
			UpdateStrategy:       rollingBy(0, 1),
			RevisionHistoryLimit: new(int32(10)),
		},
	}
	for _, edit := range edit {
		edit(set)
	}
	return set
}

func rollingBy(surge, unavailable int) appsv1.DaemonSetUpdateStrategy {
	return appsv1.DaemonSetUpdateStrategy{
		Type: appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{
			MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromInt(unavailable)),
		},
	}
}

// What a test says of a node: the words that do not say how its pods are.
const (
	tainted = "tainted"  // a pod may stay, and none is to come
	barred  = "barred"   // no pod may be there
	pausing = "in pause" // after a failure
)

// testPlace reads a line such as "a: old available, new starting": a node with
// its pods in the order of their age. The first word of a pod says whether it is
// of the current revision, the second how it is: available, ready (for too short
// a time), starting, failed, succeeded, or going.
func testPlace(line string) place {
	name, rest, _ := strings.Cut(line, ":")
	p := place{node: name, verdict: verdict{run: true, stay: true}}
	for i, words := range strings.Split(rest, ",") {
		switch words = strings.TrimSpace(words); words {
		case "":
		case tainted:
			p.verdict = verdict{stay: true}
		case barred:
			p.verdict = verdict{}
		case pausing:
			p.pause = time.Minute
		default:
			version, state, _ := strings.Cut(words, " ")
			p.pods = append(p.pods, testPod(name, version, state, i))
		}
	}
	return p
}

// testPod returns a pod of a node, such as a-old, that is i minutes younger than
// the first.
func testPod(node, version, state string, i int) *corev1.Pod {
	created := metav1.NewTime(testNow.Add(time.Duration(i)*time.Minute - time.Hour))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: node + "-" + version, UID: types.UID(fmt.Sprint(node, "-", version, "-", i)),
			Labels: map[string]string{"app": "agent", hashLabel: version}, CreationTimestamp: created,
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	readyFor := func(d time.Duration) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testNow.Add(-d)),
		}}
	}
	switch state {
	case "available":
		readyFor(time.Minute)
	case "ready":
		readyFor(time.Second)
	case "starting":
	case "failed":
		pod.Status.Phase = corev1.PodFailed
	case "succeeded":
		pod.Status.Phase = corev1.PodSucceeded
	case "going":
		readyFor(time.Minute)
		pod.DeletionTimestamp = &metav1.Time{Time: testNow}
	default:
		panic("no such state: " + state)
	}
	return pod
}

// seenOn returns what a sync of the set sees when its nodes are as the lines say.
func seenOn(set *appsv1.DaemonSet, lines ...string) observed {
	seen := observed{set: set, mayAct: true, now: testNow, history: history{current: testRevision("new", 1)}}
	for _, line := range lines {
		seen.places = append(seen.places, testPlace(line))
	}
	return seen
}

func testRevision(hash string, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-" + hash, Labels: map[string]string{hashLabel: hash}},
		Revision:   number,
	}
}

// String says what a plan does, for example "create a b; delete c-old".
func (p plan) String() string {
	var parts []string
	if len(p.create) > 0 {
		parts = append(parts, "create "+strings.Join(slices.Sorted(slices.Values(p.create)), " "))
	}
	if len(p.delete) > 0 {
		parts = append(parts, "delete "+names(p.delete))
	}
	return cmp.Or(strings.Join(parts, "; "), "nothing")
}

func names(pods []*corev1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, " "), "nothing")
}
