package nodelifecycle

import (
	"errors"
	"fmt"
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
)

// isUnknownNow is what is written of a node that has fallen silent.
const isUnknownNow = "? Ready, ? MemoryPressure, ? DiskPressure, ? PIDPressure"

func TestANodeThatIsNotHeardIsUnknown(t *testing.T) {
	t.Parallel()
	never := func(*world) {}
	for _, test := range []struct {
		behaviour, situation string
		nodes                []runtime.Object
		before, happens      func(w *world)
		want                 string // of node-1
	}{
		{"a node that is heard is left alone", "its Lease is renewed every 10 s", well("node-1", "node-2"), never, never, "nothing"},
		{"a node is unknown when nothing was heard for the grace period", "its Lease is renewed for the last time at 00:01", well("node-1", "node-2"), never, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1")
		}, "00:01:50 node-1: " + isUnknownNow + "; 00:01:50 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"a node that was never heard has the grace period from when it was seen", "there is no Lease, and its status is of yesterday", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
		}, never, "00:00:50 node-1: " + isUnknownNow + "; 00:00:50 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"a status alone keeps a node", "its Lease is never renewed, and its status every 30 s", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
		}, func(w *world) {
			for i := range 12 {
				w.at(time.Duration(i) * 30 * time.Second)
				w.node("node-1", say("Ready"))
			}
		}, "00:06:20 node-1: " + isUnknownNow + "; 00:06:20 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"what others write of it does not", "its Lease is never renewed, and somebody labels it every 30 s", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
		}, func(w *world) {
			for i := range 3 {
				w.at(time.Duration(i) * 15 * time.Second)
				w.node("node-1", func(n *corev1.Node) { n.Labels["i"] = fmt.Sprint(i) })
			}
		}, "00:00:50 node-1: " + isUnknownNow + "; 00:00:50 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"a Lease whose time goes back is a heartbeat", "its clock is set back by an hour", well("node-1", "node-2"), never, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1")
			for i := range 6 {
				w.at(time.Minute + time.Duration(i)*10*time.Second)
				lease := stored(w.leases.Get("node-1"))
				lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
				stored(w.leases.Update(lease))
				w.show()
			}
			w.at(2*time.Minute + 29*time.Second)
			w.alive["node-1"] = true
		}, "nothing"},
		{"a Lease that gets its first time is a heartbeat", "its Lease is written without a time, and gets one 40 s later", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
			w.add(testLease("node-1"))
		}, func(w *world) {
			w.at(40 * time.Second)
			w.beat("node-1")
			w.show()
			w.at(75 * time.Second)
			w.alive["node-1"] = true
		}, "nothing"},
		{"a Lease of whose time nothing changes is none", "somebody labels its Lease every 10 s", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
			w.add(testLease("node-1"))
		}, func(w *world) {
			for i := range 6 {
				w.at(time.Duration(i) * 10 * time.Second)
				lease := stored(w.leases.Get("node-1"))
				lease.Labels = map[string]string{"i": fmt.Sprint(i)}
				stored(w.leases.Update(lease))
				w.show()
			}
		}, "00:00:50 node-1: " + isUnknownNow + "; 00:00:50 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"a Lease elsewhere is another's", "a Lease in another namespace that has its name is renewed every 10 s", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
			lease := testLease("node-1")
			lease.Namespace = "kube-system"
			w.add(lease)
			w.alive["node-1"] = true
		}, func(w *world) { w.at(time.Minute); w.silence("node-1") },
			"00:00:50 node-1: " + isUnknownNow + "; 00:00:50 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"a node that has never said how it is has the time to start", "it is created at midnight without conditions", []runtime.Object{young("node-1"), well("node-2")[0]}, func(w *world) {
			w.silence("node-1")
		}, never, "00:01:00 node-1: " + isUnknownNow + "; 00:01:00 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"it has the same time again if its Lease is renewed", "it is created at midnight without conditions, and its Lease is renewed until 00:01", []runtime.Object{young("node-1"), well("node-2")[0]}, never, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1")
		}, "00:02:00 node-1: " + isUnknownNow + "; 00:02:00 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"the time to start may be shorter than the grace period", "it is created at midnight without conditions, has 10 s to start, and the grace is 20 s", []runtime.Object{young("node-1"), well("node-2")[0]}, func(w *world) {
			w.startup, w.grace = 10*time.Second, 20*time.Second
			w.silence("node-1")
		}, never, "00:00:10 node-1: " + isUnknownNow + "; 00:00:10 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"it ends when it would have, whichever process leads", "it is created at midnight without conditions, and at 00:00:30 another process leads", []runtime.Object{young("node-1"), well("node-2")[0]}, func(w *world) {
			w.silence("node-1")
		}, func(w *world) { w.at(30 * time.Second); w.restart() }, "00:01:00 node-1: " + isUnknownNow + "; 00:01:00 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"the first that it says is a heartbeat, though it does not say when", "it is created at midnight without conditions, and says at 00:00:55 that it is ready, without a time", []runtime.Object{young("node-1"), well("node-2")[0]}, func(w *world) {
			w.silence("node-1")
		}, func(w *world) {
			w.at(55 * time.Second)
			w.node("node-1", say("Ready"), func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Time{} })
		}, "00:01:45 node-1: " + isUnknownNow + "; 00:01:50 node-1: has unreachable:NoSchedule unreachable:NoExecute"},
		{"with a period that is longer than the grace, that counts", "the period is an hour, the grace 50 s, and it is silent for half an hour", well("node-1", "node-2"), func(w *world) {
			w.period = time.Hour
			w.silence("node-1")
		}, func(w *world) { w.at(30 * time.Minute); w.alive["node-1"] = true }, "nothing"},
		{"also for one that has never said how it is", "the period is an hour, the time to start a minute, and it is silent for half an hour", []runtime.Object{young("node-1"), well("node-2")[0]}, func(w *world) {
			w.period, w.grace = time.Hour, time.Second
			w.silence("node-1")
		}, func(w *world) { w.at(30 * time.Minute); w.heal("node-1") }, "nothing"},
		{"a node that is heard again is as before", "it falls silent at 00:01, and is heard again at 00:03", well("node-1", "node-2"), never, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1")
			w.at(3 * time.Minute)
			w.heal("node-1")
		}, "00:01:50 node-1: " + isUnknownNow + "; 00:01:50 node-1: has unreachable:NoSchedule unreachable:NoExecute; 00:03:00 node-1: has no taint"},
		{"another node of its name starts afresh", "it falls silent at midnight, and 40 s later there is another node of its name", well("node-1", "node-2"), func(w *world) {
			w.silence("node-1")
		}, func(w *world) {
			w.at(40 * time.Second)
			require.NoError(t, w.nodes.Delete("node-1"))
			w.comes(well("node-1")[0])
			w.silence("node-1")
			w.at(89 * time.Second)
			w.heal("node-1")
		}, "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			playWith(t, test.before, func(w *world) {
				test.happens(w)
				assert.Equal(t, test.want, w.at(8*time.Minute).of("^[0-9:]+ node-1:"), "what is written of node-1 until 00:08, with a grace period of 50 s: %s", test.situation)
			}, test.nodes...)
		})
	}
}

