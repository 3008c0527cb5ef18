package garbagecollector

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// What wakes which keys is in the tests of the graph: all that decisions read of other
// objects is there, and each change of it returns the keys.

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	owner := live("owner")
	called := func(name string) func(*object) {
		return calling(owner, func(r *metav1.OwnerReference) { r.Name = name })
	}
	comet := calling(owner, func(r *metav1.OwnerReference) { r.Kind = "Comet" })
	var names []string
	var owners, waiting, claims []*object
	for i := range 4 * asks {
		name := fmt.Sprint("owner-", i)
		names, owners = append(names, name), append(owners, thing(name, func(o *object) { o.UID = types.UID(fmt.Sprintf("uid-%s-%d", name, i+2)) }))
		claims = append(claims, thing(fmt.Sprint("pod-", i), called(name)))
	}
	waiting = append(waiting, thing("pod", ownedBy(owners...)))
	waits := func(a *api) {
		for _, name := range names {
			o, _ := a.stores[configMaps].Get(name)
			deleted(foreground)(o)
			_, _ = a.stores[configMaps].Update(o)
		}
	}
	// pod is what the API server makes first.
	pod := func(edits ...func(*object)) *object {
		return thing("pod", append(edits, func(o *object) { o.UID, o.ResourceVersion = "uid-pod-2", "2" })...)
	}
	adopted := func(a *api) {
		o, _ := a.stores[configMaps].Get("pod")
		ownedBy(thing("next"))(o)
		_, _ = a.stores[configMaps].Update(o)
	}
	for what, test := range map[string]struct {
		there   []string
		shown   []*object
		prepare func(a *api)
		key     types.UID
	}{
		"no informer shows an owner that is there":        {[]string{"owner"}, []*object{thing("pod", ownedBy(owner))}, nil, owner.UID},
		"an owner's kind is not known":                    {nil, []*object{thing("pod", comet)}, nil, "pod"},
		"an owner that nobody has seen is of such a kind": {nil, []*object{thing("pod", comet)}, nil, owner.UID},
		"no informer shows any of many owners":            {names, waiting, nil, "pod"},
		"nor that they wait for their dependents":         {names, waiting, waits, "pod"},
		"an owner that is not there has many names":       {nil, claims, nil, owner.UID},
		"no informer shows other owners of an object":     {[]string{"pod"}, []*object{pod(ownedBy(thing("gone")))}, adopted, "uid-pod-2"},
		"nor those of one that is kept":                   {[]string{"pod"}, []*object{thing("solid"), pod(ownedBy(thing("gone"), thing("solid")))}, adopted, "uid-pod-2"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			gc := looking(t, test.there, test.shown...)
			a := gc.metadata.(*api)
			if test.prepare != nil {
				test.prepare(a)
			}
			start := func(_ context.Context, _ informers.SharedInformerFactory, note func(string)) func(context.Context) {
				gc.toDelete = controller.NewLoop(controller.LoopConfig[key]{Sync: gc.attemptToDelete, MaxRetries: controller.RetryForever})
				bubble.Note(&gc.toDelete.Sync, note, true)
				gc.toDelete.Add(here(test.key))
				return func(ctx context.Context) { gc.toDelete.Run(ctx, 1) }
			}
			sent := func() int {
				a.mu.Lock()
				defer a.mu.Unlock()
				return len(a.requests)
			}
			assert.LessOrEqual(t, bubble.Busy(t, fake.NewClientset(), start, sent), bubble.Most)
		})
	}
}
