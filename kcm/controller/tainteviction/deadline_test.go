package tainteviction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	notReady    = corev1.TaintNodeNotReady
	unreachable = corev1.TaintNodeUnreachable
)

// told is the first of some deadlines as a test says it: how many seconds after midnight.
func told(due ...deadline) string {
	if len(due) == 0 {
		return "it stays"
	}
	first := slices.MinFunc(due, func(a, b deadline) int { return a.at.Compare(b.at) })
	return fmt.Sprintf("%v", first.at.Sub(midnight))
}

func TestADeadlineIsWhatTheTaintsAndTolerationsSay(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	numbers := corev1.Toleration{Key: "sla", Operator: corev1.TolerationOpGt, Value: "900", Effect: corev1.TaintEffectNoExecute}
	ofEffect := func(effect corev1.TaintEffect) corev1.Taint { return corev1.Taint{Key: "a", Effect: effect} }
	withValue := func(value string) corev1.Taint {
		taint := added("a", 0)
		taint.Value = value
		return taint
	}
	seconds := func(t corev1.Toleration, n int64) corev1.Toleration { t.TolerationSeconds = &n; return t }
	equal := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "x"}
	for behaviour, test := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        string // by a clock that says 00:10
	}{
		"without a taint a pod stays":                               {nil, nil, "it stays"},
		"a taint that is not tolerated is since it was added":       {[]corev1.Taint{added("a", minute)}, nil, "1m0s"},
		"a taint is tolerated for so many seconds from then on":     {[]corev1.Taint{added("a", minute)}, []corev1.Toleration{bears("a", 300)}, "6m0s"},
		"a taint that is tolerated without seconds is so for ever":  {[]corev1.Taint{added("a", minute)}, []corev1.Toleration{always("a")}, "it stays"},
		"zero seconds are none":                                     {[]corev1.Taint{added("a", minute)}, []corev1.Toleration{bears("a", 0)}, "1m0s"},
		"fewer than zero are none":                                  {[]corev1.Taint{added("a", minute)}, []corev1.Toleration{bears("a", -300)}, "1m0s"},
		"of two tolerations the first counts, if it is shorter":     {[]corev1.Taint{added("a", 0)}, []corev1.Toleration{bears("a", 60), always("a")}, "1m0s"},
		"and if it is longer":                                       {[]corev1.Taint{added("a", 0)}, []corev1.Toleration{bears("a", 900), bears("a", 60)}, "15m0s"},
		"one that does not match is not the first":                  {[]corev1.Taint{added("a", 0)}, []corev1.Toleration{always("b"), bears("a", 60)}, "1m0s"},
		"of two taints the one counts whose time is up first":       {[]corev1.Taint{added("a", 5*minute), added("b", 0)}, []corev1.Toleration{bears("a", 60), bears("b", 900)}, "6m0s"},
		"also if it is the second":                                  {[]corev1.Taint{added("b", 0), added("a", 5*minute)}, []corev1.Toleration{bears("a", 60), bears("b", 900)}, "6m0s"},
		"also if the other is tolerated for ever":                   {[]corev1.Taint{added("a", 0), added("b", 0)}, []corev1.Toleration{always("a"), bears("b", 60)}, "1m0s"},
		"a taint that keeps new pods away lets others stay":         {[]corev1.Taint{ofEffect(corev1.TaintEffectNoSchedule), ofEffect(corev1.TaintEffectPreferNoSchedule)}, nil, "it stays"},
		"a taint that does not say since when is since now":         {[]corev1.Taint{undated("a")}, []corev1.Toleration{bears("a", 60)}, "11m0s"},
		"one whose time is still to come is since now":              {[]corev1.Taint{added("a", 100*365*24*time.Hour)}, []corev1.Toleration{bears("a", 60)}, "11m0s"},
		"one of long ago is tolerated from when the pod was there":  {[]corev1.Taint{added("a", -30*365*24*time.Hour)}, []corev1.Toleration{bears("a", 60)}, "-23h59m0s"},
		"585 years are not over in this century":                    {[]corev1.Taint{added("a", 0)}, []corev1.Toleration{bears("a", 18446744074)}, "2562047h47m16s"},
		"a toleration without a key is of all taints":               {[]corev1.Taint{added("a", 0)}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, "it stays"},
		"a toleration of a value is of that value":                  {[]corev1.Taint{withValue("x")}, []corev1.Toleration{seconds(equal, 60)}, "1m0s"},
		"and of no other":                                           {[]corev1.Taint{withValue("y")}, []corev1.Toleration{seconds(equal, 60)}, "0s"},
		"a toleration that compares numbers is none with gates off": {[]corev1.Taint{{Key: "sla", Value: "950", Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(midnight))}}, []corev1.Toleration{numbers}, "0s"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			due := deadlinesOf(testPod("web", test.tolerations...), testNode("node-1", test.taints...), midnight.Add(10*minute), false)
			assert.Equal(t, test.want, told(due...), "when a pod of yesterday has to go, after midnight; it is 00:10. taints: %v, tolerations: %v", test.taints, test.tolerations)
		})
	}
	t.Run("a toleration that compares numbers counts with the gate on", func(t *testing.T) {
		t.Parallel()
		sla := corev1.Taint{Key: "sla", Value: "950", Effect: corev1.TaintEffectNoExecute}
		assert.Empty(t, deadlinesOf(testPod("web", numbers), testNode("node-1", sla), midnight, true))
	})
	t.Run("it is a moment of a clock that nobody sets", func(t *testing.T) {
		t.Parallel()
		due := deadlinesOf(testPod("web"), testNode("node-1", added("a", 0)), time.Now(), false)
		assert.Contains(t, due[0].at.String(), "m=", "a time with the reading of a monotonic clock says so")
	})
	t.Run("a pod that is created after the taint has all its time", func(t *testing.T) {
		t.Parallel()
		pod := testPod("web", bears("a", 60))
		pod.CreationTimestamp = metav1.NewTime(midnight.Add(9 * minute))
		due := deadlinesOf(pod, testNode("node-1", added("a", 0)), midnight.Add(10*minute), false)
		assert.Equal(t, "10m0s", told(due...), "a pod tolerates a taint of midnight for 60 s, and was created at 00:09")
	})
}