// young is a node that was created at midnight and has not said how it is.
func young(name string) *corev1.Node {
	node := testNode(name)
	node.CreationTimestamp = metav1.NewTime(midnight)
	return node
}

func TestALateWatchOfLeasesMakesNoNodeUnknown(t *testing.T) {
	t.Parallel()
	t.Run("a node whose Lease is renewed unseen is left alone", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.late["leases"] = true
			before := w.requests
			assert.Equal(t, "nothing", w.at(11*time.Minute).of("^[0-9:]+ node-.:"), "the watch of Leases is late for ten minutes")
			assert.LessOrEqual(t, w.requests-before, 3, "requests in these minutes: it is asked once which Leases there are, and then waited for")
			w.late["leases"] = false
			w.at(12 * time.Minute)
			assert.Equal(t, "nothing", w.at(time.Hour).of("^[0-9:]+ node-.:"), "and then it is not any more")
		}, well("node-1", "node-2", "node-3")...)
	})
	t.Run("a node that falls silent meanwhile is found when the watch has caught up", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.late["leases"] = true
			w.at(90 * time.Second)
			w.silence("node-1")
			w.at(3 * time.Minute)
			w.late["leases"] = false
			assert.Regexp(t, `^00:0[34]:.. node-1: \? Ready`, w.at(5*time.Minute).of("^[0-9:]+ node-.:"),
				"the watch of Leases is late from 00:01 to 00:03, and at 00:01:30 node-1 falls silent")
		}, well("node-1", "node-2")...)
	})
	t.Run("a node that falls silent meanwhile is found a grace period after that at the latest", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.late["leases"] = true
			w.at(90 * time.Second)
			w.silence("node-1")
			w.at(11 * time.Minute)
			w.late["leases"] = false
			assert.Regexp(t, `^00:1[12]:.. node-1: \? Ready`, w.at(13*time.Minute).of("^[0-9:]+ node-.:"),
				"the watch of Leases is late from 00:01 to 00:11, and at 00:01:30 node-1 falls silent")
		}, well("node-1", "node-2")...)
	})
	t.Run("a node that is heard while its Lease is asked for is left alone", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			asked := 0
			w.silence("node-1")
			w.refuse = func(request string) error {
				if asked++; request == "list leases" && asked == 1 {
					w.beat("node-1")
					w.leaseCache.CatchUp()
				}
				return nil
			}
			assert.Regexp(t, `^00:01:40 node-1: \? Ready`, w.at(2*time.Minute).of("^[0-9:]+ node-.:"),
				"the last heartbeat comes when nothing was heard for the grace period of 50 s, before the API server has answered")
		}, well("node-1", "node-2")...)
	})
	t.Run("a node of which nobody can tell whether it is silent has its taints", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.silence("node-1")
			w.refuse = func(request string) error {
				if request == "list leases" {
					return apierrors.NewInternalError(errors.New("no leader"))
				}
				return nil
			}
			w.at(time.Minute)
			w.node("node-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			assert.Equal(t, "00:01:00 node-1: has unschedulable:NoSchedule", w.at(10*time.Minute).of("^[0-9:]+ node-.:"),
				"node-1 is silent since midnight, nobody may look at its Lease, and at 00:01 it is cordoned")
		}, well("node-1", "node-2")...)
	})
	t.Run("what is in the cache, and of which no handler was told, does not count", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.late["leases"] = true
			w.at(65 * time.Second)
			for i := range 10 {
				w.at(65*time.Second + time.Duration(i)*10*time.Second)
				w.leaseCache.Show(100)
			}
			assert.Equal(t, "nothing", w.at(165*time.Second).of("^[0-9:]+ node-.:"), "from 00:01 to 00:02:45 the cache is told of Leases, and no handler is")
		}, well("node-1", "node-2")...)
	})
	t.Run("a manager that was told of no Lease waits for the first", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) { w.late["leases"] = true }, func(w *world) {
			assert.Equal(t, "nothing", w.at(3*time.Minute).of("^[0-9:]+ node-.:"), "there were no Leases at midnight, and none is seen until 00:03")
		}, well("node-1")...)
	})
	t.Run("a look that is refused proves nothing", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) {
			w.silence("node-1")
			w.refuse = func(request string) error {
				if request == "list leases" && time.Since(midnight) < 10*time.Minute {
					return apierrors.NewInternalError(errors.New("no leader"))
				}
				return nil
			}
		}, func(w *world) {
			assert.Equal(t, "nothing", w.at(10*time.Minute-time.Second).of("^[0-9:]+ node-.:"), "node-1 is silent, and for ten minutes nobody may look at its Lease")
			assert.LessOrEqual(t, w.requests, 125, "how often that is asked: about every five seconds")
			assert.Regexp(t, `^00:10:0. node-1: \? Ready`, w.at(11*time.Minute).of("^[0-9:]+ node-.:"))
		}, well("node-1", "node-2")...)
	})
	t.Run("without a look it goes by the cache", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) {
			w.blind = true
			w.silence("node-1")
		}, func(w *world) {
			assert.Regexp(t, `^00:00:50 node-1: \? Ready`, w.at(time.Minute).of("^[0-9:]+ node-.:"))
			w.late["leases"] = true
			assert.Regexp(t, `00:0.:.. node-2: \? Ready`, w.at(3*time.Minute).of("^[0-9:]+ node-.:"))
		}, well("node-1", "node-2")...)
	})
}

