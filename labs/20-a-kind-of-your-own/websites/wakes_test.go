package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// serving returns an API server's websites.
func serving(t *testing.T, sites ...*Website) *dynamicfake.FakeDynamicClient {
	t.Helper()
	kinds := runtime.NewScheme()
	kinds.AddKnownTypeWithName(websiteKind, &unstructured.Unstructured{})
	kinds.AddKnownTypeWithName(websiteKind.GroupVersion().WithKind("WebsiteList"), &unstructured.UnstructuredList{})
	var objects []runtime.Object
	for _, site := range sites {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(site)
		require.NoError(t, err)
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return dynamicfake.NewSimpleDynamicClient(kinds, objects...)
}

// starting returns what makes the loop. It notes what it is asked to look at, and syncs
// that only if it is said to.
func starting(t *testing.T, sites dynamic.Interface, client kubernetes.Interface, syncs bool) bubble.Start {
	t.Helper()
	return func(ctx context.Context, builtIn informers.SharedInformerFactory, note func(string)) func(context.Context) {
		factory := dynamicinformer.NewDynamicSharedInformerFactory(sites, 0)
		c, err := newController(factory.ForResource(websites).Informer(), builtIn.Core().V1().ConfigMaps(), sites, client)
		require.NoError(t, err)
		bubble.Note(&c.loop.Sync, note, syncs)
		factory.Start(ctx.Done())
		return func(ctx context.Context) {
			c.loop.Run(ctx, 1, c.synced...)
			factory.Shutdown()
		}
	}
}

// What decisions read of other objects: of a ConfigMap, all of it. Any change wakes its
// owner; an orphan that comes or has other labels wakes the website that these name.
func TestAWebsiteIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, sites dynamic.Interface, client kubernetes.Interface) error
	site := func(patch string) change {
		return func(ctx context.Context, sites dynamic.Interface, _ kubernetes.Interface) error {
			_, err := sites.Resource(websites).Namespace("default").Patch(ctx, "shop", types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	page := func(name string, edit func(*corev1.ConfigMap)) change {
		return func(ctx context.Context, _ dynamic.Interface, client kubernetes.Interface) error {
			return bubble.Edit(ctx, client.CoreV1().ConfigMaps("default"), name, edit)
		}
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a website has another page": {site(`{"spec":{"pages":{"jobs":"None."}}}`), "shop"},
		"its status is changed":      {site(`{"status":{"published":7}}`), "shop"},
		"a page has another text": {
			page("shop-index", func(p *corev1.ConfigMap) { p.Data = content("We buy shoes.") }), "shop"},
		"a page is to go": {
			page("shop-index", func(p *corev1.ConfigMap) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), "shop"},
		"a page loses its label": {page("shop-index", func(p *corev1.ConfigMap) { unlabelled(p) }), "shop"},
		"a page is another website's": {page("shop-index", func(p *corev1.ConfigMap) { of(labelled(p, "bakery"), "bakery") }),
			"bakery shop"},
		"an orphan has a website's label": {page("stray", func(p *corev1.ConfigMap) { labelled(p, "bakery") }), "bakery"},
		"an orphan has a note": {
			page("stray", func(p *corev1.ConfigMap) { p.Annotations = map[string]string{"note": "x"} }), ""},
		"an orphan comes that is wanted": {func(ctx context.Context, _ dynamic.Interface, client kubernetes.Interface) error {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, without(about()), metav1.CreateOptions{})
			return err
		}, "shop"},
		"a page goes": {func(ctx context.Context, _ dynamic.Interface, client kubernetes.Interface) error {
			return client.CoreV1().ConfigMaps("default").Delete(ctx, "shop-index", metav1.DeleteOptions{})
		}, "shop"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bakery := shop(func(site *Website) { site.Name, site.UID = "bakery", "bakery-1" })
			stray := unlabelled(without(index()))
			stray.Name = "stray"
			sites, client := serving(t, shop(), bakery), fake.NewClientset(index(), stray)
			woken := bubble.Woken(t, client, starting(t, sites, client, false), func(ctx context.Context) error {
				return test.change(ctx, sites, client)
			})
			assert.Equal(t, test.want, woken)
		})
	}
}

func TestAPageThatIsNeverShownIsWaitedForAndNotPolled(t *testing.T) {
	t.Parallel()
	sites, client := serving(t, shop()), fake.NewClientset()
	bubble.Deaf(client, "configmaps")
	start := starting(t, sites, client, true)
	assert.Equal(t, "shop", bubble.Woken(t, client, start, bubble.Nothing), "when it has waited long enough")
	sent := func() int { return len(client.Actions()) + len(sites.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, start, sent), bubble.Most)
}
