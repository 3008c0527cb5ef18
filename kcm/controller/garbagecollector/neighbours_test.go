package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	case <-time.After(10 * time.Second):
		assert.Fail(t, "garbage is not collected", "its owner is gone, and in another namespace 50 owners are asked for")
	}
}

func TestAnOwnerThatNobodyHasSeenIsLookedAtWhereverItIsNamed(t *testing.T) {
	t.Parallel()
	owner := thing("owner", in(""))
	g := graphOf(owner, thing("pod", ownedBy(owner)), thing("other", ownedBy(owner)), thing("far", in("there"), ownedBy(owner)))
	assert.ElementsMatch(t, []key{{"here", "owner"}, {"there", "owner"}}, g.remove(owner).check, "owner goes, which is named in two namespaces")
	var says []string
	for claim := range g.claims(key{"there", "owner"}) {
		says = append(says, claim.String())
	}
	assert.Equal(t, []string{"[v1/ConfigMap, namespace: there, name: owner, uid: owner]"}, says, "what is said in one namespace")
}
