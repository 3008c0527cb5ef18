package garbagecollector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// kindsOf is what discovery answers.
type kindsOf struct {
	discovery.ServerResourcesInterface
	lists []*metav1.APIResourceList
	err   error
}

func (k *kindsOf) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return k.lists, k.err
}

func served(groupVersion string, kinds map[string]string, verbs ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for name, kind := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: verbs})
	}
	return list
}

var all = []string{"delete", "get", "list", "watch"}

// watching is a collector that watches what discovery answers, and stops with
// the test.
func watching(t *testing.T, kinds *kindsOf, objects ...runtime.Object) (*GarbageCollector, func() error) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	ignored := map[schema.GroupResource]struct{}{{Resource: "events"}: {}}
	ctx, cancel := context.WithCancel(t.Context())
	gc := NewGarbageCollector(ctx, fake.NewClientset(), client, mapperOf("ConfigMap", "Secret"), kinds, ignored, nil)
	t.Cleanup(func() {
		cancel()
		for _, m := range *gc.monitors.Load() {
			if m.own != nil {
				m.own.Stop()
			}
		}
		ended, end := context.WithCancel(context.Background())
		end()
		gc.Run(ended, 0)
	})
	return gc, func() error {
		err := gc.syncMonitors(ctx)
		require.Eventually(t, gc.synced, time.Minute, time.Millisecond, "the informers do not sync")
		return err
	}
}

func (gc *GarbageCollector) shown() string {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	return gc.graph.drawn()
}

// version is that of an object in the graph.
func (gc *GarbageCollector) version(obj *object) string {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	return gc.graph.nodes[obj.UID].object.ResourceVersion
}