func TestADeadlineFollowsAnother(t *testing.T) {
	t.Parallel()
	defaults := []corev1.Toleration{bears(notReady, 300), bears(unreachable, 300)}
	at := func(after time.Duration, taint corev1.Taint, pod types.UID, tolerations ...corev1.Toleration) deadline {
		return deadline{midnight.Add(after), pod, taint, tolerations}
	}
	const pod = "uid-web"
	for behaviour, test := range map[string]struct {
		before, next deadline
		want         string
	}{
		"the first is as it is":                                 {deadline{}, at(5*time.Minute, undated("a"), pod), "5m0s"},
		"by the same taint it is no later":                      {at(5*time.Minute, undated("a"), pod), at(6*time.Minute, undated("a"), pod), "5m0s"},
		"and no sooner, if the clock was set forward":           {at(5*time.Minute, added("a", 0), pod), at(-time.Hour, added("a", 0), pod), "5m0s"},
		"a taint that came back with another time is another":   {at(5*time.Minute, added(notReady, 0), pod, defaults...), at(9*time.Minute, added(notReady, 4*time.Minute), pod, defaults...), "9m0s"},
		"another taint has its own time":                        {at(5*time.Minute, undated("a"), pod), at(6*time.Minute, undated("b"), pod), "6m0s"},
		"that of a node that falls silent is that from before":  {at(5*time.Minute, added(notReady, 0), pod, defaults...), at(9*time.Minute, added(unreachable, 4*time.Minute), pod, defaults...), "5m0s"},
		"that of one that is heard and is not ready, too":       {at(5*time.Minute, added(unreachable, 0), pod, defaults...), at(9*time.Minute, added(notReady, 4*time.Minute), pod, defaults...), "5m0s"},
		"if the new one is sooner, that":                        {at(5*time.Minute, added(notReady, 0), pod, defaults...), at(3*time.Minute, added(unreachable, 2*time.Minute), pod, defaults...), "3m0s"},
		"a taint of somebody else's does not stand for another": {at(5*time.Minute, added(notReady, 0), pod, defaults...), at(9*time.Minute, added("a", 4*time.Minute), pod, defaults...), "9m0s"},
		"nor does one of ours stand for somebody else's":        {at(5*time.Minute, added("a", 0), pod, defaults...), at(9*time.Minute, added(notReady, 4*time.Minute), pod, defaults...), "9m0s"},
		"whoever tolerates something else has a new time":       {at(5*time.Minute, undated("a"), pod, bears("a", 300)), at(6*time.Minute, undated("a"), pod, bears("a", 360)), "6m0s"},
		"another pod of the name has its own":                   {at(5*time.Minute, undated("a"), "uid-old"), at(6*time.Minute, undated("a"), pod), "6m0s"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, told(test.next.after([]deadline{test.before})), "by the taints and tolerations it is %s, before it was %s", told(test.next), told(test.before))
		})
	}
	t.Run("a node that goes back and forth loses its pods", func(t *testing.T) {
		t.Parallel()
		var d deadline
		for i := range 4 {
			since := time.Duration(i) * 2 * time.Minute
			next := at(since+5*time.Minute, added([]string{notReady, unreachable}[i%2], since), pod, defaults...)
			d = next.after([]deadline{d})
		}
		assert.Equal(t, "5m0s", told(d), "every 2 min the node is not ready instead of silent, or the other way round, from midnight on; both are tolerated for 300 s")
	})
}