func TestAllIsToldInEvents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		happens              func(w *world)
		want                 string
	}{
		{"that a node has fallen silent", "node-1 falls silent at midnight", func(w *world) { w.silence("node-1") },
			"00:00:50 event Normal NodeNotReady for uid-node-1-2: Node node-1 status is now: NodeNotReady"},
		{"of one that was not ready nothing new", "node-1 is not ready, and falls silent at midnight", func(w *world) {
			w.node("node-1", say("not Ready"))
			w.silence("node-1")
		}, "nothing"},
		{"that a node has come", "node-3 comes", func(w *world) { w.comes(well("node-3")[0]) },
			"00:00:00 event Normal RegisteredNode for uid-node-3-4: Node node-3 event: Registered Node node-3 in Controller"},
		{"that a node is gone", "node-1 goes", func(w *world) {
			_ = w.nodes.Delete("node-1")
			w.show()
		}, "00:00:00 event Normal RemovingNode for uid-node-1-2: Node node-1 event: Removing Node node-1 from Controller"},
		{"that another node has its name", "node-1 goes and comes back", func(w *world) {
			_ = w.nodes.Delete("node-1")
			w.comes(well("node-1")[0])
		}, "00:00:00 event Normal RemovingNode for uid-node-1-2: Node node-1 event: Removing Node node-1 from Controller; " +
			"00:00:00 event Normal RegisteredNode for uid-node-1-5: Node node-1 event: Registered Node node-1 in Controller"},
		{"nothing of what was refused", "node-1 falls silent, and that may not be written", func(w *world) {
			w.refuse = func(request string) error {
				if request == "patch nodes/status" {
					return apierrors.NewForbidden(corev1.Resource("nodes"), "node-1", errors.New("not now"))
				}
				return nil
			}
			w.silence("node-1")
		}, "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.story = nil
				test.happens(w)
				assert.Equal(t, test.want, w.at(2*time.Minute).of("event"), "events until 00:02: %s", test.situation)
			}, well("node-1", "node-2")...)
		})
	}
}