var secretsV1 = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func TestKinds(t *testing.T) {
	t.Parallel()
	secret := thing("secret", func(o *object) { o.Kind = "Secret" })
	objects := []runtime.Object{secret, thing("note", ownedBy(secret))}
	both := func() *kindsOf {
		return &kindsOf{lists: []*metav1.APIResourceList{served("v1", map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}, all...)}}
	}
	one := served("v1", map[string]string{"configmaps": "ConfigMap"}, all...)

	t.Run("objects of all kinds are in the graph", func(t *testing.T) {
		t.Parallel()
		gc, sync := watching(t, both(), objects...)
		require.NoError(t, sync())
		assert.Equal(t, "note\nsecret <- note", gc.shown())
	})
	t.Run("a kind that is made later is watched", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		kinds.lists = []*metav1.APIResourceList{one}
		gc, sync := watching(t, kinds, objects...)
		require.NoError(t, sync())
		assert.Equal(t, "note\nsecret (virtual) <- note", gc.shown(), "before there are Secrets")
		kinds.lists = both().lists
		require.NoError(t, sync())
		assert.Equal(t, "note\nsecret <- note", gc.shown(), "when there are Secrets")
	})
	definition := thing("secrets", in(""), func(o *object) { o.Kind = "CustomResourceDefinition" })
	t.Run("what was seen of a kind that is not served any more stays", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		gc, sync := watching(t, kinds, objects...)
		require.NoError(t, sync())
		kinds.lists = []*metav1.APIResourceList{one}
		require.NoError(t, sync())
		gc.settle()
		assert.Equal(t, "note\nsecret <- note", gc.shown())
	})
	t.Run("what went while its kind was not served is gone when it is served again", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		gc, sync := watching(t, kinds, append(objects, thing("other", func(o *object) { o.Kind = "Secret" }))...)
		require.NoError(t, sync())
		kinds.lists = []*metav1.APIResourceList{one}
		require.NoError(t, sync())
		secrets := gc.metadata.Resource(secretsV1).Namespace(secret.Namespace)
		require.NoError(t, secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))
		kinds.lists = both().lists
		require.NoError(t, sync())
		gc.settle()
		assert.Equal(t, "note\nother\nsecret (virtual) <- note", gc.shown())
		assert.True(t, gc.graph.knowsLost("note"), "it is known to be gone")
	})
	t.Run("of a kind whose definition is deleted only what is depended on is left as virtual", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		gc, sync := watching(t, kinds, append(objects, thing("other", func(o *object) { o.Kind = "Secret" }))...)
		require.NoError(t, sync())
		gc.appeared(definition)
		gc.gone(definition)
		kinds.lists = []*metav1.APIResourceList{one}
		require.NoError(t, sync())
		gc.settle()
		assert.Equal(t, "note\nsecret (virtual) <- note", gc.shown())
		assert.False(t, gc.graph.knowsLost("note"), "a kind is gone, and its objects are taken for deleted")
	})
	t.Run("a definition that is made again is not a deleted one", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		gc, sync := watching(t, kinds, objects...)
		require.NoError(t, sync())
		gc.gone(definition)
		gc.appeared(definition)
		kinds.lists = []*metav1.APIResourceList{one}
		require.NoError(t, sync())
		gc.settle()
		assert.Equal(t, "note\nsecret <- note\nsecrets", gc.shown())
	})
	t.Run("what moves to another version is in the graph at every moment", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		gc, sync := watching(t, kinds, objects...)
		client := gc.metadata.(*metadatafake.FakeMetadataClient)
		before := watch.NewRaceFreeFake()
		watched := make(chan struct{}, 10)
		client.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
			isFirst := action.GetResource() == secretsV1
			if isFirst {
				watched <- struct{}{}
			}
			return isFirst, before, nil
		})
		require.NoError(t, sync())
		<-watched // one that is stopped before it watches never stops what it would watch
		shown := secret.DeepCopy()
		shown.APIVersion = "v2"
		require.NoError(t, client.Tracker().Create(schema.GroupVersionResource{Version: "v2", Resource: "secrets"}, shown, shown.Namespace))
		answer := make(chan struct{})
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-answer
			return false, nil, nil
		})
		kinds.lists = []*metav1.APIResourceList{one, served("v2", map[string]string{"secrets": "Secret"}, all...)}
		require.NoError(t, gc.syncMonitors(t.Context()))
		gc.settle()
		assert.Equal(t, "note\nsecret <- note", gc.shown(), "the new version has not told yet what there is")
		close(answer)
		require.NoError(t, sync())
		gc.settle()
		assert.Equal(t, "note\nsecret <- note", gc.shown(), "the new version has told")

		late := thing("secret", func(o *object) { o.Kind, o.ResourceVersion = "Secret", "2" })
		before.Modify(late)
		require.Eventually(t, func() bool { return before.IsStopped() || gc.version(secret) == "2" }, time.Minute, time.Millisecond)
		require.NoError(t, sync())
		gc.settle()
		assert.Equal(t, "note\nsecret <- note", gc.shown(), "an informer of the version before has told last")
		assert.Len(t, *gc.monitors.Load(), 2)
	})
	t.Run("a group that cannot be asked about keeps what it has", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		kinds.lists = append(kinds.lists, served("metrics.example.com/v1", nil))
		gc, sync := watching(t, kinds, objects...)
		require.NoError(t, sync())
		kinds.lists = nil
		kinds.err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Version: "v1"}: errors.New("no answer")}}
		assert.ErrorContains(t, sync(), "no answer", "somebody is to be told")
		assert.Equal(t, "note\nsecret <- note", gc.shown())
	})
	t.Run("where nothing can be found out everything stays", func(t *testing.T) {
		t.Parallel()
		kinds := both()
		gc, sync := watching(t, kinds, objects...)
		require.NoError(t, sync())
		kinds.lists, kinds.err = nil, errors.New("no answer")
		assert.ErrorContains(t, sync(), "no answer")
		assert.Equal(t, "note\nsecret <- note", gc.shown())
	})
	for situation, lists := range map[string][]*metav1.APIResourceList{
		"an answer without any kinds":                   nil,
		"an answer without the core group":              {served("example.com/v1", map[string]string{"comets": "Comet"}, all...)},
		"an answer with a core group that has no kinds": {served("v1", nil), served("example.com/v1", map[string]string{"comets": "Comet"}, all...)},
	} {
		t.Run(situation+" is not believed", func(t *testing.T) {
			t.Parallel()
			kinds := both()
			gc, sync := watching(t, kinds, objects...)
			require.NoError(t, sync())
			kinds.lists = lists
			assert.ErrorContains(t, sync(), "the API server names no resources of the core group")
			assert.Equal(t, "note\nsecret <- note", gc.shown())
			assert.Len(t, *gc.monitors.Load(), 2)
		})
	}
	t.Run("what is ignored or cannot be watched or deleted is left out", func(t *testing.T) {
		t.Parallel()
		gc, sync := watching(t, &kindsOf{lists: []*metav1.APIResourceList{
			one,
			served("v1", map[string]string{"events": "Event"}, all...),
			served("v1", map[string]string{"componentstatuses": "ComponentStatus"}, "get", "list"),
			served("v1", map[string]string{"bindings": "Binding"}, "create"),
		}}, objects...)
		require.NoError(t, sync())
		assert.Len(t, *gc.monitors.Load(), 1, "only ConfigMaps")
	})
	t.Run("of an object only what counts is kept", func(t *testing.T) {
		t.Parallel()
		full := thing("note", ownedBy(secret), withFinalizers("example.com/mine"), deleted(), labelled)
		full.TypeMeta, full.Annotations = metav1.TypeMeta{}, map[string]string{"large": "…"}
		kept := trim(full, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
		assert.Equal(t, thing("note", ownedBy(secret), withFinalizers("example.com/mine"), deleted()), kept)
	})
	t.Run("what another loop watches is not watched once more", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Secret{ObjectMeta: secret.ObjectMeta})
			others := informers.NewSharedInformerFactory(client, 0)
			gc, sync := watching(t, both(), objects[1])
			gc.shared = map[schema.GroupVersionResource]cache.SharedIndexInformer{
				corev1.SchemeGroupVersion.WithResource("secrets"): others.Core().V1().Secrets().Informer(),
			}
			others.Start(t.Context().Done())
			require.NoError(t, sync())
			assert.Equal(t, "note\nsecret <- note", gc.shown())
			synctest.Wait() // until the informer watches: the client does not tell it of what was deleted before
			require.NoError(t, client.CoreV1().Secrets(secret.Namespace).Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))
			synctest.Wait()
			assert.Equal(t, "note\nsecret (virtual) <- note", gc.shown())
		})
	})
}

