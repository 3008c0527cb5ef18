package tainteviction

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const marked = "DisruptionTarget True (DeletionByTaintManager: Taint manager: deleting due to NoExecute taint)"

// goes is what happens when a pod goes at a time.
func goes(at, pod string) string {
	return fmt.Sprintf("%[1]s delete %[2]s, %[3]s; %[1]s Normal TaintManagerEviction for uid-%[2]s-2: Marking for deletion Pod shop/%[2]s", at, pod, marked)
}

func TestAPodGoesWhenItsDeadlineHasCome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		pod                  *corev1.Pod
		happens              func(w *world)
		want                 string
	}{
		{"a pod goes at once that does not tolerate a taint", "the taint comes at 00:01", testPod("web"), func(w *world) {
			w.at(time.Minute)
			w.node("node-1", tainted(added("a", time.Minute)))
		}, goes("00:01:00", "web")},
		{"a pod goes when its time is over, counted from when the taint was added", "the taint of 23:58 is seen at 00:01, and tolerated for 300 s", testPod("web", bears("a", 300)), func(w *world) {
			w.at(time.Minute)
			w.node("node-1", tainted(added("a", -2*time.Minute)))
		}, goes("00:03:00", "web")},
		{"the next leader finds the same deadline", "the taint of midnight is tolerated for 300 s, and at 00:04 another process leads", testPod("web", bears("a", 300)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(4 * time.Minute)
			w.restart()
		}, goes("00:05:00", "web")},
		{"a taint that does not say when it was added counts from when it was seen", "it is seen at 00:01, tolerated for 60 s, and another one comes at 00:01:30", testPod("web", bears("a", 60), always("b")), func(w *world) {
			w.at(time.Minute)
			w.node("node-1", tainted(undated("a")))
			w.at(90 * time.Second)
			w.node("node-1", tainted(undated("a"), undated("b")))
		}, goes("00:02:00", "web")},
		{"a pod stays when the taint is off in time", "the taint of midnight is tolerated for 300 s, and off at 00:04", testPod("web", bears("a", 300)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(4 * time.Minute)
			w.node("node-1", tainted())
		}, "00:04:00 Normal TaintManagerEviction for uid-web-2: Cancelling deletion of Pod shop/web"},
		{"a pod that may stay for ever from now on stays", "the taint of midnight is tolerated for 300 s, and at 00:04 for ever", testPod("web", bears("a", 300)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(4 * time.Minute)
			w.pod("web", tolerating(always("a")))
		}, "00:04:00 Normal TaintManagerEviction for uid-web-2: Cancelling deletion of Pod shop/web"},
		{"a pod that is given more time has it", "the taint of midnight is tolerated for 300 s, and at 00:04 for 600 s", testPod("web", bears("a", 300)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(4 * time.Minute)
			w.pod("web", tolerating(bears("a", 600)))
		}, goes("00:10:00", "web")},
		{"a pod that is given less time goes sooner", "the taint of midnight is tolerated for 300 s, and at 00:01 for 120 s", testPod("web", bears("a", 300)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(time.Minute)
			w.pod("web", tolerating(bears("a", 120)))
		}, goes("00:02:00", "web")},
		{"a second taint may be tolerated for less", "the taint of midnight is tolerated for 300 s, and another one of 00:01 for 10 s", testPod("web", bears("a", 300), bears("b", 10)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(time.Minute)
			w.node("node-1", tainted(added("a", 0), added("b", time.Minute)))
		}, goes("00:01:10", "web")},
		{"when that is off, the first one counts", "the taint of midnight is tolerated for 300 s, and another one of 00:01, off at 00:01:05, for 10 s", testPod("web", bears("a", 300), bears("b", 10)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(time.Minute)
			w.node("node-1", tainted(added("a", 0), added("b", time.Minute)))
			w.at(65 * time.Second)
			w.node("node-1", tainted(added("a", 0)))
		}, goes("00:05:00", "web")},
		{"also of two that do not say when, whichever is first", "a taint is seen at midnight and tolerated for 60 s, and another one at 00:00:20, off at 00:00:25, for 10 s", testPod("web", bears("a", 60), bears("b", 10)), func(w *world) {
			w.node("node-1", tainted(undated("a")))
			w.at(20 * time.Second)
			w.node("node-1", tainted(undated("a"), undated("b")))
			w.at(25 * time.Second)
			w.node("node-1", tainted(undated("a")))
		}, goes("00:01:00", "web")},
		{"also of a node that falls silent meanwhile", "not ready at midnight, silent at 00:04, both tolerated for 300 s, and another taint, from 00:01 to 00:04:30, for 230 s", testPod("web", bears(notReady, 300), bears(unreachable, 300), bears("b", 230)), func(w *world) {
			w.node("node-1", tainted(added(notReady, 0)))
			w.at(time.Minute)
			w.node("node-1", tainted(added(notReady, 0), added("b", time.Minute)))
			w.at(4 * time.Minute)
			w.node("node-1", tainted(added("b", time.Minute), added(unreachable, 4*time.Minute)))
			w.at(270 * time.Second)
			w.node("node-1", tainted(added(unreachable, 4*time.Minute)))
		}, goes("00:05:00", "web")},
		{"a node that is not ready and then falls silent loses its pods when it would have", "not ready at midnight, silent at 00:04, both tolerated for 300 s", testPod("web", bears(notReady, 300), bears(unreachable, 300)), func(w *world) {
			w.node("node-1", tainted(added(notReady, 0)))
			w.at(4 * time.Minute)
			w.node("node-1", tainted(added(unreachable, 4*time.Minute)))
		}, goes("00:05:00", "web")},
		{"a node that was ready in between has all its time", "not ready at midnight, ready at 00:03, silent at 00:04, both tolerated for 300 s", testPod("web", bears(notReady, 300), bears(unreachable, 300)), func(w *world) {
			w.node("node-1", tainted(added(notReady, 0)))
			w.at(3 * time.Minute)
			w.node("node-1", tainted())
			w.at(4 * time.Minute)
			w.node("node-1", tainted(added(unreachable, 4*time.Minute)))
		}, "00:03:00 Normal TaintManagerEviction for uid-web-2: Cancelling deletion of Pod shop/web; " + goes("00:09:00", "web")},
		{"a pod that comes to a node with a taint has its time", "the taint of yesterday is tolerated for 60 s, and the pod comes at 00:01", nil, func(w *world) {
			w.node("node-1", tainted(added("a", -24*time.Hour)))
			w.at(time.Minute)
			pod := testPod("web", bears("a", 60))
			pod.CreationTimestamp = metav1.Now()
			w.comes(pod)
		}, goes("00:02:00", "web")},
		{"a pod that is bound to such a node goes", "the taint is of midnight, and the pod is bound at 00:01", on("", testPod("web")), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(time.Minute)
			w.pod("web", func(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" })
		}, goes("00:01:00", "web")},
		{"a toleration of all effects counts", "the taint of midnight is tolerated for 60 s, whatever it does", testPod("web", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(60))}), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
		}, goes("00:01:00", "web")},
		{"a pod whose node is gone stays", "the taint of midnight is tolerated for 60 s, and the node is gone at 00:00:30", testPod("web", bears("a", 60)), func(w *world) {
			w.node("node-1", tainted(added("a", 0)))
			w.at(30 * time.Second)
			_ = w.nodes.Delete("node-1")
			w.show()
		}, "00:01:00 Normal TaintManagerEviction for uid-web-2: Cancelling deletion of Pod shop/web"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			objects := []runtime.Object{testNode("node-1"), testNode("node-2")}
			if test.pod != nil {
				objects = append(objects, test.pod)
			}
			play(t, func(w *world) {
				test.happens(w)
				assert.Equal(t, test.want, w.at(time.Hour), "%s; until 01:00 there was", test.situation)
			}, objects...)
		})
	}
}

