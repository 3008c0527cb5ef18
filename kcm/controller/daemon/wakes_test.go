package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs
// that only if it is said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		apps, core := factory.Apps().V1(), factory.Core().V1()
		failures := flowcontrol.NewBackOff(3*time.Minute, 10*time.Minute)
		c := New(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client, failures)
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// called returns a DaemonSet of that name, for nodes with a disk of that kind.
func called(name, disk string) *appsv1.DaemonSet {
	return testSet(func(set *appsv1.DaemonSet) {
		set.Name, set.UID, set.Status.ObservedGeneration = name, types.UID("uid-"+name), set.Generation
		set.Spec.Selector.MatchLabels = map[string]string{"app": name}
		set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
		set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": disk}
	})
}

// of gives a pod or a revision to a DaemonSet.
func of[T metav1.Object](set *appsv1.DaemonSet, obj T) T {
	obj.SetLabels(controller.With(obj.GetLabels(), "app", set.Spec.Selector.MatchLabels["app"]))
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, kind)})
	return obj
}

func nodeWith(name, disk string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": disk}}}
}

// What decisions read of other objects:
//
//   - a node: name, labels and taints, as far as the DaemonSet's verdict on it depends on them;
//   - a pod: owner, labels, whether it is to go, phase, readiness, node. Any change of a
//     pod wakes its DaemonSet: it waits a tenth of a second for more, and one sync sees all;
//   - a revision: owner, labels, number, template, whether it is to go. Any change wakes.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	node := func(name string, edit func(*corev1.Node)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Nodes(), name, edit)
		}
	}
	nodeComes := func(name, disk string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Nodes().Create(ctx, nodeWith(name, disk), metav1.CreateOptions{})
			return err
		}
	}
	pod := func(name string, edit func(*corev1.Pod)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Pods("ns"), name, edit)
		}
	}
	podComes := func(pod *corev1.Pod) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods("ns").Create(ctx, pod, metav1.CreateOptions{})
			return err
		}
	}
	revision := func(edit func(*appsv1.ControllerRevision)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.AppsV1().ControllerRevisions("ns"), "agent-new", edit)
		}
	}
	taint := func(effect corev1.TaintEffect, key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
	}
	orphan := func(app string) *corev1.Pod {
		pod := testPod("fast", "orphan", "starting", 1)
		pod.Labels["app"] = app
		return pod
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the DaemonSet has another template": {func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.AppsV1().DaemonSets("ns"), "agent", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.HostNetwork = true })
		}, "agent"},
		"a node comes that is wanted":         {nodeComes("new", "fast"), "agent"},
		"a node comes that is not":            {nodeComes("new", "none"), ""},
		"a node comes back that is unwanted":  {nodeComes("away", "none"), "agent"},
		"a node is wanted now":                {node("plain", func(n *corev1.Node) { n.Labels["disk"] = "slow" }), "other"},
		"a node is wanted by another":         {node("fast", func(n *corev1.Node) { n.Labels["disk"] = "slow" }), "agent other"},
		"a node has another label":            {node("fast", func(n *corev1.Node) { n.Labels["zone"] = "north" }), ""},
		"a node has a taint":                  {node("fast", taint(corev1.TaintEffectNoSchedule, "mine")), "agent"},
		"a node has a taint for what runs":    {node("fast", taint(corev1.TaintEffectNoExecute, "mine")), "agent"},
		"a node has a taint that is accepted": {node("fast", taint(corev1.TaintEffectNoExecute, corev1.TaintNodeNotReady)), ""},
		"a node is not ready":                 {node("fast", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} }), ""},
		"a node has a note":                   {node("fast", func(n *corev1.Node) { n.Annotations = map[string]string{"note": "x"} }), ""},
		"a node goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Nodes().Delete(ctx, "fast", metav1.DeleteOptions{})
		}, "agent"},
		"a pod comes":                       {podComes(of(called("agent", "fast"), testPod("fast", "third", "starting", 1))), "agent"},
		"an orphan comes that is wanted":    {podComes(orphan("other")), "other"},
		"an orphan comes that is not":       {podComes(orphan("nobody")), ""},
		"a pod is ready":                    {pod("fast-old", func(p *corev1.Pod) { p.Status.Conditions = testPod("fast", "old", "ready", 1).Status.Conditions }), "agent"},
		"a pod fails":                       {pod("fast-old", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "agent"},
		"a pod is to go":                    {pod("fast-old", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), "agent"},
		"a pod has another label":           {pod("fast-old", func(p *corev1.Pod) { p.Labels["app"] = "nobody" }), "agent"},
		"a pod is another DaemonSet's":      {pod("fast-old", func(p *corev1.Pod) { of(called("other", "slow"), p) }), "agent other"},
		"a revision has another number":     {revision(func(r *appsv1.ControllerRevision) { r.Revision = 7 }), "agent"},
		"a revision is to go":               {revision(func(r *appsv1.ControllerRevision) { r.DeletionTimestamp = new(metav1.Now()) }), "agent"},
		"a revision is another DaemonSet's": {revision(func(r *appsv1.ControllerRevision) { of(called("other", "slow"), r) }), "agent other"},
		"a revision goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.AppsV1().ControllerRevisions("ns").Delete(ctx, "agent-new", metav1.DeleteOptions{})
		}, "agent"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			agent, other := called("agent", "fast"), called("other", "slow")
			client := fake.NewClientset(agent, other, nodeWith("fast", "fast"), nodeWith("plain", "none"), of(agent, testRevision("new", 1)),
				of(agent, testPod("fast", "old", "starting", 0)), of(agent, testPod("away", "old", "available", 0)))
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	now := func(pod *corev1.Pod) *corev1.Pod { // when bubbles begin
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		return pod
	}
	failing := func(c *Controller) { c.failures.Next(failureKey(called("agent", "fast"), "fast"), time.Now()) }
	for what, test := range map[string]struct {
		pod  *corev1.Pod
		deaf string
		edit func(c *Controller)
		want string
	}{
		"the minReadySeconds of a pod are over": {pod: now(testPod("fast", "new", "ready", 0)), want: "agent"},
		"a pod is not ready":                    {pod: testPod("fast", "new", "starting", 0)},
		"the pause after a failed pod is over":  {pod: testPod("fast", "new", "failed", 0), edit: failing, want: "agent"},
		"a pod that was created is never shown": {deaf: "pods", want: "agent"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			set := called("agent", "fast")
			set.Spec.MinReadySeconds, set.Spec.UpdateStrategy.Type = 180, appsv1.OnDeleteDaemonSetStrategyType
			client := fake.NewClientset(set, nodeWith("fast", "fast"))
			if test.pod != nil {
				require.NoError(t, client.Tracker().Add(of(set, test.pod)))
			}
			if test.deaf != "" {
				bubble.Deaf(client, test.deaf)
			}
			edit := test.edit
			if edit == nil {
				edit = func(*Controller) {}
			}
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, true, edit), bubble.Nothing))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	nothing := func(*Controller) {}
	taken := func(client *fake.Clientset) {
		client.PrependReactor("create", "controllerrevisions", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewAlreadyExists(appsv1.Resource("controllerrevisions"), "agent-new")
		})
		client.PrependReactor("get", "controllerrevisions", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, testRevision("new", 1), nil // of another template
		})
	}
	for what, test := range map[string]struct {
		late    func(c *Controller)
		prepare func(client *fake.Clientset)
	}{
		"no cache shows the status": {late: func(c *Controller) {
			c.setWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(bubble.Late{})}
		}},
		"no cache shows the pods": {late: func(c *Controller) {
			c.podWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(bubble.Late{})}
		}},
		"no cache shows the revisions": {late: func(c *Controller) {
			c.revisionWrites = controller.GatedOwnWrites{OwnWrites: controller.NewOwnWrites(bubble.Late{})}
		}},
		"no cache shows that a name is taken": {late: nothing, prepare: func(client *fake.Clientset) {
			taken(client)
			client.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, called("agent", "fast").DeepCopy(), nil
			})
			bubble.Deaf(client, "daemonsets")
		}},
		"no cache shows other collisions": {late: nothing, prepare: func(client *fake.Clientset) {
			taken(client)
			client.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
				set := called("agent", "fast")
				set.Status.CollisionCount = new(int32(7))
				return true, set, nil
			})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(called("agent", "fast"), nodeWith("fast", "fast"))
			bubble.Ahead(client)
			if test.prepare != nil {
				test.prepare(client)
			}
			sent := func() int { return len(client.Actions()) }
			var last error
			keep := func(c *Controller) { bubble.Last(&c.loop.Sync, &last) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, test.late, keep), sent), bubble.Most)
			assert.ErrorIs(t, last, controller.ErrStaleCache, "it still waits")
		})
	}
}
