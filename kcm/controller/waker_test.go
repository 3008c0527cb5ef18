package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// ownerNamed returns a set that wants the pods of an app. Its UID is its name
// with the number 1.
func ownerNamed(name string, selector map[string]string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-1")},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
	}
}

// podOf returns a pod of the set with that UID, or of none.
func podOf(owner types.UID, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pod", UID: "pod", ResourceVersion: "1", Labels: map[string]string{"app": "web"},
	}}
	if owner != "" {
		name := string(owner[:len(owner)-len("-1")])
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name, UID: owner, Controller: ptr.To(true)}}
	}
	for _, edit := range edit {
		edit(pod)
	}
	return pod
}

// wokenBy returns which of four sets are synced because of what do tells the
// handlers, and how many of them at once. It also returns what is left of two
// expectations of the set web: one creation, and the deletion of the pod.
func wokenBy(t *testing.T, keepExpectations bool, do func(h Handlers[*corev1.Pod])) (woken []string, atOnce int, left Pending) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards woken
		owners := map[string]*appsv1.ReplicaSet{}
		for name, selector := range map[string]map[string]string{
			"web": {"app": "web"}, "rival": {"app": "web"}, "other": {"app": "other"}, "empty": nil,
		} {
			owners[name] = ownerNamed(name, selector)
		}
		expectations := NewExpectations(clock.RealClock{})
		expectations.Expect(owners["web"], 1, "pod")
		w := &Waker[*appsv1.ReplicaSet, *corev1.Pod]{
			Loop: NewLoop(LoopConfig[cache.ObjectName]{Name: "test", Sync: func(_ context.Context, key cache.ObjectName) error {
				mu.Lock()
				defer mu.Unlock()
				woken = append(woken, key.Name)
				return nil
			}}),
			Kind: "ReplicaSet",
			Get: func(key cache.ObjectName) (*appsv1.ReplicaSet, error) {
				if owner, ok := owners[key.Name]; ok {
					return owner, nil
				}
				return nil, errors.New("not found")
			},
			List: func(string) (list []*appsv1.ReplicaSet, err error) {
				for _, owner := range owners {
					list = append(list, owner)
				}
				return list, nil
			},
			Selector:   func(owner *appsv1.ReplicaSet) *metav1.LabelSelector { return owner.Spec.Selector },
			NewsPeriod: 100 * time.Millisecond,
		}
		if keepExpectations {
			w.Expectations = expectations
		}
		do(w.Handlers())

		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Loop.Run(ctx, 1) })
		synctest.Wait()
		mu.Lock()
		atOnce = len(woken)
		mu.Unlock()
		time.Sleep(time.Second)
		stop()
		running.Wait()
		for _, pending := range expectations.Pending() {
			left = pending
		}
	})
	return woken, atOnce, left
}

