package deployment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs
// that only if it is said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		apps, pods := factory.Apps().V1(), factory.Core().V1().Pods()
		if err := pods.Informer().SetTransform(controller.Trim(Reads...)); err != nil {
			panic(err) // it runs already
		}
		c := NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), pods, client)
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - a ReplicaSet: owner, labels, annotations, spec and status. Any change of it wakes
//     its Deployment: all of it is read;
//   - with Recreate, a pod of an old ReplicaSet: whether it is there, and whether its
//     containers may run. That one comes, or is to go, wakes nobody: a Deployment does not
//     wait less for that, and its ReplicaSet tells;
//   - nothing of other pods: their ReplicaSet tells.
func TestALoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	rs := func(name string, edit func(*appsv1.ReplicaSet)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.AppsV1().ReplicaSets("ns"), name, edit)
		}
	}
	d := func(edit func(*appsv1.Deployment)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.AppsV1().Deployments("ns"), "web", edit)
		}
	}
	pod := func(name string, edit func(*corev1.Pod)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Pods("ns"), name, edit)
		}
	}
	podGoes := func(name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Pods("ns").Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	labelled := func(app string) func(*appsv1.ReplicaSet) {
		return func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": app} }
	}
	fails := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a Deployment is scaled":               {d(func(d *appsv1.Deployment) { *d.Spec.Replicas = 7 }), "web"},
		"a Deployment has a note":              {d(func(d *appsv1.Deployment) { d.Annotations = map[string]string{"note": "x"} }), "web"},
		"a ReplicaSet has pods that are ready": {rs("web-v1", func(rs *appsv1.ReplicaSet) { rs.Status.ReadyReplicas = 7 }), "web"},
		"a ReplicaSet cannot create pods": {rs("web-v1", func(rs *appsv1.ReplicaSet) {
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure}}
		}), "web"},
		"a ReplicaSet was scaled by hand":      {rs("web-v1", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 7 }), "web"},
		"a ReplicaSet has another revision":    {rs("web-v1", func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "7" }), "web"},
		"a ReplicaSet has other labels":        {rs("web-v1", labelled("nobody")), "web"},
		"a ReplicaSet is to go":                {rs("web-v1", func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = new(metav1.Now()) }), "web"},
		"a ReplicaSet is another Deployment's": {rs("web-v1", func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].Name, rs.OwnerReferences[0].UID = "db", "uid-db" }), "db web"},
		"an orphan is wanted now":              {rs("orphan", labelled("web")), "web"},
		"an orphan is wanted by nobody":        {rs("orphan", labelled("another")), ""},
		"a ReplicaSet goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.AppsV1().ReplicaSets("ns").Delete(ctx, "web-v1", metav1.DeleteOptions{})
		}, "web"},
		"a pod goes": {podGoes("of-web"), ""},
		"a pod is ready": {pod("of-web", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}), ""},
		"a pod ends":                            {pod("of-web", fails), ""},
		"with Recreate, a pod goes":             {podGoes("of-db"), "db"},
		"with Recreate, a pod ends":             {pod("of-db", fails), "db"},
		"with Recreate, a pod is to go":         {pod("of-db", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), ""},
		"with Recreate, a pod has a note":       {pod("of-db", func(p *corev1.Pod) { p.Annotations = map[string]string{"note": "x"} }), ""},
		"with Recreate, a pod of nobody's goes": {podGoes("stranger"), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			web, db := rolling(1, "1", "0"), recreating(1)
			db.Name, db.UID, db.Spec.Selector.MatchLabels = "db", "uid-db", map[string]string{"app": "db"}
			ofDB := with(replicaSet(db, 1, 1), func(rs *appsv1.ReplicaSet) { rs.UID, rs.Labels = "uid-db-v1", db.Spec.Selector.MatchLabels })
			orphan := with(replicaSet(web, 3, 0), func(rs *appsv1.ReplicaSet) { rs.Name, rs.OwnerReferences = "orphan", nil; labelled("nobody")(rs) })
			client := fake.NewClientset(web, db, orphan, ofDB, replicaSet(web, 1, 1), podOf(replicaSet(web, 1, 1), "of-web"), podOf(ofDB, "of-db"), podOf(orphan, "stranger"))
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

// podOf returns a pod of a ReplicaSet.
func podOf(rs *appsv1.ReplicaSet, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		edit func(d *appsv1.Deployment)
		want string
	}{
		"a rollout that makes no progress times out": {func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(180)) }, "web"},
		"the time of one that was paused is over":    {func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds, d.Spec.Paused = new(int32(180)), true }, ""},
		"a rollout has no deadline":                  {func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := rolling(1, "1", "0")
			d.Status.Conditions = nil
			test.edit(d)
			client := fake.NewClientset(d)
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, true), bubble.Nothing))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	otherSeconds := func(client *fake.Clientset) {
		bubble.Deaf(client, "replicasets")
		client.PrependReactor("update", "replicasets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			rs := action.(clienttesting.UpdateAction).GetObject().(*appsv1.ReplicaSet)
			rs.Generation++
			rs.Spec.MinReadySeconds = 9
			return false, nil, nil
		})
	}
	for what, test := range map[string]struct {
		late    func(c *Controller)
		prepare func(client *fake.Clientset)
	}{
		"no cache shows the status":                        {late: func(c *Controller) { c.deploymentWrites = controller.NewOwnWrites(bubble.Late{}) }},
		"no cache shows the ReplicaSet":                    {late: func(c *Controller) { c.replicaSetWrites = controller.NewOwnWrites(bubble.Late{}) }},
		"nor that a webhook has set other minReadySeconds": {late: func(*Controller) {}, prepare: otherSeconds},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := rolling(1, "1", "0")
			client := fake.NewClientset(d, with(replicaSet(d, 2, 1), func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 7 }))
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
