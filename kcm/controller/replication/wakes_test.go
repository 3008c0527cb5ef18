package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop for sets of a kind. It notes what it is asked to
// look at, and syncs that only if it is said to.
func starting(client *fake.Clientset, kind string, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		apps, core := factory.Apps().V1(), factory.Core().V1()
		var c *Controller
		if kind == "ReplicaSet" {
			c = NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, 10)
		} else {
			c = NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), client, 10)
		}
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// whoIsWoken has the cluster changed while the loop only notes what it is asked to look
// at, or syncs it as well, and returns that.
func whoIsWoken(t *testing.T, client *fake.Clientset, kind string, syncs bool, change func(ctx context.Context) error) string {
	t.Helper()
	return bubble.Woken(t, client, starting(client, kind, syncs), change)
}

// ofKind returns a set as an object of that kind.
func ofKind(kind string, set *appsv1.ReplicaSet) runtime.Object {
	if kind == "ReplicaSet" {
		return set
	}
	return toReplicationController(set)
}

// theirs says of pods that their owners are of that kind.
func theirs(kind string, pods ...*corev1.Pod) (objects []runtime.Object) {
	for _, pod := range pods {
		for i := range pod.OwnerReferences {
			pod.OwnerReferences[i].Kind = kind
		}
		objects = append(objects, pod)
	}
	return objects
}

// What decisions read of other objects:
//
//   - a pod: owner, labels, whether it is to go, phase, conditions; and to choose which
//     pods go, node, restarts, times and the cost in an annotation. Any change of a pod
//     wakes its set: it waits a tenth of a second for more, and one sync sees all;
//   - pods of sets with the same owner, to choose which pods go. These wake nobody: when
//     pods are to go they are all read anew.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	pod := func(name string, edit func(*corev1.Pod)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Pods("ns"), name, edit)
		}
	}
	set := func(edit func(metav1.Object, *int32)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			if list, _ := client.AppsV1().ReplicaSets("ns").List(ctx, metav1.ListOptions{}); len(list.Items) > 0 {
				return bubble.Edit(ctx, client.AppsV1().ReplicaSets("ns"), "web", func(s *appsv1.ReplicaSet) { edit(s, s.Spec.Replicas) })
			}
			return bubble.Edit(ctx, client.CoreV1().ReplicationControllers("ns"), "web", func(s *corev1.ReplicationController) { edit(s, s.Spec.Replicas) })
		}
	}
	creates := func(app string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Pods("ns").Create(ctx, podOf("", named("new"), labelled(app)), metav1.CreateOptions{})
			return err
		}
	}
	deletes := func(name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Pods("ns").Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a set is scaled":                {set(func(_ metav1.Object, replicas *int32) { *replicas = 7 }), "web"},
		"a set has a note":               {set(func(s metav1.Object, _ *int32) { s.SetAnnotations(map[string]string{"note": "x"}) }), "web"},
		"an orphan comes that is wanted": {creates("other"), "other"},
		"an orphan comes that is not":    {creates("nobody"), ""},
		"an orphan is wanted now":        {pod("orphan", labelled("web")), "web"},
		"an orphan has a note":           {pod("orphan", func(p *corev1.Pod) { p.Annotations = map[string]string{"note": "x"} }), ""},
		"a pod goes":                     {deletes("mine"), "web"},
		"a pod is to go":                 {pod("mine", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), "web"},
		"a pod ends":                     {pod("mine", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "web"},
		"a pod is ready":                 {pod("mine", ready), "web"},
		"a pod is bound":                 {pod("mine", func(p *corev1.Pod) { p.Spec.NodeName = "n" }), "web"},
		"a pod is to cost more":          {pod("mine", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "7"} }), "web"},
		"a pod has other labels":         {pod("mine", labelled("nobody")), "web"},
		"a pod is released":              {pod("mine", func(p *corev1.Pod) { p.OwnerReferences = nil; labelled("other")(p) }), "other web"},
		"a pod is another set's":         {pod("mine", func(p *corev1.Pod) { p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "other", "other-1" }), "other web"},
		"a pod of nobody's set changes":  {pod("stranger", ready), ""},
		"a pod of a set that went by":    {deletes("stranger"), ""},
		"a pod of the same owner's":      {pod("sibling", ready), "sibling"},
		"a node goes of which a pod says": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{})
		}, ""},
	} {
		for _, kind := range []string{"ReplicaSet", "ReplicationController"} {
			t.Run(kind+": "+what, func(t *testing.T) {
				t.Parallel()
				web, other, sibling := testSet(1), testSet(1), testSet(1)
				other.Name, other.UID, other.Spec.Selector.MatchLabels = "other", "other-1", map[string]string{"app": "other"}
				sibling.Name, sibling.UID, sibling.Spec.Selector.MatchLabels = "sibling", "sibling-1", map[string]string{"app": "sibling"}
				owner := []metav1.OwnerReference{{Kind: "Deployment", Name: "d", UID: "d", Controller: new(true)}}
				web.OwnerReferences, sibling.OwnerReferences = owner, owner
				client := fake.NewClientset(append(theirs(kind, podOf("web-1", named("mine")), podOf("", named("orphan"), labelled("nobody")),
					podOf("gone-1", named("stranger")), podOf("sibling-1", named("sibling"), labelled("sibling"))),
					ofKind(kind, web), ofKind(kind, other), ofKind(kind, sibling), node.DeepCopy())...)
				assert.Equal(t, test.want, whoIsWoken(t, client, kind, false, func(ctx context.Context) error { return test.change(ctx, client) }))
			})
		}
	}
}