func TestAPodThatWaitsForANodeHasAllItsTimeThere(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("another process leads: %v", restarts), func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.at(time.Minute)
				w.pod("web", bound("node-1"))
				if restarts {
					w.restart()
				}
				assert.Contains(t, w.at(time.Hour), "00:02:00 delete web", "a pod of yesterday is bound at 00:01, and tolerates the taint of its node, of yesterday as well, for 60 s")
			}, testNode("node-1", added("a", -24*time.Hour)), on("", testPod("web", bears("a", 60))))
		})
	}
}

// on returns a pod that is bound to a node.
func on(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = node
	return pod
}

func TestOfWhatAPodToleratesTheCacheHasWhatLetsItStay(t *testing.T) {
	t.Parallel()
	ofEffect := func(effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: string(effect), Operator: corev1.TolerationOpExists, Effect: effect}
	}
	pod := testPod("web", ofEffect(corev1.TaintEffectNoSchedule), ofEffect(""), ofEffect(corev1.TaintEffectPreferNoSchedule), ofEffect(corev1.TaintEffectNoExecute))
	for range 2 { // an object may come a second time
		trimmed := stored(controller.Trim(Reads...)(pod)).(*corev1.Pod)
		assert.Equal(t, []corev1.Toleration{ofEffect(""), ofEffect(corev1.TaintEffectNoExecute)}, trimmed.Spec.Tolerations)
	}
}