func TestPodsOfASilentNodeAreNotReady(t *testing.T) {
	t.Parallel()
	silence := func(w *world) { w.silence("node-1") }
	for _, test := range []struct {
		behaviour, situation string
		pod                  *corev1.Pod
		before, happens      func(w *world)
		want                 string
	}{
		{"a ready pod is marked when its node is unknown", "the node falls silent at midnight", testPod("web", "node-1", yes), silence, nil,
			"00:00:50 web: not Ready; 00:00:50 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"so is one of which nobody knows", "and whether the pod is ready is unknown", testPod("web", "node-1", unsaid), silence, nil,
			"00:00:50 web: not Ready; 00:00:50 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"one that is not ready is left alone", "the pod is not ready", testPod("web", "node-1", no), silence, nil, "nothing"},
		{"one that has never said so is left alone", "the pod has no such condition", testPod("web", "node-1", ""), silence, nil, "nothing"},
		{"one on another node is left alone", "the pod is on another node", testPod("web", "node-2", yes), silence, nil, "nothing"},
		{"a node that was not ready before marks its pods, too", "the node says at midnight that it is not ready, and falls silent", testPod("web", "node-1", yes), func(w *world) {
			w.silence("node-1")
			n := stored(w.nodes.Get("node-1"))
			say("not Ready")(n)
			stored(w.nodes.Update(n))
		}, nil, "00:00:50 web: not Ready; 00:00:50 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"a node that says that it is not ready has the last word on its pods", "the node says so, and lives", testPod("web", "node-1", yes), func(*world) {}, func(w *world) {
			w.node("node-1", say("not Ready"))
		}, "nothing"},
		{"a pod that is bound later is marked", "the pod is bound at 00:01", testPod("web", "", yes), silence, func(w *world) {
			w.at(time.Minute)
			w.pod("web", func(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" })
		}, "00:01:00 web: not Ready; 00:01:00 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"a pod that comes later is marked", "the pod comes at 00:01", nil, silence, func(w *world) {
			w.at(time.Minute)
			w.comes(testPod("web", "node-1", yes))
		}, "00:01:00 web: not Ready; 00:01:00 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"a kubelet that says something else after that has the last word", "at 00:01 the pod is ready again, before its node is", testPod("web", "node-1", yes), silence, func(w *world) {
			w.at(time.Minute)
			w.pod("web", func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = yes })
			w.at(65 * time.Second)
			w.pod("web", func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} })
		}, "00:00:50 web: not Ready; 00:00:50 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"when its node is silent a second time, it is marked again", "at 00:01 all is well again, until 00:02", testPod("web", "node-1", yes), silence, func(w *world) {
			w.at(time.Minute)
			w.heal("node-1")
			w.pod("web", func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = yes })
			w.at(2 * time.Minute)
			w.silence("node-1")
		}, "00:00:50 web: not Ready; 00:00:50 event Warning NodeNotReady for uid-web-2: Node is not ready; 00:02:50 web: not Ready"},
		{"another pod of its name is marked as well", "at 00:01 there is another pod of its name", testPod("web", "node-1", yes), silence, func(w *world) {
			w.at(time.Minute)
			_ = w.pods.Delete("web")
			w.comes(testPod("web", "node-1", yes))
		}, "00:00:50 web: not Ready; 00:00:50 event Warning NodeNotReady for uid-web-2: Node is not ready; 00:01:00 web: not Ready; " +
			"00:01:00 event Warning NodeNotReady for uid-web-5: Node is not ready"},
		{"the next leader marks what the last one has not", "the leader dies when it has written that the node is unknown", testPod("web", "node-1", yes), func(w *world) {
			w.silence("node-1")
			w.refuse = func(request string) error {
				if request == "patch pods/status" && time.Since(midnight) < time.Minute {
					return errors.New("it is dead")
				}
				return nil
			}
		}, func(w *world) {
			w.at(time.Minute)
			w.restart()
		}, "00:01:00 web: not Ready; 00:01:00 event Warning NodeNotReady for uid-web-2: Node is not ready"},
		{"what is refused is tried again", "for half a minute from 00:00:50 on it may not be written", testPod("web", "node-1", yes), func(w *world) {
			w.silence("node-1")
			w.refuse = func(request string) error {
				if request == "patch pods/status" && time.Since(midnight) < 80*time.Second {
					return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil)
				}
				return nil
			}
		}, nil, "00:01:30 web: not Ready; 00:01:30 event Warning NodeNotReady for uid-web-2: Node is not ready"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			objects := well("node-1", "node-2")
			if test.pod != nil {
				objects = append(objects, test.pod)
			}
			playWith(t, test.before, func(w *world) {
				if test.happens != nil {
					test.happens(w)
				}
				assert.Equal(t, test.want, w.at(5*time.Minute).of("web"), "what is written of a pod until 00:05: %s", test.situation)
			}, objects...)
		})
	}
	t.Run("why it was ready or not stays as its kubelet has said it", func(t *testing.T) {
		t.Parallel()
		playWith(t, silence, func(w *world) {
			w.at(time.Minute)
			ready := stored(w.pods.Get("web")).Status.Conditions[0]
			assert.True(t, ready.LastTransitionTime.Time.Equal(midnight.Add(50*time.Second)))
			ready.LastTransitionTime = metav1.Time{}
			assert.Equal(t, corev1.PodCondition{Type: corev1.PodReady, Status: no, Reason: "KubeletSays", Message: "as it says"}, ready)
		}, append(well("node-1", "node-2"), testPod("web", "node-1", yes))...)
	})
}

