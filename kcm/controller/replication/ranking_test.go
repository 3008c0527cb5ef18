package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// runningPod returns a pod that every rule would rather keep, changed by edit.
func runningPod(name string, edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(testNow.Add(-1000 * time.Hour)),
		},
		Spec: corev1.PodSpec{
			NodeName: "node",
			InitContainers: []corev1.Container{
				{Name: "init"},
				{Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	setReady(pod, 1000*time.Hour)
	edit(pod)
	return pod
}

func setReady(pod *corev1.Pod, ago time.Duration) {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testNow.Add(-ago)),
	}}
}

// Each rule is tried against all that follow: the pod that it would delete has
// the better of them in everything that counts less.
func TestRanking(t *testing.T) {
	t.Parallel()
	cost := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: value} }
	}
	readyFor := func(d time.Duration) func(*corev1.Pod) { return func(p *corev1.Pod) { setReady(p, d) } }
	aged := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(testNow.Add(-d)) }
	}
	restarted := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 0}, {RestartCount: n}}
		}
	}
	initRestarted := func(name string, n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: name, RestartCount: n}}
		}
	}
	all := func(edits ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, edit := range edits {
				edit(p)
			}
		}
	}
	none := func(*corev1.Pod) {}
	notReady := func(p *corev1.Pod) { p.Status.Conditions = nil }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	unassigned := func(p *corev1.Pod) { p.Spec.NodeName = "" }

	tests := map[string]struct{ first, then func(*corev1.Pod) }{
		"a pod without a node goes before one that has a node":                                {all(unassigned, cost("9")), all(phase(corev1.PodPending), notReady)},
		"a pending pod goes before one in an unknown phase":                                   {all(phase(corev1.PodPending), cost("9")), all(phase(corev1.PodUnknown), notReady)},
		"a pod in an unknown phase goes before a running one":                                 {all(phase(corev1.PodUnknown), cost("9")), notReady},
		"a pod that is not ready goes before a ready one, whatever it costs":                  {all(notReady, cost("9")), cost("-9")},
		"a cheap pod goes before one without a price, however new that is":                    {all(cost("-1"), aged(9000*time.Hour)), all(readyFor(time.Second), restarted(9))},
		"a pod with a negative price goes before one without":                                 {cost("-1"), none},
		"a pod without a price goes before a dear one":                                        {none, all(cost("1"), restarted(9))},
		"a price with leading zeros is none":                                                  {cost("-1"), cost("-0")},
		"a price with a plus sign is none":                                                    {cost("+7"), cost("1")},
		"a price that is too large is none":                                                   {cost("2147483648"), cost("1")},
		"a price that is no number is none":                                                   {cost("cheap"), cost("1")},
		"a pod that has been ready for a minute goes before one that has for an hour":         {readyFor(time.Minute), all(readyFor(time.Hour), restarted(9))},
		"a pod that is ready since nobody knows when goes before all that are":                {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, readyFor(-time.Second)},
		"a pod that is ready since nobody knows when goes before one that is ready since now": {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, readyFor(0)},
		"a pod that became ready in the future goes before one that did in the past":          {readyFor(-time.Second), all(readyFor(time.Nanosecond), restarted(9))},
		"of pods ready for as long the one that has restarted more often goes":                {all(restarted(2), aged(9000*time.Hour)), all(restarted(1), initRestarted("sidecar", 9), aged(time.Second))},
		"of pods restarted as often the one whose sidecars did more often goes":               {all(initRestarted("sidecar", 2)), all(initRestarted("sidecar", 1), aged(time.Second))},
		"restarts of an init container do not count":                                          {aged(time.Minute), all(aged(time.Hour), initRestarted("init", 9))},
		"a pod of a minute goes before one of an hour":                                        {aged(time.Minute), aged(time.Hour)},
		"a pod of unknown age goes before a new one":                                          {func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{} }, aged(time.Second)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The UIDs would have it the other way round.
			first, then := runningPod("z", tt.first), runningPod("a", tt.then)
			seen := observed{honoursCost: true, active: []*corev1.Pod{then, first}, now: testNow}
			assert.Equal(t, "pod z goes", "pod "+names(leastMissed(seen, 1))+" goes", "%s", apart(nil, first, then))
		})
	}
}

