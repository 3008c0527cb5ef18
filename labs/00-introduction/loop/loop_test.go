package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// web is a ReplicaSet of so many pods, in namespace shop.
func web(replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

// pod is one of web's that runs, and is then changed.
func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := newPod(web(0))
	p.Namespace, p.Name, p.Status.Phase = "shop", name, corev1.PodRunning
	for _, change := range changes {
		change(p)
	}
	return p
}

// The changes that tests make.
func noOwner(p *corev1.Pod)      { p.OwnerReferences = nil }
func pending(p *corev1.Pod)      { p.Status.Phase = corev1.PodPending }
func succeeded(p *corev1.Pod)    { p.Status.Phase = corev1.PodSucceeded }
func failed(p *corev1.Pod)       { p.Status.Phase = corev1.PodFailed }
func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }

func controlledBy(kind, name string, uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = kind, name, uid
	}
}

// alsoOwnedBy puts an owner before the others that does not control the pod.
func alsoOwnedBy(kind, name string, uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid}
		p.OwnerReferences = slices.Insert(p.OwnerReferences, 0, owner)
	}
}

func TestOwnerOf(t *testing.T) {
	t.Parallel()
	for behaviour, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a pod of a ReplicaSet wakes that ReplicaSet": {pod("web-1"), "shop/web is woken"},
		"the ReplicaSet is in the namespace of its pod": {pod("web-1", func(p *corev1.Pod) { p.Namespace = "office" }),
			"office/web is woken"},
		"a pod that nobody owns wakes nobody": {pod("web-1", noOwner), "nobody is woken"},
		"a pod of a Job wakes nobody":         {pod("web-1", controlledBy("Job", "web", "uid-of-job")), "nobody is woken"},
		"an owner that does not control the pod sleeps on": {pod("web-1", alsoOwnedBy("ReplicaSet", "other", "uid-of-other")),
			"shop/web is woken"},
		"an owner alone that does not control it sleeps on": {
			pod("web-1", noOwner, alsoOwnedBy("ReplicaSet", "other", "uid-of-other")), "nobody is woken"},
		"a Job among the owners does not hide the ReplicaSet": {pod("web-1", alsoOwnedBy("Job", "other", "uid-of-other")),
			"shop/web is woken"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			seen := "nobody is woken"
			if key, found := ownerOf(c.pod); found {
				seen = key.String() + " is woken"
			}
			assert.Equal(t, c.want, seen, "a pod with %s", owners(c.pod))
		})
	}
}

func owners(pod *corev1.Pod) string {
	var all []string
	for _, owner := range pod.OwnerReferences {
		text := fmt.Sprintf("owner %s %s", owner.Kind, owner.Name)
		if owner.Controller != nil && *owner.Controller {
			text += ", which controls it"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no owner"
	}
	return strings.Join(all, ", and ")
}

func TestCounted(t *testing.T) {
	t.Parallel()
	for behaviour, c := range map[string]struct {
		change func(*corev1.Pod)
		counts bool
	}{
		"a pod that it controls counts":                             {func(*corev1.Pod) {}, true},
		"a pod that does not run yet counts":                        {pending, true},
		"a pod that is being deleted does not count":                {beingDeleted, false},
		"a pod that has failed does not count":                      {failed, false},
		"a pod that has succeeded does not count":                   {succeeded, false},
		"a pod with its labels that nobody controls does not count": {noOwner, false},
		"a pod with its labels that another ReplicaSet controls does not count": {
			controlledBy("ReplicaSet", "other", "uid-of-other"), false},
		"a pod of an earlier ReplicaSet of its name does not count": {
			controlledBy("ReplicaSet", "web", "uid-of-an-earlier-web"), false},
		"a pod that it owns and another one controls does not count": {func(p *corev1.Pod) {
			controlledBy("ReplicaSet", "other", "uid-of-other")(p)
			alsoOwnedBy("ReplicaSet", "web", "uid-of-web")(p)
		}, false},
		"a pod without its labels that it controls counts": {func(p *corev1.Pod) { p.Labels = nil }, true},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			want := "web-1, web-3"
			if c.counts {
				want = "web-1, web-2, web-3"
			}
			pods := []*corev1.Pod{pod("web-1"), pod("web-2", c.change), pod("web-3")}
			assert.Equal(t, want, names(counted(web(3), pods)),
				"web-2 is a pod such as the sentence says, web-1 and web-3 run and are web's")
		})
	}
	t.Run("where there are no pods none counts", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "", names(counted(web(3), nil)))
	})
}

