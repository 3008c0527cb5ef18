package deployment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// fixture is a controller whose caches hold the given objects and whose
// queue nobody works on.
func fixture(t *testing.T, objects ...runtime.Object) (*Controller, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	apps, pods := factory.Apps().V1(), factory.Core().V1().Pods()
	c := NewDeploymentController(t.Context(), apps.Deployments(), apps.ReplicaSets(), pods, client)
	original := *c
	t.Cleanup(func() { shutDown(&original) })
	for _, obj := range objects {
		switch obj.(type) {
		case *appsv1.Deployment:
			require.NoError(t, apps.Deployments().Informer().GetStore().Add(obj))
		case *appsv1.ReplicaSet:
			require.NoError(t, apps.ReplicaSets().Informer().GetStore().Add(obj))
		}
	}
	return c, client
}

// woken replaces the loop by one that tells which deployments were synced
// while wake was called.
func woken(t *testing.T, c *Controller, wake func()) (keys []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
			Sync: func(_ context.Context, key cache.ObjectName) error {
				keys = append(keys, key.Name)
				return nil
			},
		})
		c.waker.Loop = c.loop
		go c.loop.Run(ctx, 1)
		wake()
		synctest.Wait()
		cancel()
	})
	return keys
}

func writes(client *fake.Clientset) []string {
	var result []string
	for _, action := range client.Actions() {
		if action.GetVerb() != "list" && action.GetVerb() != "watch" {
			result = append(result, action.GetVerb()+" "+action.GetResource().Resource+" "+action.GetSubresource())
		}
	}
	return result
}

func TestANamespaceThatGoesIsNoError(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	c, client := fixture(t, d)
	client.PrependReactor("create", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := apierrors.NewForbidden(appsv1.Resource("replicasets"), "web", nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return true, nil, err
	})
	require.NoError(t, c.sync(t.Context(), cache.MetaObjectToName(d)))
	assert.Equal(t, []string{"create replicasets "}, writes(client))
}

// A policy that changes the template of each ReplicaSet that is created.
func TestAReplicaSetThatIsStoredWithAnotherTemplateGoesAndIsOnlyTriedFromThenOn(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	d.Spec.ProgressDeadlineSeconds = nil
	policy := true
	for _, round := range []struct {
		situation string
		before    func()
		want      []string
	}{
		{"nothing is known of the policy", func() {},
			[]string{"create replicasets", "delete replicasets", "update deployments"}},
		{"the policy is known", func() {}, []string{"try replicasets"}},
		{"the policy is known, and gone", func() { policy = false }, []string{"try replicasets", "create replicasets", "update deployments"}},
	} {
		round.before()
		c, client := fixture(t, d)
		client.PrependReactor("create", "replicasets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			rs := action.(clienttesting.CreateAction).GetObject().(*appsv1.ReplicaSet).DeepCopy()
			if policy {
				rs.Spec.Template.Spec.Containers[0].Image = "mirror/" + rs.Spec.Template.Spec.Containers[0].Image
			}
			return true, rs, nil
		})
		client.PrependReactor("delete", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, nil
		})
		err := c.sync(t.Context(), cache.MetaObjectToName(d))
		assert.Equal(t, policy, errors.Is(err, errTemplateChanged), "%s: %v", round.situation, err)
		var did []string
		for _, action := range client.Actions() {
			verb := action.GetVerb()
			switch action := action.(type) {
			case clienttesting.CreateActionImpl:
				if len(action.CreateOptions.DryRun) > 0 {
					verb = "try"
				}
			case clienttesting.UpdateActionImpl:
				d = action.GetObject().(*appsv1.Deployment)
			}
			did = append(did, verb+" "+action.GetResource().Resource)
		}
		assert.Equal(t, round.want, did, round.situation)
	}
}

func TestADeploymentThatIsGoneAsksForNothing(t *testing.T) {
	t.Parallel()
	c, client := fixture(t)
	require.NoError(t, c.sync(t.Context(), cache.NewObjectName("ns", "web")))
	assert.Empty(t, writes(client))
}

func TestTheStatusIsWrittenThoughAStepFailsUnlessTheCacheIsLate(t *testing.T) {
	t.Parallel()
	for failure, test := range map[string]struct {
		err    error
		writes []string
	}{
		"forbidden": {apierrors.NewForbidden(appsv1.Resource("replicasets"), "web", nil), []string{"update replicasets ", "update deployments status"}},
		"conflict":  {apierrors.NewConflict(appsv1.Resource("replicasets"), "web", nil), []string{"update replicasets "}},
	} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			d := rolling(4, "1", "0")
			old, newRS := replicaSet(d, 1, 4), replicaSet(d, 2, 1)
			seen := see(d, old, newRS)
			newRS.Annotations[revisionAnnotation] = "2"
			c, client := fixture(t, d, old, newRS)
			client.PrependReactor("update", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, test.err
			})
			p := decide(seen)
			require.NotEmpty(t, p.change)
			require.ErrorIs(t, c.act(t.Context(), seen, p), test.err)
			assert.Equal(t, test.writes, writes(client))
		})
	}
}