func TestRankingByTime(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*corev1.Pod, time.Duration){
		"ready for 60 and for 65 seconds is as good as the same, and the UID decides": setReady,
		"60 and 65 seconds old is as good as the same, and the UID decides": func(p *corev1.Pod, d time.Duration) {
			p.CreationTimestamp = metav1.NewTime(testNow.Add(-d))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			younger := runningPod("b", func(p *corev1.Pod) { edit(p, 60*time.Second) })
			older := runningPod("a", func(p *corev1.Pod) { edit(p, 65*time.Second) })
			seen := observed{honoursCost: true, active: []*corev1.Pod{younger, older}, now: testNow}
			assert.Equal(t, "pod a goes", "pod "+names(leastMissed(seen, 1))+" goes", "%s", apart(nil, older, younger))
		})
	}
}

func TestRankingByNeighbours(t *testing.T) {
	t.Parallel()
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	tests := map[string]struct {
		edit        func(lonely *corev1.Pod)
		ignoresCost bool
		want        string
	}{
		"of pods alike the one with most neighbours of its family goes": {
			edit: func(*corev1.Pod) {}, want: "the one on the crowded node goes",
		},
		"neighbours count before the time that a pod has been ready": {
			edit: func(p *corev1.Pod) { setReady(p, time.Second) }, want: "the one on the crowded node goes",
		},
		"deletion cost counts before neighbours": {
			edit: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-1"} }, want: "the one on the lonely node goes",
		},
		"deletion cost counts for nothing when its feature gate is off": {
			edit:        func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-1"} },
			ignoresCost: true, want: "the one on the crowded node goes",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lonely, crowded := runningPod("a", on("lonely")), runningPod("z", on("crowded"))
			finished := runningPod("finished", func(p *corev1.Pod) { p.Spec.NodeName = "lonely"; p.Status.Phase = corev1.PodSucceeded })
			tt.edit(lonely)
			seen := observed{
				honoursCost: !tt.ignoresCost,
				active:      []*corev1.Pod{lonely, crowded},
				related: []*corev1.Pod{
					lonely, crowded, runningPod("sibling", on("crowded")),
					finished, finished, finished, // count for nothing
				},
				now: testNow,
			}
			assert.Equal(t, tt.want, "the one on the "+leastMissed(seen, 1)[0].Spec.NodeName+" node goes",
				"%s\nthree pods that have ended are on the lonely node, too; the feature gate of deletion cost is on: %t",
				apart(seen.related[:3], lonely, crowded), seen.honoursCost)
		})
	}
}

// drawPod draws from few values, so that most pods are alike in most things.
func drawPod(t *rapid.T, name string) *corev1.Pod {
	times := rapid.SampledFrom(slices.Sorted(maps.Keys(agesInOrder)))
	restarts := rapid.Int32Range(0, 1)
	return runningPod(name, func(p *corev1.Pod) {
		p.Spec.NodeName = rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node")
		p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}).Draw(t, "phase")
		p.Annotations = map[string]string{corev1.PodDeletionCost: rapid.SampledFrom([]string{"", "-1", "0", "nonsense", "1"}).Draw(t, "cost")}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: restarts.Draw(t, "restarts")}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", RestartCount: restarts.Draw(t, "sidecar restarts")}}
		p.CreationTimestamp = metav1.NewTime(testNow.Add(-times.Draw(t, "age")))
		setReady(p, times.Draw(t, "ready"))
		switch rapid.IntRange(0, 3).Draw(t, "odd") {
		case 0:
			p.Status.Conditions = nil
		case 1:
			p.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		case 2:
			p.CreationTimestamp = metav1.Time{}
		}
	})
}

func drawPods(t *rapid.T, least, most int) (pods []*corev1.Pod) {
	for i := range rapid.IntRange(least, most).Draw(t, "pods") {
		pods = append(pods, drawPod(t, fmt.Sprintf("%03d", i)))
	}
	return pods
}

// criterion is one of the documented criteria. Of two pods the one with the
// smaller number goes first.
type criterion struct {
	name   string
	number func(*corev1.Pod) float64
}