func TestOfAPodThatIsBoundLaterTheCacheSaysWhen(t *testing.T) {
	t.Parallel()
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(midnight)}
	all := controller.KeepOf(func(kept, whole *corev1.Pod) { kept.Status.Conditions = whole.Status.Conditions })
	for what, test := range map[string]struct {
		keeps   []*controller.Keep
		created time.Time
		want    []corev1.PodCondition
	}{
		"a pod that was bound a day after its creation":      {Reads, midnight.Add(-24 * time.Hour), []corev1.PodCondition{{Type: corev1.PodScheduled, LastTransitionTime: scheduled.LastTransitionTime}}},
		"one that was bound at once":                         {Reads, midnight, nil},
		"one of which another loop reads all the conditions": {append([]*controller.Keep{controller.PodState, all}, Reads...), midnight.Add(-24 * time.Hour), []corev1.PodCondition{scheduled}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := testPod("web")
			pod.CreationTimestamp, pod.Status.Conditions = metav1.NewTime(test.created), []corev1.PodCondition{scheduled}
			for range 2 { // an object may come a second time
				trimmed := stored(controller.Trim(test.keeps...)(pod)).(*corev1.Pod)
				assert.Equal(t, test.want, trimmed.Status.Conditions)
			}
		})
	}
}