// asking calls back before each informer begins.
type asking struct {
	*metadatafake.FakeMetadataClient
	before func(schema.GroupVersionResource)
}

func (a asking) Resource(resource schema.GroupVersionResource) metadata.Getter {
	a.before(resource)
	return a.FakeMetadataClient.Resource(resource)
}

func TestTheGraphIsNotWholeBeforeAllKindsAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kinds := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}
		gc, _ := watching(t, &kindsOf{lists: []*metav1.APIResourceList{served("v1", kinds, all...)}})
		gc.metadata = asking{gc.metadata.(*metadatafake.FakeMetadataClient), func(next schema.GroupVersionResource) {
			synctest.Wait() // until an informer that was started before has synced
			assert.False(t, gc.synced(), "%s are not watched yet", next.Resource)
		}}
		require.NoError(t, gc.syncMonitors(t.Context()))
		synctest.Wait()
		assert.True(t, gc.synced(), "all are watched")
	})
}

func TestADefinitionOfKindsHasThemLookedUp(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int{"CustomResourceDefinition": 1, "APIService": 1, "ConfigMap": 0} {
		gc := &GarbageCollector{kindsChanged: make(chan struct{}, 1)}
		gc.noticeKinds(thing("new", func(o *object) { o.Kind = kind }))
		gc.noticeKinds(thing("newer", func(o *object) { o.Kind = kind }))
		assert.Len(t, gc.kindsChanged, want, "a %s was made, and another one", kind)
	}
}