// documented are the criteria in the order in which the documentation of
// ReplicaSet's scaling down and KEP-2185 give them, written down once more from
// what a user can see of a pod.
func documented(related []*corev1.Pod) []criterion {
	return []criterion{
		{"on a node", func(p *corev1.Pod) float64 { return number(p.Spec.NodeName != "") }},
		{"unknown or running", func(p *corev1.Pod) float64 { return number(p.Status.Phase != corev1.PodPending) }},
		{"running", func(p *corev1.Pod) float64 { return number(p.Status.Phase == corev1.PodRunning) }},
		{"ready", func(p *corev1.Pod) float64 { return number(len(p.Status.Conditions) > 0) }},
		{"deletion cost", func(p *corev1.Pod) float64 {
			return map[string]float64{"-1": -1, "1": 1}[p.Annotations[corev1.PodDeletionCost]]
		}},
		{"pods on its node (fewer stay)", func(p *corev1.Pod) (neighbours float64) {
			for _, other := range related {
				neighbours -= number(other.Spec.NodeName == p.Spec.NodeName)
			}
			return neighbours
		}},
		{"ready for, in powers of two", func(p *corev1.Pod) float64 {
			if len(p.Status.Conditions) == 0 {
				return 0
			}
			return ageInOrder(p.Status.Conditions[0].LastTransitionTime.Time)
		}},
		{"restarts (fewer stay)", func(p *corev1.Pod) float64 { return 0 - float64(p.Status.ContainerStatuses[0].RestartCount) }},
		{"restarts of a sidecar (fewer stay)", func(p *corev1.Pod) float64 { return 0 - float64(p.Status.InitContainerStatuses[0].RestartCount) }},
		{"age, in powers of two", func(p *corev1.Pod) float64 { return ageInOrder(p.CreationTimestamp.Time) }},
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// agesInOrder are the ages that pods are drawn with. The smaller number is newer; 60 and 65 seconds are as good as the
// same, and so is all that lies in the future.
var agesInOrder = map[time.Duration]float64{
	-time.Second: 1, 0: 1, time.Nanosecond: 2, time.Second: 3, 60 * time.Second: 4, 65 * time.Second: 4, time.Hour: 5,
}

// ageInOrder is zero for what is unknown: it counts as newer than all else.
func ageInOrder(t time.Time) float64 { return agesInOrder[testNow.Sub(t)] }

func TestRankingAsDocumented(t *testing.T) {
	t.Parallel()
	t.Run("of any two pods the first criterion that tells them apart says which goes, and else the UID", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			pods := drawPods(t, 2, 6)
			chosen := leastMissed(observed{honoursCost: true, active: pods, related: pods, now: testNow}, len(pods))
			for i := range chosen[1:] {
				checkOrder(t, chosen[i], chosen[i+1], pods)
			}
		})
	})
}

// checkOrder wants first to go before then.
func checkOrder(t *rapid.T, first, then *corev1.Pod, related []*corev1.Pod) {
	by, less := "UID", first.UID < then.UID
	for _, c := range documented(related) {
		if a, b := c.number(first), c.number(then); a != b {
			by, less = c.name, a < b
			break
		}
	}
	if !less {
		t.Logf("pod %s goes before pod %s, and by the criterion %q it is the other way round:\n\n%s",
			first.Name, then.Name, by, apart(related, first, then))
		t.Fatal("pods do not go in the documented order")
	}
}