func TestAnObjectWakesTheOwnersThatItConcerns(t *testing.T) {
	t.Parallel()
	changed := func(p *corev1.Pod) { p.ResourceVersion = "2" }
	going := func(p *corev1.Pod) { p.ResourceVersion, p.DeletionTimestamp = "2", ptr.To(metav1.Now()) }
	labelled := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.ResourceVersion, p.Labels = "2", map[string]string{"app": app} }
	}
	otherKind := func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }
	unlabelled := func(p *corev1.Pod) { p.Labels = nil }
	type handlers = Handlers[*corev1.Pod]

	for name, tt := range map[string]struct {
		do func(h handlers)
		// after is who is woken after the news period, and atOnce who before.
		after, atOnce []string
		// created and deleted say that these are observed on behalf of web.
		created, deleted bool
	}{
		"a new pod": {
			do:    func(h handlers) { h.Add(podOf("web-1")) },
			after: []string{"web"}, created: true,
		},
		"a new pod that is being deleted": {
			do:    func(h handlers) { h.Add(podOf("web-1", going)) },
			after: []string{"web"}, created: true, deleted: true,
		},
		"a pod of an earlier owner of the name": {
			do: func(h handlers) { h.Add(podOf("web-0")); h.Delete(podOf("web-0")) },
		},
		"a pod whose owner is gone": {
			do: func(h handlers) { h.Add(podOf("gone-1")) },
		},
		"a pod of another kind of owner": {
			do: func(h handlers) { h.Add(podOf("web-1", otherKind)) },
		},
		"a new orphan": {
			do:     func(h handlers) { h.Add(podOf("")) },
			atOnce: []string{"web", "rival"},
		},
		"a new orphan without labels": {
			do: func(h handlers) { h.Add(podOf("", unlabelled)) },
		},
		"a new orphan that is being deleted": {
			do: func(h handlers) { h.Add(podOf("", going)) },
		},
		"the resync of a pod": {
			do: func(h handlers) { h.Update(podOf("web-1"), podOf("web-1")) },
		},
		"a changed pod": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("web-1", changed)) },
			after: []string{"web"},
		},
		"a pod whose deletion was asked for": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("web-1", going)) },
			after: []string{"web"}, deleted: true,
		},
		"a pod with another owner": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("other-1", changed)) },
			after: []string{"web", "other"},
		},
		"a pod with another owner whose deletion was asked for": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("other-1", going)) },
			after: []string{"web", "other"}, deleted: true,
		},
		"a pod without owner now whose deletion was asked for": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("", going, labelled("other"))) },
			after: []string{"web"}, deleted: true,
		},
		"a pod with other labels whose deletion was asked for": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("web-1", going, labelled("other"))) },
			after: []string{"web"}, deleted: true,
		},
		"a pod with other labels": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("web-1", labelled("other"))) },
			after: []string{"web"},
		},
		"a pod that was released": {
			do:    func(h handlers) { h.Update(podOf("web-1"), podOf("", labelled("other"))) },
			after: []string{"web"}, atOnce: []string{"other"},
		},
		"an orphan that was adopted": {
			do:    func(h handlers) { h.Update(podOf(""), podOf("web-1", changed)) },
			after: []string{"web"},
		},
		"an orphan with new labels": {
			do:     func(h handlers) { h.Update(podOf(""), podOf("", labelled("other"))) },
			atOnce: []string{"other"},
		},
		"an orphan that changed otherwise": {
			do: func(h handlers) { h.Update(podOf(""), podOf("", changed)) },
		},
		"a pod that is gone": {
			do:    func(h handlers) { h.Delete(podOf("web-1")) },
			after: []string{"web"}, deleted: true,
		},
		"an orphan that is gone": {
			do: func(h handlers) { h.Delete(podOf("")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			woken, atOnce, left := wokenBy(t, true, tt.do)
			assert.ElementsMatch(t, tt.atOnce, woken[:atOnce])
			assert.ElementsMatch(t, tt.after, woken[atOnce:])
			assert.Equal(t, tt.created, left.Creations == 0, "left of the creation: %d", left.Creations)
			assert.Equal(t, tt.deleted, len(left.Deletions) == 0, "left of the deletion: %v", left.Deletions)

			woken, _, _ = wokenBy(t, false, tt.do)
			assert.ElementsMatch(t, append(tt.atOnce, tt.after...), woken, "in a loop that keeps no expectations")
		})
	}
}

// This is not parallel: it counts what the process allocates.
func TestAnOwnerWithALongSelectorFindsOutByItselfWhatItWants(t *testing.T) {
	values := make([]string, 2000)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	owner := ownerNamed("long", nil)
	owner.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values}}
	w := &Waker[*appsv1.ReplicaSet, *corev1.Pod]{
		Loop:     NewLoop(LoopConfig[cache.ObjectName]{Sync: func(context.Context, cache.ObjectName) error { return nil }}),
		List:     func(string) ([]*appsv1.ReplicaSet, error) { return []*appsv1.ReplicaSet{owner}, nil },
		Selector: func(owner *appsv1.ReplicaSet) *metav1.LabelSelector { return owner.Spec.Selector },
	}
	t.Cleanup(w.Loop.queue.ShutDown)
	w.wakeAdopters(podOf(""))
	assert.Equal(t, 1, w.Loop.fair.count, "the owner is woken, whatever it wants")
	reads := testing.AllocsPerRun(10, func() { w.wakeAdopters(podOf("")) })
	assert.Less(t, reads, 100.0, "nobody has read 2,000 values")
}
