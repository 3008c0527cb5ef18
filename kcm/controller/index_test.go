package controller

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func TestOwnerIndex(t *testing.T) {
	t.Parallel()
	controlledBy := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{UID: uid, Controller: ptr.To(true)}
	}
	pod := func(namespace, name string, refs ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: refs}}
	}
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	store := informer.GetStore()
	require.NoError(t, store.Add(pod("here", "mine", controlledBy("1"))))
	index := NewOwnerIndex[*corev1.Pod](informer)
	for _, pod := range []*corev1.Pod{
		pod("here", "mine-too", metav1.OwnerReference{UID: "9"}, controlledBy("1")),
		pod("here", "other", controlledBy("2")),
		pod("here", "orphan"),
		pod("here", "owned-without-controller", metav1.OwnerReference{UID: "1"}),
		pod("there", "pretender", controlledBy("1")),
		pod("there", "orphan"),
	} {
		require.NoError(t, store.Add(pod))
	}
	names := func(pods []*corev1.Pod, err error) []string {
		require.NoError(t, err)
		var names []string
		for _, pod := range pods {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
		return names
	}
	owner := &metav1.ObjectMeta{Namespace: "here", UID: "1"}

	t.Run("an owner's objects are those in its namespace that name it as their controller", func(t *testing.T) {
		t.Parallel()
		assert.ElementsMatch(t, []string{"here/mine", "here/mine-too"}, names(index.OwnedBy(owner)))
	})
	t.Run("orphans are those of a namespace that have no controller", func(t *testing.T) {
		t.Parallel()
		assert.ElementsMatch(t, []string{"here/orphan", "here/owned-without-controller"}, names(index.Orphans("here")))
	})
	t.Run("both can be looked up together", func(t *testing.T) {
		t.Parallel()
		want := []string{"here/mine", "here/mine-too", "here/orphan", "here/owned-without-controller"}
		assert.ElementsMatch(t, want, names(index.OwnedByOrOrphans(owner)))
	})
	t.Run("siblings have the same controller", func(t *testing.T) {
		t.Parallel()
		assert.ElementsMatch(t, []string{"here/mine", "here/mine-too"}, names(index.Siblings(pod("here", "mine", controlledBy("1")))))
	})
	t.Run("an orphan has no siblings", func(t *testing.T) {
		t.Parallel()
		assert.Empty(t, names(index.Siblings(pod("here", "orphan"))))
	})
	t.Run("a second loop shares the index", func(t *testing.T) {
		t.Parallel()
		assert.ElementsMatch(t, []string{"there/pretender"}, names(NewOwnerIndex[*corev1.Pod](informer).OwnedBy(&metav1.ObjectMeta{Namespace: "there", UID: "1"})))
	})
}

// A pod is adopted and released again and again while it is looked up.
func TestOwnedOnesAndOrphansAreReadAtOneMoment(t *testing.T) {
	t.Parallel()
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	index := NewOwnerIndex[*corev1.Pod](informer)
	owner := &metav1.ObjectMeta{Namespace: "here", UID: "1"}
	orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "pod"}}
	owned := orphan.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}}
	require.NoError(t, informer.GetStore().Add(orphan))
	var changing sync.WaitGroup
	defer changing.Wait()
	done := make(chan struct{})
	defer close(done)
	changing.Go(func() {
		for next, other := owned, orphan; ; next, other = other, next {
			select {
			case <-done:
				return
			default:
				assert.NoError(t, informer.GetStore().Update(next))
			}
		}
	})
	for range 10_000 {
		pods, err := index.OwnedByOrOrphans(owner)
		require.NoError(t, err)
		require.Len(t, pods, 1)
	}
}