// apart shows what tells pods apart, as a user sees it.
func apart(related []*corev1.Pod, pods ...*corev1.Pod) string {
	ago := func(t metav1.Time) string {
		if t.IsZero() {
			return "unknown"
		}
		return testNow.Sub(t.Time).String()
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(title string, of func(*corev1.Pod) string) {
		line, same := title, true
		for _, pod := range pods {
			line += "\t" + of(pod)
			same = same && of(pod) == of(pods[0])
		}
		if !same {
			fmt.Fprintln(table, line)
		}
	}
	row("what differs", func(p *corev1.Pod) string { return "pod " + p.Name })
	row("node", func(p *corev1.Pod) string { return cmp.Or(p.Spec.NodeName, "none") })
	row("phase", func(p *corev1.Pod) string { return string(p.Status.Phase) })
	row("ready for", func(p *corev1.Pod) string {
		if len(p.Status.Conditions) == 0 {
			return "not ready"
		}
		return ago(p.Status.Conditions[0].LastTransitionTime)
	})
	row("deletion cost", func(p *corev1.Pod) string { return cmp.Or(p.Annotations[corev1.PodDeletionCost], "none") })
	row("pods on its node", func(p *corev1.Pod) string {
		return fmt.Sprint(len(slices.DeleteFunc(slices.Clone(related), func(other *corev1.Pod) bool {
			return other.Spec.NodeName != p.Spec.NodeName
		})))
	})
	restarts := func(statuses []corev1.ContainerStatus) (text string) {
		for _, status := range statuses {
			text += fmt.Sprintf("%s %d ", status.Name, status.RestartCount)
		}
		return cmp.Or(strings.TrimSpace(text), "0")
	}
	row("restarts of containers", func(p *corev1.Pod) string { return restarts(p.Status.ContainerStatuses) })
	row("of init containers", func(p *corev1.Pod) string { return restarts(p.Status.InitContainerStatuses) })
	row("age", func(p *corev1.Pod) string { return ago(p.CreationTimestamp) })
	row("UID", func(p *corev1.Pod) string { return string(p.UID) })
	table.Flush()
	return text.String()
}

func indices(pods []*corev1.Pod) (indices []int) {
	for i := range pods {
		indices = append(indices, i)
	}
	return indices
}

func TestRankingIsATotalOrder(t *testing.T) {
	t.Parallel()
	t.Run("what goes before another never comes after it, whatever the third", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var ranks []rank
			for i := range 3 {
				pod := drawPod(t, fmt.Sprint(i))
				r := rankOf(pod, rapid.IntRange(0, 1).Draw(t, "neighbours"), testNow)
				r.deletionCost = deletionCost(pod)
				ranks = append(ranks, r)
			}
			a, b, c := ranks[0], ranks[1], ranks[2]
			all := apart(nil, a.pod, b.pod, c.pod)
			assert.Zero(t, a.compare(a), "pod 0 and itself")
			assert.NotZero(t, a.compare(b), "pods 0 and 1, for two pods are never alike\n%s", all)
			assert.Equal(t, a.compare(b), -b.compare(a), "pods 0 and 1, and the other way round\n%s", all)
			if a.compare(b) < 0 && b.compare(c) < 0 {
				assert.Negative(t, a.compare(c), "0 goes before 1, and 1 before 2, but 0 not before 2\n%s", all)
			}
			if a.compare(b) > 0 && b.compare(c) > 0 {
				assert.Positive(t, a.compare(c), "2 goes before 1, and 1 before 0, but 2 not before 0\n%s", all)
			}
		})
	})
	t.Run("the choice does not depend on the order in which pods are listed", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			pods := drawPods(t, 1, 12)
			var shuffled []*corev1.Pod
			for _, i := range rapid.Permutation(indices(pods)).Draw(t, "order") {
				shuffled = append(shuffled, pods[i])
			}
			before := slices.Clone(shuffled)
			n := rapid.IntRange(0, len(pods)).Draw(t, "n")
			chosen := leastMissed(observed{honoursCost: true, active: shuffled, related: pods, now: testNow}, n)
			again := leastMissed(observed{honoursCost: true, active: pods, related: pods, now: testNow}, n)
			assert.Equal(t, names(again), names(chosen), "%d of the same %d pods, listed otherwise", n, len(pods))
			assert.True(t, slices.Equal(before, shuffled), "what was observed is not changed: the list is in another order")
			assert.Equal(t, n, len(chosen), "how many pods are chosen of %d", len(pods))
		})
	})
}

func TestTheAgesOfChosenPodsAreComparedWithTheYoungest(t *testing.T) {
	t.Parallel()
	pod := func(age time.Duration, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(testNow.Add(-age))},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	young, old := pod(2*time.Minute, corev1.ConditionTrue), pod(3*time.Minute, corev1.ConditionTrue)
	starting := pod(time.Minute, corev1.ConditionFalse)
	seen := observed{active: []*corev1.Pod{young, old, starting}, now: testNow}
	assert.Equal(t, []float64{1.5, 1}, ageRatios(seen, []*corev1.Pod{old, young}))
	assert.Empty(t, ageRatios(seen, []*corev1.Pod{starting}), "it is not ready")
	assert.Empty(t, ageRatios(seen, seen.active), "there was no choice")
	justNow := pod(0, corev1.ConditionTrue)
	assert.Empty(t, ageRatios(observed{active: []*corev1.Pod{justNow, old}, now: testNow}, []*corev1.Pod{old}))
}