func TestADeadlineIsOfOnePod(t *testing.T) {
	t.Parallel()
	web := func() *corev1.Pod { return testPod("web-0", bears("a", 60)) }
	t.Run("a pod that is created again under the name has its own time", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(30 * time.Second)
			require.NoError(t, w.pods.Delete("web-0"))
			again := web()
			again.CreationTimestamp = metav1.Now()
			w.comes(again)
			assert.Contains(t, w.at(time.Hour), "00:01:30 delete web-0", "the taint of midnight is tolerated for 60 s, and at 00:00:30 there is another web-0")
		}, testNode("node-1", added("a", 0)), web())
	})
	t.Run("a pod that is created again on another node stays", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(30 * time.Second)
			require.NoError(t, w.pods.Delete("web-0"))
			w.comes(on("node-2", web()))
			assert.Equal(t, "nothing", w.at(time.Hour), "the taint of midnight is tolerated for 60 s, and at 00:00:30 there is another web-0, on a node without a taint")
		}, testNode("node-1", added("a", 0)), testNode("node-2"), web())
	})
	t.Run("one that the cache does not show yet stays", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(30 * time.Second)
			require.NoError(t, w.pods.Delete("web-0"))
			w.add(on("node-2", web()))
			assert.Equal(t, "nothing", w.at(time.Hour), "the taint of midnight is tolerated for 60 s; at 00:00:30 there is another web-0, on a node without a taint, and nobody sees that for an hour")
			assert.LessOrEqual(t, w.requests, 2, "requests: that the pod is gone is no failure")
		}, testNode("node-1", added("a", 0)), testNode("node-2"), web())
	})
	t.Run("one that is gone before its time is forgotten", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.comes(testPod("web-1", bears("a", 18446744074)))
			require.NoError(t, w.pods.Delete("web-1"))
			w.show()
			w.at(2 * time.Hour)
			w.loop.deadlines.Range(func(pod, _ any) bool { return assert.Fail(t, "it is remembered", pod) })
		}, testNode("node-1", added("a", 0)))
	})
	t.Run("a pod that somebody has deleted is left alone", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.pod("web-0", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
			assert.Equal(t, "nothing", w.at(time.Hour), "the taint of midnight is tolerated for 60 s, and at 00:00 the pod is being deleted")
			assert.Zero(t, w.requests)
		}, testNode("node-1", added("a", 0)), web())
	})
	t.Run("a pod is deleted once", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.slow = true
			w.at(time.Minute)
			w.show()
			w.pod("web-0", tolerating())
			assert.Equal(t, 1, strings.Count(w.at(time.Hour), "delete web-0"), "deletions of a pod that takes an hour to go, and tolerates nothing any more while it goes")
		}, testNode("node-1", added("a", 0)), web())
	})
}

func TestTheNodeIsLookedAtTwice(t *testing.T) {
	t.Parallel()
	t.Run("a pod stays whose node has lost its taint unseen", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.changeNode("node-1", tainted())
			w.at(10 * time.Minute)
			assert.Equal(t, "nothing", w.at(10*time.Minute), "the taint is off since midnight, and nobody sees that for ten minutes, in which a pod comes that does not tolerate it")
			assert.LessOrEqual(t, w.requests, 15, "requests within ten minutes: it looks again ever less often")
			w.show()
			w.at(time.Hour)
			assert.Equal(t, "00:10:00 Normal TaintManagerEviction for uid-web-2: Cancelling deletion of Pod shop/web", w.at(time.Hour), "then it is seen")
		}, testNode("node-1", added("a", 0)), testPod("web", bears("a", 60)))
	})
	t.Run("a pod stays whose node has got its taint anew unseen, until the time of that is up", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(30 * time.Second)
			w.changeNode("node-1", tainted(added("a", 30*time.Second)))
			w.at(70 * time.Second)
			w.show()
			assert.Equal(t, goes("00:01:30", "web"), w.at(time.Hour), "the taint of midnight is tolerated for 60 s; at 00:00:30 it is taken off and added again, and that is seen at 00:01:10")
		}, testNode("node-1", added("a", 0)), testPod("web", bears("a", 60)))
	})
	t.Run("a pod stays whose node is gone unseen", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			require.NoError(t, w.nodes.Delete("node-1"))
			assert.Equal(t, "nothing", w.at(time.Hour), "the taint of midnight is tolerated for 60 s, and the node is gone, which nobody sees")
			assert.LessOrEqual(t, w.requests, 2)
		}, testNode("node-1", added("a", 0)), testPod("web", bears("a", 60)))
	})
}

func TestWhatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	pods := corev1.Resource("pods")
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil)
	for behaviour, test := range map[string]struct {
		request string
		refusal error
	}{
		"a look at the node":                             {"get nodes", apierrors.NewInternalError(errors.New("no leader"))},
		"a mark that is forbidden":                       {"patch pods/status", apierrors.NewForbidden(pods, "web", errors.New("not now"))},
		"a mark that a policy finds invalid":             {"patch pods/status", invalid},
		"a deletion that is forbidden":                   {"delete pods", apierrors.NewForbidden(pods, "web", errors.New("not now"))},
		"a deletion that a policy finds invalid":         {"delete pods", invalid},
		"a deletion that is in conflict with a webhook":  {"delete pods", apierrors.NewConflict(pods, "web", errors.New("not now"))},
		"a deletion of what there is no such thing of":   {"delete pods", apierrors.NewGenericServerResponse(404, "delete", pods, "web", "404 page not found", 0, true)},
		"a deletion whose answer does not come in time":  {"delete pods", apierrors.NewTimeoutError("too late", 0)},
		"a deletion that there are too many requests of": {"delete pods", apierrors.NewTooManyRequests("later", 1)},
	} {
		t.Run(behaviour+" is tried again", func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				tries, until := 0, midnight.Add(10*time.Minute)
				w.refuse = func(request string) error {
					if request != test.request || !time.Now().Before(until) {
						return nil
					}
					tries++
					return test.refusal
				}
				w.comes(testPod("web"))
				assert.Equal(t, "nothing", w.at(10*time.Minute-time.Second), "%s is refused for ten minutes from midnight on: %v", test.request, test.refusal)
				assert.LessOrEqual(t, tries, 20, "tries within these minutes")
				assert.Regexp(t, "^00:1.:.. delete web, .*; 00:1.:.. Normal TaintManagerEviction for uid-web-2: Marking for deletion Pod shop/web$", w.at(20*time.Minute), "and granted for ten more")
			}, testNode("node-1", added("a", 0)))
		})
	}
	t.Run("a pod that cannot be deleted keeps no other", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.refuse = func(request string) error {
				if request == "delete pods" && time.Now().Before(midnight.Add(time.Minute)) {
					return invalid
				}
				return nil
			}
			for i := range 8 {
				w.comes(testPod(fmt.Sprint("stuck-", i)))
			}
			w.at(time.Minute)
			w.comes(testPod("web"))
			assert.Contains(t, w.at(61*time.Second), "00:01:00 delete web", "eight deletions are refused until 00:01, when another pod comes, and there are two workers")
		}, testNode("node-1", added("a", 0)))
	})
	t.Run("one that may stay before it is granted stays", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.refuse = func(request string) error {
				if request == "delete pods" && time.Now().Before(midnight.Add(time.Minute)) {
					return invalid
				}
				return nil
			}
			w.comes(testPod("web"))
			w.at(30 * time.Second)
			w.node("node-1", tainted())
			assert.Equal(t, "00:00:30 Normal TaintManagerEviction for uid-web-2: Cancelling deletion of Pod shop/web", w.at(time.Hour),
				"its deletion is refused until 00:01, and the taint is off at 00:00:30")
		}, testNode("node-1", added("a", 0)))
	})
}

// measured returns what a metric has counted, and the sum of what it has observed.
func measured(t *testing.T, name string) (count, sum float64) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "taint_eviction_controller_"+name {
			m := family.GetMetric()[0]
			if m.GetHistogram() != nil {
				return float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
			}
			return m.GetCounter().GetValue(), 0
		}
	}
	return 0, 0
}

// It is not parallel: the metrics are the process's.
func TestDeletionsAreMeasured(t *testing.T) {
	counted, _ := measured(t, "pod_deletions_total")
	observed, seconds := measured(t, "pod_deletion_duration_seconds")
	play(t, func(w *world) {
		refusals := 3
		w.refuse = func(request string) error {
			if request == "delete pods" && refusals > 0 {
				refusals--
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}
		w.comes(testPod("web", bears("a", 10)))
		w.at(time.Hour)
	}, testNode("node-1", added("a", -100*time.Second)))
	countedNow, _ := measured(t, "pod_deletions_total")
	observedNow, secondsNow := measured(t, "pod_deletion_duration_seconds")
	assert.EqualValues(t, 1, countedNow-counted, "deletions that are counted: three are refused, and the fourth is granted")
	assert.EqualValues(t, 1, observedNow-observed, "deletions that are measured")
	assert.InDelta(t, 90, secondsNow-seconds, 1, "seconds by which it was late: the manager started 90 s after the deadline")
}
