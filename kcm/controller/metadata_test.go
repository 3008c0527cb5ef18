package controller_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// An informer may hold a lock of its own while it calls a handler: always without this gate, and with it while some
// 2,000 events wait. A loop that asks it under a mutex which the handler wants would wait for ever.
func TestAnInformerAnswersWhileItsHandlerWaitsForWhoAsks(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.DefaultFeatureGate,
		featuregate.Feature(clientfeatures.UnlockWhileProcessingFIFO), false)
	note := metav1.ObjectMeta{Namespace: "here", Name: "note", UID: "1"}
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	for name, start := range map[string]func(t *testing.T, handler func()) cache.InformerSynced{
		"of metadata": func(t *testing.T, handler func()) cache.InformerSynced {
			client := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: note,
			})
			same := func(obj *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata { return obj }
			informer := controller.WatchMetadata(t.Context(), client, corev1.SchemeGroupVersion.WithResource("configmaps"), same,
				controller.Handlers[*metav1.PartialObjectMetadata]{Add: func(*metav1.PartialObjectMetadata) { handler() }})
			t.Cleanup(informer.Stop)
			return informer.HasSynced
		},
		"that is shared": func(t *testing.T, handler func()) cache.InformerSynced {
			factory := informers.NewSharedInformerFactory(fake.NewClientset(&corev1.ConfigMap{ObjectMeta: note}), 0)
			synced := controller.Handle(factory.Core().V1().ConfigMaps().Informer(),
				controller.Handlers[*corev1.ConfigMap]{Add: func(*corev1.ConfigMap) { handler() }})
			factory.Start(t.Context().Done())
			return synced
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			called, answer := make(chan struct{}), make(chan bool, 1)
			mu.Lock()
			synced := start(t, func() { close(called); mu.Lock(); defer mu.Unlock() })
			<-called
			go func() { answer <- synced() }()
			select {
			case synced := <-answer:
				assert.False(t, synced, "its handler has not seen the only object yet")
			case <-time.After(time.Minute):
				assert.Fail(t, "HasSynced waits for the handler, which waits for who asks")
			}
			mu.Unlock()
			require.Eventually(t, synced, time.Minute, time.Millisecond)
		})
	}
}

func TestWhatHasAnothersNameByNowIsToldAsDeletedAndNew(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	watched := watch.NewRaceFreeFake()
	client.PrependWatchReactor("configmaps", clienttesting.DefaultWatchReactor(watched, nil))
	note := func(uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "note", UID: uid},
		}
	}
	told := make(chan string, 10)
	tell := func(what string) func(*metav1.PartialObjectMetadata) {
		return func(obj *metav1.PartialObjectMetadata) { told <- what + " " + string(obj.UID) }
	}
	same := func(obj *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata { return obj }
	informer := controller.WatchMetadata(t.Context(), client, corev1.SchemeGroupVersion.WithResource("configmaps"), same,
		controller.Handlers[*metav1.PartialObjectMetadata]{
			Add: tell("new"), Update: func(_, obj *metav1.PartialObjectMetadata) { tell("changed")(obj) }, Delete: tell("deleted"),
		})
	t.Cleanup(informer.Stop)
	watched.Add(note("1"))
	watched.Modify(note("2")) // as an informer finds it that lists again after its watch was broken
	for _, want := range []string{"new 1", "deleted 1", "new 2"} {
		select {
		case is := <-told:
			require.Equal(t, want, is)
		case <-time.After(time.Minute):
			require.Fail(t, "no handler was called for 10 s", "it was to be %s", want)
		}
	}
}