func TestManyNodesAreEvictedInTurns(t *testing.T) {
	t.Parallel()
	names := []string{"node-1", "node-2", "node-3", "node-4", "node-5"}
	t.Run("the second node waits ten seconds, and of three in five none is evicted any more", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1", "node-2")
			assert.Regexp(t, "^00:01:50 node-[12]: has unreachable:NoSchedule unreachable:NoExecute; 00:02:00 node-[12]: has unreachable:NoSchedule unreachable:NoExecute$", w.at(5*time.Minute).of("NoExecute"),
				"two of five nodes fall silent at the same time")
			w.silence("node-3")
			assert.NotContains(t, w.at(time.Hour).of("NoExecute"), "node-3", "and a third one")
			w.heal("node-2")
			assert.Regexp(t, "01:00:(09|10) node-3: has unreachable:NoSchedule unreachable:NoExecute$", w.at(2*time.Hour).of("NoExecute"), "one is heard again at 01:00 (a float32 is not exact)")
		}, well(names...)...)
	})
	t.Run("when no node is ready, nobody is evicted, and who was is not any more", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1")
			w.at(5 * time.Minute)
			assert.Contains(t, inWords(stored(w.nodes.Get("node-1")).Spec.Taints), "unreachable:NoExecute", "one node is silent")
			w.silence(names...)
			w.at(time.Hour)
			for _, name := range names {
				assert.Equal(t, "unreachable:NoSchedule", inWords(stored(w.nodes.Get(name)).Spec.Taints), "and then all are: taints of %s", name)
			}
			w.heal("node-5")
			assert.Equal(t, "nothing", w.at(time.Hour+9*time.Second).of("01:00.* has .*NoExecute"), "one is heard again at 01:00, and four of five are silent")
			for _, name := range names[1:4] {
				w.heal(name)
			}
			assert.Regexp(t, "01:00:1[89] node-1: has unreachable:NoSchedule unreachable:NoExecute$", w.at(2*time.Hour).of("NoExecute"), "all but one are, ten seconds after that")
		}, well(names...)...)
	})
	t.Run("taints stay when another process leads", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.at(time.Minute)
			w.silence("node-1")
			w.at(5 * time.Minute)
			before := stored(w.nodes.Get("node-1")).ResourceVersion
			w.restart()
			w.at(time.Hour)
			assert.Equal(t, before, stored(w.nodes.Get("node-1")).ResourceVersion, "the version of a silent node before another process has led, and an hour later")
		}, well(names...)...)
	})
	t.Run("a turn that may not be written is tried again, and is no other's", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.refuse = func(request string) error {
				if request == "patch nodes" && time.Since(midnight) < 5*time.Minute {
					return apierrors.NewForbidden(corev1.Resource("nodes"), "node-1", errors.New("not now"))
				}
				return nil
			}
			w.at(time.Minute)
			w.silence("node-1", "node-2")
			assert.Equal(t, "nothing", w.at(5*time.Minute-time.Second).of("has"), "two of five fall silent at 00:01, and taints may not be written until 00:05")
			assert.Regexp(t, "00:05:0. node-.: has .*NoExecute; 00:05:0. node-.: has .*NoExecute", w.at(6*time.Minute).of("NoExecute"), "their turns have come before")
		}, well(names...)...)
	})
	t.Run("a node that was not ready and falls silent needs no turn", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.node("node-1", say("not Ready"))
			w.at(30 * time.Second)
			w.node("node-2", say("not Ready"))
			w.node("node-3", say("not Ready"))
			w.node("node-1", say("? Ready"))
			assert.Contains(t, w.at(31*time.Second).of("node-1"), "00:00:30 node-1: has unreachable:NoSchedule unreachable:NoExecute", "node-1 is not ready since midnight, silent since 00:00:30, and so are three of five")
		}, well(names...)...)
	})
}

