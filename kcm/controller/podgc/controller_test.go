package podgc

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
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	succeeded, failed, running = corev1.PodSucceeded, corev1.PodFailed, corev1.PodRunning
	yes, no, unknown           = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	taint                      = "node.kubernetes.io/out-of-service"
	// condition is what an orphan is marked with.
	condition = "DisruptionTarget True (DeletionByPodGC: PodGC: node no longer exists)"
)

// aRound is less than the time to the second one.
const aRound = 19 * time.Second

func TestPodsThatHaveEndedAreKeptUpToTheThreshold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		threshold            int
		pods                 []runtime.Object
		want                 string
	}{
		{"of pods that have ended the oldest go", "4 pods have ended, 2 are kept", 2, []runtime.Object{
			ended("c", succeeded, 3), ended("a", succeeded, 4), ended("d", failed, 1), ended("b", failed, 2),
		}, "b goes, Failed; d goes, Failed"},
		{"as many as the threshold says are kept", "2 pods have ended, 2 are kept", 2, []runtime.Object{
			ended("a", succeeded, 1), ended("b", failed, 2),
		}, "nothing"},
		{"pods that have not ended do not count", "2 pods have ended, 2 are kept, and 3 have not ended", 2, []runtime.Object{
			ended("a", succeeded, 4), ended("b", failed, 5), ended("p", corev1.PodPending, 1), ended("r", running, 2), ended("u", corev1.PodUnknown, 3),
		}, "nothing"},
		{"pods that go for another reason do not count", "2 pods have ended on a node, 2 are kept, and one more has ended, has no node and is being deleted", 2,
			[]runtime.Object{ended("a", succeeded, 1), ended("b", failed, 2), pod("c", "", going, phase(failed))}, "c goes, Failed"},
		{"evicted pods go before older ones", "3 pods have ended, 1 is kept, and the 2 newest were evicted", 1, []runtime.Object{
			ended("a", failed, 1), ended("b", failed, 2, "Evicted"), ended("c", failed, 3, "Evicted"),
		}, "b goes, Failed; c goes, Failed"},
		{"of evicted pods the oldest go", "3 pods were evicted, 2 are kept", 2, []runtime.Object{
			ended("a", failed, 3, "Evicted"), ended("b", failed, 1, "Evicted"), ended("c", failed, 2, "Evicted"),
		}, "b goes, Failed"},
		{"a pod that succeeded was not evicted", "2 pods have ended, 1 is kept; the reason of the newer one says Evicted, and it succeeded", 1, []runtime.Object{
			ended("a", failed, 1), ended("b", succeeded, 2, "Evicted"),
		}, "a goes, Failed"},
		{"of pods of one age the first by name go", "3 pods were created in the same second, 2 are kept", 2, []runtime.Object{
			ended("b", failed, 1), ended("a", failed, 1), ended("c", failed, 1),
		}, "a goes, Failed"},
		{"a threshold of zero keeps all", "2 pods have ended", 0, []runtime.Object{ended("a", failed, 1), ended("b", failed, 2)}, "nothing"},
		{"a threshold below zero keeps all", "2 pods have ended", -1, []runtime.Object{ended("a", failed, 1), ended("b", failed, 2)}, "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, func(c *cluster) {
				c.run(test.threshold, 2)
				assert.Equal(t, test.want, sorted(c.after(aRound)), test.situation)
			}, append(test.pods, node("here", yes))...)
		})
	}
}

