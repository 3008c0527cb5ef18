package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// A conflict says that the cache is behind. What fails beside it has failed, whichever
// of the two came first.
func TestAConflictHidesNoFailure(t *testing.T) {
	t.Parallel()
	failed := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("exceeded quota"))
	conflict := apierrors.NewConflict(schema.GroupResource{}, "", errors.New("it was written since"))
	for _, c := range []struct {
		name                           string
		create, update, remove, status error
		failure                        error // of the sync, or nil if its cache is behind and that is all
	}{
		{name: "an update is refused", update: conflict},
		{name: "a deletion is refused", remove: conflict},
		{name: "a status is refused", status: conflict},
		{name: "a creation fails, and the status is refused", create: failed, status: conflict, failure: failed},
		{name: "a quota refuses, and the status is refused", create: forbidden, status: conflict, failure: forbidden},
		{name: "an update is refused, and a deletion fails", update: conflict, remove: failed, failure: failed},
		{name: "a deletion fails", remove: failed, failure: failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// The page index has another text, about is missing, and jobs is too many.
			pages := []runtime.Object{configMap("shop-index", "index", "We buy shoes.", 0), configMap("shop-jobs", "jobs", "None.", 0)}
			sites, client := serving(t, shop()), fake.NewClientset(pages...)
			for verb, err := range map[string]error{"create": c.create, "update": c.update, "delete": c.remove} {
				client.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					return err != nil, nil, err
				})
			}
			sites.PrependReactor("patch", "websites", func(clienttesting.Action) (bool, runtime.Object, error) {
				return c.status != nil, nil, c.status
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			loop := started(ctx, t, sites, client)
			err := loop.sync(ctx, cache.ObjectName{Namespace: "default", Name: "shop"})
			if c.failure == nil {
				require.ErrorIs(t, err, controller.ErrStaleCache)
				return
			}
			require.ErrorIs(t, err, c.failure)
		})
	}
}

// A ConfigMap that only a finalizer holds is no page any more: it gets a successor, and
// nobody asks for its deletion again.
func TestAPageThatIsBeingDeletedIsReplacedAndNotDeletedAgain(t *testing.T) {
	t.Parallel()
	held, jobs := index(), configMap("shop-jobs", "jobs", "None.", 0)
	for _, page := range []*corev1.ConfigMap{held, jobs} {
		page.DeletionTimestamp, page.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/hold"}
	}
	sites, client := serving(t, shop()), fake.NewClientset(held, about(), jobs)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	loop := started(ctx, t, sites, client)
	require.NoError(t, loop.sync(ctx, cache.ObjectName{Namespace: "default", Name: "shop"}))
	var asked []string
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" {
			asked = append(asked, verb)
		}
	}
	assert.Equal(t, []string{"create"}, asked, "the ConfigMap of the page index is being deleted, and that of no page as well")
}

// started returns the loop when its caches have what there is.
func started(ctx context.Context, t *testing.T, sites dynamic.Interface, client kubernetes.Interface) *Controller {
	t.Helper()
	ofSites, builtIn := dynamicinformer.NewDynamicSharedInformerFactory(sites, 0), informers.NewSharedInformerFactory(client, 0)
	loop, err := newController(ofSites.ForResource(websites).Informer(), builtIn.Core().V1().ConfigMaps(), sites, client)
	require.NoError(t, err)
	ofSites.Start(ctx.Done())
	builtIn.Start(ctx.Done())
	require.True(t, cache.WaitForCacheSync(ctx.Done(), loop.synced...))
	return loop
}