func TestNothingIsDeletedWhenAStepBeforeFails(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	old, newRS := replicaSet(d, 1, 0), replicaSet(d, 2, 1)
	c, client := fixture(t, d, old, newRS)
	client.PrependReactor("update", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(appsv1.Resource("replicasets"), "web", nil)
	})
	p := plan{change: resize(d, newRS, 4), remove: []*appsv1.ReplicaSet{old}}
	require.True(t, apierrors.IsConflict(c.act(t.Context(), see(d, old, newRS), p)))
	assert.Equal(t, []string{"update replicasets "}, writes(client))
}

// refusals are those of an API server: of a quota, of a policy, of a webhook that
// calls it a conflict, and of one that cannot be reached.
var refusals = []error{
	apierrors.NewForbidden(appsv1.Resource("replicasets"), "web", errors.New("exceeded quota")),
	apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind(), "web", nil),
	apierrors.NewConflict(appsv1.Resource("replicasets"), "web", errors.New("not now")),
	apierrors.NewInternalError(errors.New("failed calling webhook")),
}

func TestWhatIsRefusedIsAskedForUntilItIsDone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		write     string
		old, news int32
		edit      func(d *appsv1.Deployment)
	}{
		"a creation":   {"create replicasets ", 4, 0, func(d *appsv1.Deployment) { d.Spec.Template = template("v3") }},
		"a new size":   {"update replicasets ", 4, 0, func(*appsv1.Deployment) {}},
		"a deletion":   {"delete replicasets ", 0, 4, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32) }},
		"a rollback":   {"update deployments ", 0, 4, func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = "1" }},
		"a new status": {"update deployments status", 0, 4, func(d *appsv1.Deployment) { d.Status.Replicas = 7 }},
	} {
		for _, refusal := range refusals {
			t.Run(name+": "+string(apierrors.ReasonForError(refusal)), func(t *testing.T) {
				t.Parallel()
				d := rolling(4, "1", "0")
				old, newRS := replicaSet(d, 1, tt.old), replicaSet(d, 2, tt.news)
				d.Annotations = map[string]string{revisionAnnotation: "2"}
				d.Status = statusOf(see(d, old, newRS))
				tt.edit(d)
				c, client := fixture(t, d, old, newRS)
				left, tried := 2, 0
				client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if action.GetVerb()+" "+action.GetResource().Resource+" "+action.GetSubresource() != tt.write {
						return false, nil, nil
					}
					tried++
					return tried <= left, nil, refusal
				})
				key := cache.NewObjectName("ns", "web")
				for range left {
					require.ErrorIs(t, c.sync(t.Context(), key), refusal)
				}
				require.NoError(t, c.sync(t.Context(), key))
				assert.Equal(t, left+1, tried, "the third time it is done")
			})
		}
	}
}

func TestAReplicaSetIsDeletedOnlyAsItWasSeen(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	old := replicaSet(d, 1, 0)
	old.ResourceVersion = "7"
	c, client := fixture(t, d, old)
	require.NoError(t, c.removeReplicaSets(t.Context(), []*appsv1.ReplicaSet{old}))
	deletion := client.Actions()[0].(clienttesting.DeleteAction)
	assert.Equal(t, &metav1.Preconditions{UID: &old.UID, ResourceVersion: new("7")}, deletion.GetDeleteOptions().Preconditions)
}