func TestPodsWithoutAKubeletGo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		pod                  *corev1.Pod
		node                 *corev1.Node
		want                 string
	}{
		{"a terminating pod without a node goes", "the pod waits for a node and is being deleted", pod("web", "", going), nil, "web goes, Failed"},
		{"a pod that waits for a node stays", "the pod waits for a node, and nobody has deleted it", pod("web", ""), nil, "nothing"},
		{"a terminating pod of a node out of service goes", "the node has the taint and is not ready", pod("web", "here", going), node("here", no, taint), "web goes, Failed"},
		{"a node that is not heard of is not ready", "the node has the taint, and whether it is ready is unknown", pod("web", "here", going), node("here", unknown, taint), "web goes, Failed"},
		{"a node of which nobody says that it is ready is not", "the node has the taint, and no Ready condition", pod("web", "here", going), node("here", "", taint), "web goes, Failed"},
		{"a ready node is in service whatever its taints say", "the node has the taint and is ready", pod("web", "here", going), node("here", yes, taint), "nothing"},
		{"without the taint a kubelet may still have the pod", "the node has another taint and is not ready", pod("web", "here", going),
			node("here", no, "node.kubernetes.io/unreachable"), "nothing"},
		{"a pod that nobody has deleted stays on a node out of service", "the node has the taint and is not ready", pod("web", "here"), node("here", no, taint), "nothing"},
		{"one taint of several is enough", "the node has two taints and is not ready", pod("web", "here", going),
			node("here", no, "node.kubernetes.io/unreachable", taint), "web goes, Failed"},
		{"a pod that has ended keeps its phase", "the pod has succeeded and is being deleted, its node is out of service",
			pod("web", "here", going, phase(succeeded)), node("here", no, taint), "web goes, Succeeded"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			objects := []runtime.Object{test.pod}
			if test.node != nil {
				objects = append(objects, test.node)
			}
			play(t, func(c *cluster) {
				c.run(10, 1)
				assert.Equal(t, test.want, c.after(aRound), test.situation)
			}, objects...)
		})
	}
}

func TestPodsOfNodesThatAreGoneGo(t *testing.T) {
	t.Parallel()
	const goes = "web goes, Failed, " + condition
	t.Run("a pod of a node that is gone is marked and goes", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			assert.Equal(t, goes, c.after(85*time.Second), "the node of a running pod has not been there for 85 s")
		}, pod("web", "moon"))
	})
	t.Run("a node may be missing for 40 seconds", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			assert.Equal(t, "nothing", c.after(39*time.Second), "the node of a running pod has not been there for 39 s")
		}, pod("web", "moon"))
	})
	t.Run("a node that the cache does not show may be there", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.lateFor("nodes")
			c.run(10, 1)
			c.add(node("moon", yes))
			assert.Equal(t, "nothing", c.after(10*time.Minute), "the API server has the node, the cache has not seen it for 10 minutes")
			assert.LessOrEqual(t, c.questions, 15, "how often it was asked for the node: each answer ends a quarantine of 40 s, and another one begins")
		}, pod("web", "moon"))
	})
	t.Run("a node is asked for once in a round", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("patch pods/status", errors.New("not now"))
			c.run(10, 1)
			c.after(85 * time.Second)
			assert.LessOrEqual(t, c.questions, 3, "how often it was asked for the node of three pods in 85 s, of which the first 40 are quarantine")
		}, pod("a", "moon"), pod("b", "moon"), pod("c", "moon"))
	})
	t.Run("an answer that is an error proves nothing", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("get nodes", apierrors.NewInternalError(errors.New("no leader")))
			c.run(10, 1)
			assert.Equal(t, "nothing", c.after(3*time.Minute), "for 3 minutes each question for the node is answered by an internal error")
			c.refuse("get nodes", nil)
			assert.Equal(t, goes, c.after(21*time.Second), "then for 21 s by NotFound")
		}, pod("web", "moon"))
	})
	t.Run("an answer that there are no nodes at all proves nothing", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("get nodes", apierrors.NewGenericServerResponse(404, "get", corev1.Resource("nodes"), "moon", "404 page not found", 0, true))
			c.run(10, 1)
			assert.Equal(t, "nothing", c.after(3*time.Minute), "for 3 minutes something else than an API server answers, with 404 page not found")
		}, pod("web", "moon"))
	})
	t.Run("the quarantine begins anew with each absence", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			c.after(25 * time.Second)
			c.add(node("moon", yes))
			c.after(25 * time.Second)
			c.removeNode("moon")
			assert.Equal(t, "nothing", c.after(39*time.Second), "the node was missing for 25 s, there for 25 s, and missing again for 39 s")
			assert.Equal(t, goes, c.after(time.Minute), "and missing for a minute more")
		}, pod("web", "moon"))
	})
	t.Run("a pod that has ended goes with its node", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			assert.Equal(t, "web goes, Succeeded", c.after(85*time.Second), "the node of a pod that has succeeded has not been there for 85 s")
		}, pod("web", "moon", phase(succeeded)))
	})
	t.Run("other conditions of an orphan stay", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			assert.ElementsMatch(t, []string{"web goes", "Failed", "Ready False", condition},
				strings.Split(c.after(85*time.Second), ", "), "the node has not been there for 85 s, and the pod has a Ready condition")
		}, pod("web", "moon", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: no}}
		}))
	})
	t.Run("the mark is of the manager that users know", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			assert.Equal(t, goes, c.after(85*time.Second))
			assert.Equal(t, "kube-controller-manager", c.fieldManager, "the field manager of the patch")
		}, pod("web", "moon"))
	})
	t.Run("the mark says since when and of which generation it is", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			situation string
			was       corev1.ConditionStatus
			since     string
		}{
			{"the pod was a target of disruption since 1999", yes, "1999"},
			{"the pod was no target of disruption since 1999", no, "2000"},
		} {
			play(t, func(c *cluster) {
				c.refuse("delete pods", errors.New("not now"))
				c.run(10, 1)
				c.after(85 * time.Second)
				status := c.pod("shop", "web").Status
				require.Len(t, status.Conditions, 1, test.situation)
				mark := status.Conditions[0]
				assert.Equal(t, fmt.Sprintf("%s since %s, generation 3 of 3", condition, test.since),
					fmt.Sprintf("%s %s (%s: %s) since %d, generation %d of %d", mark.Type, mark.Status, mark.Reason, mark.Message,
						mark.LastTransitionTime.UTC().Year(), mark.ObservedGeneration, status.ObservedGeneration), test.situation+", and now is 2000")
			}, pod("web", "moon", func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: test.was, Reason: "EvictionByEvictionAPI",
					LastTransitionTime: metav1.NewTime(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))}}
			}))
		}
	})
}