func TestTaintsComeBackAndGoWhoeverHasChangedThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		happens              func(w *world)
		want                 string
	}{
		{"one that somebody takes off comes back", "the cordon stays, and at midnight its taint is taken off", func(w *world) {
			w.node("node-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			w.node("node-1", tainted())
		}, "00:00:00 node-1: has unschedulable:NoSchedule; 00:00:00 node-1: has unschedulable:NoSchedule"},
		{"one that somebody puts on a node that is well goes", "somebody says that it is unreachable", func(w *world) {
			w.node("node-1", tainted(taint("unreachable", noExec), taint("example.com/gpu", noExec)))
		}, "00:00:00 node-1: has example.com/gpu:NoExecute"},
		{"a node that somebody uncordons has none", "it is cordoned and uncordoned", func(w *world) {
			w.node("node-1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			w.node("node-1", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		}, "00:00:00 node-1: has unschedulable:NoSchedule; 00:00:00 node-1: has no taint"},
		{"a node that is ready for the first time loses that of admission", "node-3 comes with it, and is ready", func(w *world) {
			node := well("node-3")[0].(*corev1.Node)
			tainted(taint("not-ready", noSched))(node)
			w.comes(node)
		}, "00:00:00 node-3: has no taint"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				test.happens(w)
				assert.Equal(t, test.want, w.at(10*time.Minute).of("has"), "what is written: %s", test.situation)
			}, well("node-1", "node-2")...)
		})
	}
}

func TestWhatHasChangedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	t.Run("a node that is heard while it is written is not unknown", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) {
			w.silence("node-1")
			w.late["nodes"] = true
		}, func(w *world) {
			w.at(49 * time.Second)
			w.node("node-1", say("Ready"))
			assert.Equal(t, "nothing", w.at(51*time.Second).of("node-1:"), "node-1 speaks again at 00:00:49, and nobody sees that")
			w.late["nodes"] = false
			w.show()
			w.heal("node-1")
			assert.Equal(t, "nothing", w.at(10*time.Minute).of("node-1:"), "then it is seen")
		}, well("node-1", "node-2")...)
	})
	t.Run("a taint of somebody else's that no cache shows stays", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.late["nodes"] = true
			w.node("node-1", tainted(taint("example.com/gpu", noExec)))
			w.nodeCache.Show(0)
			node := stored(w.nodes.Get("node-2"))
			node.Spec.Unschedulable = true
			stored(w.nodes.Update(node))
			w.late["nodes"] = false
			w.show()
			w.node("node-1", say("DiskPressure"))
			assert.Equal(t, "example.com/gpu:NoExecute disk-pressure:NoSchedule", inWords(stored(w.nodes.Get("node-1")).Spec.Taints))
		}, well("node-1", "node-2")...)
	})
	t.Run("what it has written itself is not written again before it is seen", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) { w.silence("node-1") }, func(w *world) {
			w.at(45 * time.Second)
			w.late["nodes"] = true
			assert.Equal(t, "00:00:50 node-1: "+isUnknownNow, w.at(10*time.Minute).of("node-1:"), "the watch of nodes is late from 00:00:45 to 00:10")
			assert.LessOrEqual(t, w.requests, 2, "requests: a look at the Lease, and what is written")
			w.late["nodes"] = false
			w.show()
			assert.Contains(t, w.at(20*time.Minute).of("node-1:"), "00:10:00 node-1: has unreachable:NoSchedule", "then it is seen")
		}, well("node-1", "node-2")...)
	})
	t.Run("what no cache shows is looked at ever less often", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) { w.silence("node-1") }, func(w *world) {
			w.late["nodes"] = true
			w.node("node-1", func(n *corev1.Node) { n.Labels["a"] = "b" })
			assert.Equal(t, "nothing", w.at(10*time.Minute).of("node-1:"), "node-1 is silent, and somebody has labelled it, which no cache shows for ten minutes")
			assert.LessOrEqual(t, w.requests, 2*25, "requests: with each look at the Lease one to write that it is unknown")
			w.late["nodes"] = false
			w.show()
			assert.Contains(t, w.at(10*time.Minute+time.Second).of("node-1:"), "00:10:00 node-1: ? Ready", "then it is seen")
		}, well("node-1", "node-2")...)
	})
	t.Run("a conflict that no cache explains is tried again within a grace period", func(t *testing.T) {
		t.Parallel()
		play(t, func(w *world) {
			w.silence("node-1")
			w.refuse = func(request string) error {
				if request == "patch nodes/status" && time.Since(midnight) < 10*time.Minute {
					return apierrors.NewConflict(corev1.Resource("nodes"), "node-1", errors.New("not now"))
				}
				return nil
			}
			assert.Regexp(t, `^00:10:.. node-1: \? Ready`, w.at(11*time.Minute).of("node-1:"), "node-1 is silent, and until 00:10 that may not be written")
			assert.LessOrEqual(t, w.requests, 2*25, "requests: looks at the Lease and writes, ever less often, but one of each in a grace period")
		}, well("node-1", "node-2")...)
	})
	t.Run("a node that is gone is no failure", func(t *testing.T) {
		t.Parallel()
		playWith(t, func(w *world) { w.silence("node-1") }, func(w *world) {
			w.late["nodes"] = true
			_ = w.nodes.Delete("node-1")
			w.at(10 * time.Minute)
			assert.LessOrEqual(t, w.requests, 2, "requests for a silent node that is gone, which no cache shows: a look at the Lease, and what is written")
		}, well("node-1", "node-2")...)
	})
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.beat("node-1")
		require.NoError(t, w.nodes.Delete("node-1"))
		w.show()
		w.beat("node-1")
		w.show()
		require.NoError(t, w.leases.Delete("node-1"))
		w.show()
		_, heard := w.loop.heard.Load("node-1")
		assert.False(t, heard, "node-1 is gone, its kubelet has renewed its Lease once more, and that is gone, too")
	}, well("node-1", "node-2")...)
}