// ready has a pod be ready since the time at which bubbles begin.
func ready(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: atMidnight(0)}}
}

// atMidnight is the time at which bubbles begin, and so long after it.
func atMidnight(later time.Duration) metav1.Time {
	return metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(later))
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	rejected := func(name string, at time.Duration) *corev1.Pod {
		return podOf("web-1", named(name), func(p *corev1.Pod) {
			p.CreationTimestamp, p.Status.Phase, p.Status.Reason = atMidnight(at), corev1.PodFailed, "OutOfcpu"
		})
	}
	for what, test := range map[string]struct {
		edit func(set *appsv1.ReplicaSet)
		pods []*corev1.Pod
		deaf bool
		want string
	}{
		"the minReadySeconds of a pod are over":   {edit: func(s *appsv1.ReplicaSet) { s.Spec.MinReadySeconds = 180 }, pods: []*corev1.Pod{podOf("web-1", ready)}, want: "web"},
		"a pod is ready and no time is asked for": {pods: []*corev1.Pod{podOf("web-1", ready)}},
		"the pause after rejected pods is over":   {pods: []*corev1.Pod{rejected("a", -4*time.Minute), rejected("b", 0)}, want: "web"},
		"a pod that was created is never shown":   {deaf: true, want: "web"},
	} {
		for _, kind := range []string{"ReplicaSet", "ReplicationController"} {
			t.Run(kind+": "+what, func(t *testing.T) {
				t.Parallel()
				set := testSet(1)
				if test.edit != nil {
					test.edit(set)
				}
				var pods []*corev1.Pod
				for _, pod := range test.pods {
					pods = append(pods, pod.DeepCopy())
				}
				client := fake.NewClientset(append(theirs(kind, pods...), ofKind(kind, set))...)
				if test.deaf {
					bubble.Deaf(client, "pods")
				}
				assert.Equal(t, test.want, whoIsWoken(t, client, kind, true, bubble.Nothing))
			})
		}
	}
}

// answersAhead has the API server be ahead of a cache that is late: each pod is going.
func answersAhead(client *fake.Clientset) {
	bubble.Ahead(client)
	going := podOf("web-1", func(p *corev1.Pod) { p.ResourceVersion, p.DeletionTimestamp = "100", new(metav1.Now()) })
	client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action := action.(type) {
		case clienttesting.PatchAction:
			return true, going, nil
		case clienttesting.DeleteAction:
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "pod", errors.New("the ResourceVersion in the precondition is another"))
		case clienttesting.ListAction:
			return !action.GetListRestrictions().Fields.Empty(), &corev1.PodList{Items: []corev1.Pod{*going}}, nil
		}
		return false, nil, nil
	})
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	latePods := func(c *Controller) { c.podWrites = newOwnWrites(corev1.Resource("pods"), bubble.Late{}) }
	lateSets := func(c *Controller) { c.setWrites = newOwnWrites(corev1.Resource("replicasets"), bubble.Late{}) }
	unknown := func(c *Controller) { c.podWrites = newOwnWrites(corev1.Resource("pods"), new(version)) }
	for what, test := range map[string]struct {
		late func(c *Controller)
		size int32
		pods []runtime.Object
		last error
	}{
		"no cache shows the status":            {lateSets, 3, nil, controller.ErrStaleCache},
		"no cache shows the pods":              {latePods, 3, nil, controller.ErrStaleCache},
		"no cache shows a pod's adoption":      {latePods, 1, []runtime.Object{podOf("")}, controller.ErrStaleCache},
		"no cache shows that a pod is going":   {latePods, 0, []runtime.Object{podOf("web-1")}, controller.ErrStaleCache},
		"nor can the cache tell how far it is": {unknown, 0, []runtime.Object{podOf("web-1")}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(append(test.pods, testSet(test.size))...)
			answersAhead(client)
			sent := func() int { return len(client.Actions()) }
			var last error
			keep := func(c *Controller) { bubble.Last(&c.loop.Sync, &last) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, "ReplicaSet", true, test.late, keep), sent), bubble.Most)
			assert.ErrorIs(t, last, test.last, "whether it still waits")
		})
	}
}