// No change wakes the loop: each round looks at all that decisions read, the pods, their nodes and the
// taints of these. So there is no table of what wakes it, as other loops have one.
func TestRoundsFollowEachOther(t *testing.T) {
	t.Parallel()
	t.Run("what comes later goes in the next round", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.run(10, 1)
			c.after(time.Second)
			c.add(pod("web", "", going))
			assert.Equal(t, "web goes, Failed", c.after(20*time.Second), "20 s after a pod that nobody has a node for came, being deleted")
		})
	})
	t.Run("before all nodes are known no pod goes", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("list nodes", errors.New("not now"))
			c.run(10, 1)
			assert.Equal(t, "nothing", c.after(time.Minute), "nodes cannot be listed; a pod without one is being deleted")
		}, pod("web", "", going))
	})
	t.Run("a failure keeps no other pod from going", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("patch pods/status", errors.New("not now"))
			c.run(10, 1)
			assert.Equal(t, "b goes, Failed", c.after(aRound), "three pods without a node are being deleted; of a and c the status cannot be written, b has failed")
		}, pod("a", "", going), pod("b", "", going, phase(failed)), pod("c", "", going))
	})
	t.Run("what fails is tried again in the next round", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("delete pods", errors.New("not now"))
			c.run(10, 1)
			c.after(time.Second)
			c.refuse("delete pods", nil)
			assert.Equal(t, "web goes, Failed", c.after(20*time.Second), "the first deletion was refused")
		}, pod("web", "", going))
	})
	t.Run("a pod that cannot be marked is not deleted", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("patch pods/status", errors.New("not now"))
			c.run(10, 1)
			assert.Equal(t, "nothing", c.after(time.Minute), "the status of a terminating pod without a node cannot be written")
		}, pod("web", "", going))
	})
	t.Run("as many pods go at a time as there are workers", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.delay = 2 * time.Second
			c.run(1, 2)
			at := func(d time.Duration) int { return strings.Count(c.after(d), "goes") }
			assert.Equal(t, "0, 2, 4", fmt.Sprintf("%d, %d, %d", at(time.Second), at(2*time.Second), at(2*time.Second)),
				"pods that are gone after 1, 3 and 5 s: 4 of 5 are to go, a deletion takes 2 s, and there are 2 workers")
		}, ended("a", failed, 1), ended("b", failed, 2), ended("c", failed, 3), ended("d", failed, 4), ended("e", failed, 5), node("here", yes))
	})
	for _, test := range []struct {
		behaviour, situation string
		objects              []runtime.Object
	}{
		{"a node that is back before a pod's turn comes keeps it", "the node of two pods is gone", []runtime.Object{pod("a", "moon"), pod("b", "moon")}},
		{"a node that is ready before a pod's turn comes keeps it", "two terminating pods are on a node out of service",
			[]runtime.Object{pod("a", "moon", going), pod("b", "moon", going), node("moon", no, taint)}},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, func(c *cluster) {
				c.delay = 5 * time.Minute
				c.run(10, 1)
				c.after(2 * time.Minute)
				c.nodeIs(node("moon", yes, taint))
				assert.Equal(t, 1, strings.Count(c.after(time.Hour), "goes"),
					"pods that are gone: %s, and one is deleted at a time, which takes five minutes. After two, the node is ready", test.situation)
			}, test.objects...)
		})
	}
	t.Run("when Run has returned nothing is deleted any more", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.delay = 2 * time.Second
			c.run(1, 2)
			c.after(3 * time.Second)
			c.stop()
			story := c.after(time.Minute)
			assert.Equal(t, "the loop has ended", story[strings.LastIndex(story, "; ")+2:], "a deletion takes 2 s, and after 3 s the loop is to stop: %s", story)
		}, ended("a", failed, 1), ended("b", failed, 2), ended("c", failed, 3), ended("d", failed, 4), ended("e", failed, 5), node("here", yes))
	})
}