func TestWhatIsRefusedIsTriedAgainAsOftenAsThePeriodSays(t *testing.T) {
	t.Parallel()
	nodes := corev1.Resource("nodes")
	for what, refusal := range map[string]error{
		"a refusal":           apierrors.NewForbidden(nodes, "node-1", errors.New("not now")),
		"a webhook's refusal": apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "node-1", nil),
		"a failure":           apierrors.NewInternalError(errors.New("no leader")),
		"a lost answer":       apierrors.NewTimeoutError("too late", 0),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			playWith(t, func(w *world) {
				w.silence("node-1")
				w.refuse = func(request string) error {
					if request == "patch nodes/status" && time.Since(midnight) < 10*time.Minute {
						return refusal
					}
					return nil
				}
			}, func(w *world) {
				w.at(5 * time.Minute)
				before := w.requests
				assert.Equal(t, "nothing", w.at(9*time.Minute).of("node-1:"))
				assert.LessOrEqual(t, w.requests-before, 2*48+2, "requests in four minutes: a look and a write every five seconds")
				assert.Regexp(t, `^00:10:0. node-1: \? Ready`, w.at(11*time.Minute).of("node-1:"), "node-1 is silent, and until 00:10 that may not be written")
			}, well("node-1", "node-2")...)
		})
	}
}

// measured returns the metric of a zone.
func measured(t *testing.T, name, zone string) float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "node_collector_"+name && m.GetLabel()[0].GetValue() == zone {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// It is not parallel: the metrics are the process's.
func TestZonesAreMeasured(t *testing.T) {
	zone := func(node runtime.Object) runtime.Object {
		node.(*corev1.Node).Labels = map[string]string{corev1.LabelTopologyRegion: "moon", corev1.LabelTopologyZone: "sea"}
		return node
	}
	of := func(name string) float64 { return measured(t, name, "moon:\x00:sea") }
	nodes := well("node-1", "node-2", "node-3", "node-4")
	for _, node := range nodes {
		zone(node)
	}
	play(t, func(w *world) {
		assert.Zero(t, of("evictions_total"), "evictions of a zone in which all is well")
		w.at(time.Minute)
		w.silence("node-1")
		w.at(5 * time.Minute)
		assert.EqualValues(t, []float64{75, 4, 1, 1}, []float64{of("zone_health"), of("zone_size"), of("unhealthy_nodes_in_zone"), of("evictions_total")},
			"health, size, and nodes that are not ready of a zone in which one of four nodes is silent, and evictions")
		w.node("node-1", say("not Ready"))
		w.at(10 * time.Minute)
		assert.EqualValues(t, 1, of("evictions_total"), "and then says that it is not ready")
		for i := range 4 {
			_ = w.nodes.Delete(fmt.Sprint("node-", i+1))
		}
		w.show()
		assert.EqualValues(t, []float64{100, 0, 0}, []float64{of("zone_health"), of("zone_size"), of("unhealthy_nodes_in_zone")}, "when all are gone")
	}, nodes...)
}