func names(pods []*corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, pod.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// situation is what the cache shows, and how the API server answers.
type situation struct {
	replicaSet *appsv1.ReplicaSet // nil if it is gone
	pods       []*corev1.Pod
	// refuses is the request that the API server refuses, create or delete, and
	// after is how many of them it grants before.
	refuses string
	after   int
}

// syncOnce syncs web once, and tells what it asked the API server for.
func (s situation) syncOnce(t *testing.T) (asked string, err error) {
	client := &fake.Clientset{}
	created, deleted, others := 0, []string{}, []string{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() == s.refuses && created+len(deleted) >= s.after {
			return true, nil, errors.New("refused")
		}
		switch action := action.(type) {
		case clienttesting.CreateAction:
			pod, isPod := action.GetObject().(*corev1.Pod)
			if isPod && action.GetNamespace() == "shop" && metav1.IsControlledBy(pod, web(0)) {
				created++
				return true, pod, nil
			}
		case clienttesting.DeleteAction:
			if action.GetNamespace() == "shop" && action.GetResource().Resource == "pods" {
				deleted = append(deleted, action.GetName())
				return true, nil, nil
			}
		}
		others = append(others,
			fmt.Sprintf("%s of %s in %q", action.GetVerb(), action.GetResource().Resource, action.GetNamespace()))
		return true, nil, errors.New("unexpected")
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	l := newLoop(client, factory, 0)
	t.Cleanup(l.queue.ShutDown)
	if s.replicaSet != nil {
		assert.NoError(t, factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(s.replicaSet))
	}
	for _, pod := range s.pods {
		assert.NoError(t, factory.Core().V1().Pods().Informer().GetIndexer().Add(pod))
	}
	err = l.sync(t.Context(), cache.NewObjectName("shop", "web"))
	slices.Sort(deleted)
	asked = fmt.Sprintf("create %d; delete %d of them: %s", created, len(deleted), strings.Join(deleted, ", "))
	if len(deleted) == 0 {
		asked = fmt.Sprintf("create %d; delete none", created)
	}
	return strings.Join(append([]string{asked}, others...), "; "), err
}

func TestSync(t *testing.T) {
	t.Parallel()
	three := func() []*corev1.Pod { return []*corev1.Pod{pod("web-1"), pod("web-2"), pod("web-3")} }
	statusSays := func(rs *appsv1.ReplicaSet, replicas int32) *appsv1.ReplicaSet {
		rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = replicas, replicas, replicas
		return rs
	}
	goes := web(5)
	goes.DeletionTimestamp = new(metav1.Now())
	for behaviour, c := range map[string]struct {
		situation
		want string
		why  string
	}{
		"all pods are created where there are none": {situation{replicaSet: web(3)}, "create 3; delete none",
			"it wants 3, there is none"},
		"only what is missing is created": {situation{replicaSet: web(5), pods: three()}, "create 2; delete none",
			"it wants 5, there are 3"},
		"nothing is done when all is as it should be": {
			situation{replicaSet: web(3), pods: three()}, "create 0; delete none", "it wants 3, there are 3"},
		"at size 0 all its pods are deleted": {
			situation{replicaSet: web(0), pods: three()}, "create 0; delete 3 of them: web-1, web-2, web-3",
			"it wants 0, there are 3"},
		"pods that do not count are left alone": {
			situation{replicaSet: web(0), pods: []*corev1.Pod{
				pod("web-1"), pod("web-2", beingDeleted),
				pod("other-1", controlledBy("ReplicaSet", "other", "uid-of-other")), pod("evicted", failed)}},
			"create 0; delete 1 of them: web-1", "it wants 0; of 4 pods only web-1 counts"},
		"pods that do not count are replaced": {
			situation{replicaSet: web(2), pods: []*corev1.Pod{pod("web-1"), pod("web-2", beingDeleted)}},
			"create 1; delete none", "it wants 2; of 2 pods one is being deleted"},
		"what the status says does not matter": {
			situation{replicaSet: statusSays(web(5), 5), pods: three()}, "create 2; delete none",
			"it wants 5, there are 3, and its status says 5"},
		"a ReplicaSet that is gone is no failure": {situation{pods: three()}, "create 0; delete none",
			"web is not in the cache, 3 pods of it are"},
		"a ReplicaSet that is being deleted is left alone": {situation{replicaSet: goes, pods: three()},
			"create 0; delete none", "it wants 5, there are 3, and it is being deleted"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			asked, err := c.syncOnce(t)
			assert.Equal(t, c.want, asked, c.why)
			assert.NoError(t, err, c.why)
		})
	}
	t.Run("what is too many is deleted, and no more", func(t *testing.T) {
		t.Parallel()
		asked, err := situation{replicaSet: web(1), pods: three()}.syncOnce(t)
		assert.NoError(t, err)
		assert.Equal(t, "create 0; delete 2 of them", strings.Split(asked, ":")[0],
			"it wants 1, there are 3; which of them go is left open")
	})
	t.Run("a creation that is refused is told, so that it is tried again", func(t *testing.T) {
		t.Parallel()
		asked, err := situation{replicaSet: web(5), pods: three(), refuses: "create"}.syncOnce(t)
		assert.Error(t, err, "it wants 5, there are 3, and the API server refuses")
		assert.Equal(t, "create 0; delete none", asked)
	})
	t.Run("a deletion that is refused is told, so that it is tried again", func(t *testing.T) {
		t.Parallel()
		_, err := situation{replicaSet: web(1), pods: three(), refuses: "delete"}.syncOnce(t)
		assert.Error(t, err, "it wants 1, there are 3, and the API server refuses")
	})
	t.Run("a refusal is told though others were granted before it", func(t *testing.T) {
		t.Parallel()
		asked, err := situation{replicaSet: web(5), pods: three(), refuses: "create", after: 1}.syncOnce(t)
		assert.Error(t, err, "it wants 5, there are 3; one creation is granted and one refused")
		assert.Equal(t, "create 1; delete none", asked)
	})
	t.Run("the cache is not changed", func(t *testing.T) {
		t.Parallel()
		s := situation{replicaSet: web(5), pods: three()}
		_, err := s.syncOnce(t)
		assert.NoError(t, err)
		assert.Equal(t, []any{web(5), three()}, []any{s.replicaSet, s.pods},
			"every loop of a process has the same objects in hand")
	})
}