func TestAPodThatOnlyAFinalizerHoldsIsDeletedOnce(t *testing.T) {
	t.Parallel()
	forced := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(0))
	}
	for _, test := range []struct {
		behaviour, situation string
		objects              []runtime.Object
		want                 string
	}{
		{"of too many that have ended", "2 pods have ended, 1 is kept, a finalizer holds the older",
			[]runtime.Object{pod("web", "here", phase(failed), held), ended("new", failed, 1), node("here", yes)}, "web goes, Failed"},
		{"without a node", "it is being deleted with an hour to end", []runtime.Object{pod("web", "", going, held)}, "web goes, Failed"},
		{"of a node that is gone", "nobody has deleted it", []runtime.Object{pod("web", "moon", held)}, "web goes, Failed, " + condition},
		{"of a node that is gone and with time to end", "it is being deleted with an hour to end",
			[]runtime.Object{pod("web", "moon", going, held)}, "web goes, Failed, " + condition},
		{"of a node out of service", "it is being deleted with an hour to end",
			[]runtime.Object{pod("web", "here", going, held), node("here", no, taint)}, "web goes, Failed"},
		{"and not at all where that was done before", "it has failed, and its deletion allows no time to end",
			[]runtime.Object{pod("web", "", forced, held, phase(failed))}, "nothing"},
		{"and does not count for the threshold", "2 pods have ended, 1 is kept; a finalizer holds the newer, which is deleted",
			[]runtime.Object{ended("old", failed, 1), pod("web", "here", phase(failed), forced, held, func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.Now()
			}), node("here", yes)}, "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, func(c *cluster) {
				c.run(1, 1)
				assert.Equal(t, test.want, c.after(10*time.Minute), "in 10 minutes: %s", test.situation)
			}, test.objects...)
		})
	}
	t.Run("and again if that was refused", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.refuse("delete pods", errors.New("not now"))
			c.run(1, 1)
			c.after(10 * time.Minute)
			c.refuse("delete pods", nil)
			assert.Equal(t, "web goes, Failed", c.after(10*time.Minute), "for 10 minutes its deletion was refused")
		}, pod("web", "", going, held))
	})
}