// A webhook that undoes what is noted leaves the object as it was: the write
// succeeds, and nothing is notified. Were the step left to another round,
// there would be none.
func TestARoundTakesItsStepThoughWhatItNotesIsUndone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lacks func(d *appsv1.Deployment, rs *appsv1.ReplicaSet)
		want  []string
	}{
		"the annotations of the new ReplicaSet": {
			lacks: func(_ *appsv1.Deployment, rs *appsv1.ReplicaSet) { delete(rs.Annotations, "team") },
			want:  []string{"update replicasets ", "update replicasets ", "update deployments status"},
		},
		"the revision": {
			lacks: func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) { delete(d.Annotations, revisionAnnotation) },
			want:  []string{"update deployments status", "update replicasets ", "update deployments status"},
		},
		"that the pause is over": {
			lacks: func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) { d.Status.Conditions[0].Reason = reasonPaused },
			want:  []string{"update deployments status", "update replicasets ", "update deployments status"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rolling(4, "1", "0")
			d.Annotations = map[string]string{"team": "a"}
			newRS := replicaSet(d, 2, 1)
			newRS.Annotations["team"] = "a"
			see(d, newRS)
			tt.lacks(d, newRS)
			c, client := fixture(t, d, newRS)
			undo := func(subresource string, as runtime.Object) clienttesting.ReactionFunc {
				return func(action clienttesting.Action) (bool, runtime.Object, error) {
					return action.GetSubresource() == subresource, as.DeepCopyObject(), nil
				}
			}
			client.PrependReactor("update", "replicasets", undo("", newRS))
			client.PrependReactor("update", "deployments", undo("status", d))
			require.NoError(t, c.sync(t.Context(), cache.MetaObjectToName(d)))
			assert.Equal(t, tt.want, writes(client))
			var sizes []int32
			for _, action := range client.Actions() {
				if update, ok := action.(clienttesting.UpdateAction); ok && action.GetResource().Resource == "replicasets" {
					sizes = append(sizes, size(update.GetObject().(*appsv1.ReplicaSet)))
				}
			}
			assert.EqualValues(t, 4, sizes[len(sizes)-1], "the step of the rollout")
		})
	}
}

// The old pod may go when two new ones are available, and they are by the old minReadySeconds only.
func TestARoundEndsWhereTheNewReplicaSetGetsOtherMinReadySeconds(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	oldRS, newRS := having(replicaSet(d, 1, 1), 1), having(replicaSet(d, 2, 2), 2)
	see(d, oldRS, newRS)
	d.Spec.MinReadySeconds = 60
	c, client := fixture(t, d, oldRS, newRS)
	client.PrependReactor("update", "replicasets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		rs := action.(clienttesting.UpdateAction).GetObject().(*appsv1.ReplicaSet).DeepCopy()
		rs.Generation++
		return true, rs, nil
	})
	assert.ErrorIs(t, c.sync(t.Context(), cache.MetaObjectToName(d)), controller.ErrStaleCache, "it is to be looked at again")
	assert.Equal(t, []string{"update replicasets "}, writes(client))
}

func TestAReplicaSetWakesItsDeploymentAndAnOrphanThoseWhoWantIt(t *testing.T) {
	t.Parallel()
	d, other := rolling(1, "1", "0"), rolling(1, "1", "0")
	other.Name, other.UID = "other", "uid-other"
	c, _ := fixture(t, d, other)
	owned := replicaSet(d, 1, 1)
	assert.Equal(t, []string{"web"}, woken(t, c, func() { c.waker.Handlers().Add(owned) }))
	orphan := with(owned, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
	assert.ElementsMatch(t, []string{"web", "other"}, woken(t, c, func() { c.waker.Handlers().Add(orphan) }))
}

func TestADeletedPodWakesOnlyADeploymentThatWaitsForIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d    *appsv1.Deployment
		want []string
	}{
		{recreating(1), []string{"web"}},
		{rolling(1, "1", "0"), nil},
	} {
		rs := replicaSet(tt.d, 1, 1)
		c, _ := fixture(t, tt.d, rs)
		ref := metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		former := *ref
		former.UID = "former"
		assert.Equal(t, tt.want, woken(t, c, func() {
			c.podEnded(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1", OwnerReferences: []metav1.OwnerReference{*ref}}})
		}))
		assert.Empty(t, woken(t, c, func() {
			c.podEnded(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bare"}})
			c.podEnded(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", OwnerReferences: []metav1.OwnerReference{former}}})
		}))
	}
}

func TestADeploymentHasItsReplicaSetsThatMatchAndTheOrphansThatDo(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	named := func(name string, changes ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		rs := replicaSet(d, 1, 1)
		rs.Name, rs.UID = name, types.UID("uid-"+name)
		for _, change := range changes {
			change(rs)
		}
		return rs
	}
	orphaned := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	relabelled := func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": "shop"} }
	c, client := fixture(t, d,
		named("mine"), named("mine-relabelled", relabelled),
		named("orphan", orphaned), named("orphan-relabelled", orphaned, relabelled),
		named("other's", func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "uid-other" }),
		named("pretender", func(rs *appsv1.ReplicaSet) { rs.Namespace = "elsewhere" }),
	)
	claimed, err := c.claimReplicaSets(t.Context(), d)
	require.NoError(t, err)
	var names, patched []string
	for _, rs := range claimed {
		names = append(names, rs.Name)
	}
	for _, action := range client.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			patched = append(patched, patch.GetName())
		}
	}
	assert.ElementsMatch(t, []string{"mine", "orphan"}, names)
	assert.ElementsMatch(t, []string{"mine-relabelled", "orphan"}, patched)
}
