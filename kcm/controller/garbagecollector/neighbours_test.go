package garbagecollector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// collectingWith runs the workers that delete, until the test ends.
func collectingWith(t *testing.T, a *api, workers int) *GarbageCollector {
	t.Helper()
	gc := &GarbageCollector{metadata: a, mapper: mapperOf("ConfigMap"), graph: newGraph()}
	gc.toDelete = controller.NewLoop(controller.LoopConfig[key]{Sync: gc.attemptToDelete, MaxRetries: controller.RetryForever})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { gc.toDelete.Run(ctx, workers) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return gc
}

func TestOwnersThatOneNamespaceNamesHoldUpNoOther(t *testing.T) {
	t.Parallel()
	a := newAPI(configMaps)
	owner := thing("owner", in("few"))
	garbage, err := a.stores[configMaps].Create(thing("garbage", in("few"), ownedBy(owner)))
	require.NoError(t, err)
	a.before = func(verb string) {
		if verb == "get" { // the API server does not answer
			<-t.Context().Done()
		}
	}
	deletions := make(chan string, 1)
	a.deleting = func(obj *object, _ metav1.DeletionPropagation) { deletions <- obj.Name }
	gc := collectingWith(t, a, 2)
	many := thing("note", in("many"))
	for i := range 50 {
		ownedBy(thing(fmt.Sprint("absent-", i)))(many)
	}
	gc.appeared(many)
	gc.appeared(owner)
	gc.appeared(garbage)
	gc.gone(owner)
	select {
	case name := <-deletions:
		assert.Equal(t, "garbage", name)
	case <-time.After(time.Minute):
		assert.Fail(t, "garbage is not collected", "its owner is gone, and in another namespace 50 owners are asked for")
	}
}

func TestAnOwnerThatNobodyHasSeenIsLookedAtWhereverItIsNamed(t *testing.T) {
	t.Parallel()
	owner := thing("owner", in(""))
	g := graphOf(owner, thing("pod", ownedBy(owner)), thing("other", ownedBy(owner)), thing("far", in("there"), ownedBy(owner)))
	assert.ElementsMatch(t, []key{{"here", "owner"}, {"there", "owner"}}, g.remove(owner).check, "owner goes, which is named in two namespaces")
	var says []string
	for _, dependent := range g.misled(key{"there", "owner"}) {
		says = append(says, string(dependent.uid))
	}
	assert.Equal(t, []string{"far"}, says, "who has named it in one namespace")
}

// untilDone has a collector look at an object that its informer shows for the first time, and at all that comes of it,
// and returns the most requests of one try.
func untilDone(t *testing.T, gc *GarbageCollector, obj *object) (most int) {
	t.Helper()
	a := gc.metadata.(*api)
	queue := gc.graph.put(obj).check
	for tries := 0; len(queue) > 0; tries++ {
		require.Less(t, tries, 20_000, "there is no end of it")
		k := queue[0]
		before := len(a.requests)
		check, _ := gc.collect(t.Context(), k)
		most = max(most, len(a.requests)-before)
		if latest, err := a.stores[configMaps].Get(obj.Name); err == nil && latest.ResourceVersion != obj.ResourceVersion {
			check, obj = append(check, gc.graph.put(latest).check...), latest
		}
		queue = append(queue[1:], slices.DeleteFunc(check, func(k key) bool { return slices.Contains(queue[1:], k) })...)
	}
	return most
}

func TestOneThatNamesManyOwners(t *testing.T) {
	t.Parallel()
	named := func(name string) func(*metav1.OwnerReference) {
		return func(r *metav1.OwnerReference) { r.Name = name }
	}
	unknown := func(r *metav1.OwnerReference) { r.APIVersion = "nope.example.com/v1" }
	for _, c := range []struct {
		name string
		refs func(many *object)
		left string
		// most is how many requests there are altogether, reads and writes.
		most int
	}{
		{"that are gone is deleted when each was asked for", func(many *object) {
			for i := range 300 {
				ownedBy(thing(fmt.Sprint("absent-", i)))(many)
			}
		}, "nothing", 301},
		{"of one UID that are gone is deleted when each was asked for", func(many *object) {
			for i := range 300 {
				calling(thing("absent"), named(fmt.Sprint("absent-", i)))(many)
			}
		}, "nothing", 301},
		{"that are all the same is deleted when one was asked for", func(many *object) {
			for range 300 {
				ownedBy(thing("absent"))(many)
			}
		}, "nothing", 2},
		{"of an unknown kind is kept", func(many *object) {
			for i := range 300 {
				calling(thing("absent"), unknown)(many)
				calling(thing(fmt.Sprint("absent-", i)), unknown)(many)
			}
		}, "many: 600 owners", 0},
		{"that exist and are not shown is kept", func(many *object) {
			for i := range 10 {
				ownedBy(live(fmt.Sprint("owner-", i)))(many)
				many.OwnerReferences[i].UID = types.UID(fmt.Sprintf("uid-owner-%d-%d", i, i+2))
			}
		}, "many: 10 owners", 5 + 10},
		{"of which one is there is kept, and the others are dropped", func(many *object) {
			for i := range 150 {
				ownedBy(thing(fmt.Sprint("absent-", i)))(many)
			}
			ownedBy(thing("owner"))(many)
			for i := range 150 {
				calling(thing("owner"), named(fmt.Sprint("boss-", i)))(many)
			}
		}, "many: 1 owners", 301},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gc := looking(t, nil)
			store := gc.metadata.(*api).stores[configMaps]
			for i := range 10 {
				_, err := store.Create(thing(fmt.Sprint("owner-", i)))
				require.NoError(t, err)
			}
			gc.graph.put(thing("owner"))
			many := thing("many")
			c.refs(many)
			many, err := store.Create(many)
			require.NoError(t, err)
			assert.LessOrEqual(t, untilDone(t, gc, many), 10, "requests of one try")
			assert.LessOrEqual(t, len(gc.metadata.(*api).requests), c.most, "requests in all")
			left, err := store.Get("many")
			switch {
			case err != nil:
				assert.Equal(t, c.left, "nothing")
			default:
				assert.Equal(t, c.left, fmt.Sprintf("many: %d owners", len(left.OwnerReferences)))
			}
		})
	}
}

func TestWhatMayNeverComeIsWaitedForWithAGrowingDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(configMaps)
		event, err := a.stores[configMaps].Create(thing("event"))
		require.NoError(t, err)
		gc := collectingWith(t, a, 2)
		gc.appeared(thing("pod", ownedBy(event)))
		time.Sleep(time.Hour)
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		assert.InDelta(t, 20, len(a.requests), 4, "requests of an hour for an owner that is there, and that no informer shows")
	})
}