func TestNoNamespaceWaitsForAllPodsOfAnother(t *testing.T) {
	t.Parallel()
	of := func(namespace string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = namespace } }
	many := func(change func(i int, p *corev1.Pod)) []runtime.Object {
		var pods []runtime.Object
		for i := range 300 {
			pods = append(pods, pod(fmt.Sprintf("many-%d", i), "", of("many"), func(p *corev1.Pod) { change(i, p) }))
		}
		return pods
	}
	areGoing := many(func(_ int, p *corev1.Pod) { going(p) })
	t.Run("a pod goes with the first of a namespace that has hundreds", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.delay = time.Second
			c.run(10, 1)
			assert.Contains(t, c.after(2500*time.Millisecond), "web goes",
				"300 pods of one namespace are to go and one of another, and a deletion takes a second")
		}, append(areGoing, pod("web", "", going, of("few")))...)
	})
	t.Run("a pod has its turn though all that are older are refused", func(t *testing.T) {
		t.Parallel()
		pods := []runtime.Object{node("here", yes), ended("web", failed, 50), ended("kept", failed, 60)}
		for i := range 40 {
			pods = append(pods, ended(fmt.Sprintf("refused-%d", i), failed, i))
		}
		play(t, func(c *cluster) {
			for i := range 40 {
				c.refuse(fmt.Sprintf("delete refused-%d", i), errors.New("a policy does not want it"))
			}
			c.delay = time.Second
			c.run(1, 1)
			assert.Contains(t, c.after(20*time.Minute), "web goes", "of 42 pods that have ended 1 is kept, a deletion takes a second, and those of the 40 oldest are refused")
		}, pods...)
	})
	t.Run("a pod that comes while hundreds go does not wait for them", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.delay = time.Second
			c.run(10, 1)
			c.after(10 * time.Second)
			c.add(pod("web", "", going, of("few")))
			assert.Contains(t, c.after(15*time.Second), "web goes", "300 pods of one namespace are to go, one a second. "+
				"After 10 s one of another is to go, too, and 15 s have passed since")
		}, areGoing...)
	})
	t.Run("hundreds of nodes that are not there are not asked for first", func(t *testing.T) {
		t.Parallel()
		play(t, func(c *cluster) {
			c.delay = time.Second
			c.run(10, 1)
			c.after(30 * time.Second)
			c.add(pod("web", "", going, of("few")))
			story := c.after(60 * time.Second)
			assert.Contains(t, story, "web goes", "300 pods of one namespace are bound to 300 nodes that are not there")
			assert.LessOrEqual(t, c.questions, 60, "questions for nodes within 90 s, of which the first 40 are quarantine: %s", story)
		}, many(func(i int, p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("nowhere-%d", i) })...)
	})
}

func TestOnlyThePodThatWasJudgedGoes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		seen      *corev1.Pod
	}{
		{"a pod that has taken over the name of one that ended stays", pod("web", "moon", phase(failed))},
		{"a pod that has taken over the name of an orphan is not marked", pod("web", "moon")},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, func(c *cluster) {
				c.lateFor("pods")
				c.run(10, 1)
				require.NoError(t, c.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", "web"))
				c.add(pod("web", "here", func(p *corev1.Pod) { p.UID = "another" }), node("here", yes))
				assert.Equal(t, "nothing", c.after(3*time.Minute), "the cache shows a pod on a node that is gone; by now another pod has its name")
				assert.Equal(t, "Running []", fmt.Sprint(c.pod("shop", "web").Status.Phase, " ", c.pod("shop", "web").Status.Conditions), "that pod afterwards")
			}, test.seen)
		})
	}
}

// A binding may name anything: the API server only asks that it is not empty.
func TestANodeWhoseNameNoNodeCanHaveIsGoneAndNotAskedFor(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"..": false, "../pods": false, "a/b": false, "a%2fb": false, strings.Repeat("a", 253): true} {
		t.Run(fmt.Sprintf("%.12q", name), func(t *testing.T) {
			t.Parallel()
			play(t, func(c *cluster) {
				c.run(10, 1)
				assert.Equal(t, "web goes, Failed, "+condition, c.after(85*time.Second), "a pod is bound to %q", name)
				assert.Equal(t, asked, c.questions > 0, "the API server was asked for the node %q", name)
			}, pod("web", name))
		})
	}
}

// counted returns the value of a counter for a namespace and a reason.
func counted(t *testing.T, name, namespace, reason string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["namespace"] == namespace && labels["reason"] == reason {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestDeletionsAreCounted(t *testing.T) {
	t.Parallel()
	of := func(namespace string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = namespace } }
	for _, test := range []struct {
		behaviour, reason string
		threshold         int
		objects           []runtime.Object
		refused           map[string]error // by request
		want              string
	}{
		{"a pod too many is counted as terminated", "terminated", 1, []runtime.Object{
			pod("a", "here", of("terminated"), phase(failed)), pod("b", "here", of("terminated"), phase(failed)), node("here", yes)}, nil, "1 deleted, 0 failed"},
		{"a pod of a node that is gone is counted as orphaned", "orphaned", 1, []runtime.Object{pod("a", "moon", of("orphaned"))}, nil, "1 deleted, 0 failed"},
		{"a terminating pod without a node is counted as unscheduled", "unscheduled", 1, []runtime.Object{pod("a", "", of("unscheduled"), going)}, nil, "1 deleted, 0 failed"},
		{"a pod of a node out of service is counted so", "out-of-service", 1, []runtime.Object{pod("a", "here", of("out-of-service"), going), node("here", no, taint)}, nil, "1 deleted, 0 failed"},
		{"a failure is counted beside the attempt", "unscheduled", 1, []runtime.Object{pod("a", "", of("failures"), going)},
			map[string]error{"delete pods": errors.New("not now")}, "5 deleted, 5 failed"},
		{"a pod that is gone already is no failure", "unscheduled", 1, []runtime.Object{pod("a", "", of("gone"), going)},
			map[string]error{"delete pods": apierrors.NewNotFound(corev1.Resource("pods"), "a")}, "5 deleted, 0 failed"},
		{"a pod whose name another has by now is no failure", "unscheduled", 1, []runtime.Object{pod("a", "", of("replaced"), going)},
			map[string]error{"delete pods": hasAnotherUID("a")}, "5 deleted, 0 failed"},
		{"a mark for a pod whose name another has by now is no failure", "unscheduled", 1, []runtime.Object{pod("a", "", of("replaced-mark"), going)},
			map[string]error{"patch pods/status": invalid("metadata", "uid")}, "5 deleted, 0 failed"},
		{"a mark that is invalid for another reason is a failure", "unscheduled", 1, []runtime.Object{pod("a", "", of("refused-mark"), going)},
			map[string]error{"patch pods/status": invalid("status", "phase")}, "5 deleted, 5 failed"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			namespace := test.objects[0].(*corev1.Pod).Namespace
			figures := func() (deleted, failed float64) {
				return counted(t, "pod_gc_collector_force_delete_pods_total", namespace, test.reason),
					counted(t, "pod_gc_collector_force_delete_pod_errors_total", namespace, test.reason)
			}
			play(t, func(c *cluster) {
				for request, err := range test.refused {
					c.refuse(request, err)
				}
				deletedBefore, failedBefore := figures()
				c.run(test.threshold, 1)
				c.after(85 * time.Second)
				deleted, failed := figures()
				assert.Equal(t, test.want, fmt.Sprintf("%v deleted, %v failed", deleted-deletedBefore, failed-failedBefore),
					"pods counted in %s with reason %s after 85 s", namespace, test.reason)
			}, test.objects...)
		})
	}
}
