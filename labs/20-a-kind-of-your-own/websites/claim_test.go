package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	orphan := func() *corev1.ConfigMap { return without(index()) }
	cases := []struct {
		name string
		page *corev1.ConfigMap
		live *Website // at the API server; the cached one is shop()
		ours bool
		want string // whose it is afterwards
	}{
		{"an orphan with the website's label is adopted", orphan(), shop(), true,
			"owner Website/shop; labels page=index website=shop"},
		{"an orphan without the label is left alone", unlabelled(orphan()), shop(), false, "owner nobody; labels page=index"},
		{"an orphan with another website's label is left alone", labelled(orphan(), "bakery"), shop(), false,
			"owner nobody; labels page=index website=bakery"},
		{"a page of the website's stays", index(), shop(), true, "owner Website/shop; labels page=index website=shop"},
		{"a page that has lost the label is released", unlabelled(index()), shop(), false, "owner nobody; labels page=index"},
		{"a page that has got another website's label is released", labelled(index(), "bakery"), shop(), false,
			"owner nobody; labels page=index website=bakery"},
		{"what belongs to another is left alone, whatever its labels", of(index(), "bakery"), shop(), false,
			"owner Website/bakery; labels page=index website=shop"},
		{"a website that is being deleted, which the cache does not show yet, adopts nothing", orphan(),
			shop(beingDeleted), false,
			"owner nobody; labels page=index website=shop"},
		{"a website that is gone, which the cache does not show yet, adopts nothing", orphan(), nil, false,
			"owner nobody; labels page=index website=shop"},
		{"a website whose name another has by now adopts nothing", orphan(),
			shop(func(site *Website) { site.UID = "shop-2" }), false,
			"owner nobody; labels page=index website=shop"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			situation := "ConfigMap shop-index: " + whose(c.page)
			controller, client := controllerOf(c.live, c.page)
			claimed, _ := controller.claim(t.Context(), shop(), []*corev1.ConfigMap{c.page})
			after, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "shop-index", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, c.want, whose(after), situation)
			assert.Equal(t, belonging(c.ours), belonging(len(claimed) == 1), situation)
		})
	}
	t.Run("a release leaves other references where they are", func(t *testing.T) {
		t.Parallel()
		page := unlabelled(index())
		page.OwnerReferences = append(page.OwnerReferences,
			metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "key", UID: "key-1"})
		controller, client := controllerOf(shop(), page)
		_, err := controller.claim(t.Context(), shop(), []*corev1.ConfigMap{page})
		require.NoError(t, err)
		after, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "shop-index", metav1.GetOptions{})
		require.NoError(t, err)
		require.Len(t, after.OwnerReferences, 1, "ConfigMap shop-index had the owners Website/shop and Secret/key")
		assert.Equal(t, "Secret", after.OwnerReferences[0].Kind)
	})
	t.Run("where nothing is to be done nothing is asked for", func(t *testing.T) {
		t.Parallel()
		controller, client := controllerOf(shop(), index())
		_, err := controller.claim(t.Context(), shop(), []*corev1.ConfigMap{index(), unlabelled(without(about()))})
		require.NoError(t, err)
		assert.Equal(t, "no requests", requests(client), "one page is the website's, one ConfigMap is nobody's")
	})
	t.Run("one that cannot be adopted does not keep the others from belonging", func(t *testing.T) {
		t.Parallel()
		controller, client := controllerOf(shop(), orphan())
		client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("refused")
		})
		claimed, err := controller.claim(t.Context(), shop(), []*corev1.ConfigMap{orphan(), about()})
		require.Error(t, err, "a refused adoption is an error")
		assert.Equal(t, list([]*corev1.ConfigMap{about()}), list(claimed),
			"an orphan that cannot be adopted, and a page of the website's")
	})
}

// controllerOf returns a controller at a fake API server that has the ConfigMap,
// and the website unless it is nil.
func controllerOf(site *Website, page *corev1.ConfigMap) (*Controller, *fake.Clientset) {
	var live []runtime.Object
	if site != nil {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(site)
		if err != nil {
			panic(err)
		}
		live = append(live, &unstructured.Unstructured{Object: object})
	}
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{websites: "WebsiteList"}, live...)
	client := fake.NewClientset(page.DeepCopy())
	return &Controller{siteClient: dynamic.Resource(websites), client: client}, client
}

// requests says what was asked of the fake API server about ConfigMaps.
func requests(client *fake.Clientset) string {
	var all []string
	for _, action := range client.Actions() {
		all = append(all, action.GetVerb()+" "+action.GetResource().Resource)
	}
	if len(all) == 0 {
		return "no requests"
	}
	return strings.Join(all, ", ")
}

func belonging(is bool) string {
	if is {
		return "the page is the website's"
	}
	return "the page is not the website's"
}

func without(page *corev1.ConfigMap) *corev1.ConfigMap {
	page.OwnerReferences = nil
	return page
}

func unlabelled(page *corev1.ConfigMap) *corev1.ConfigMap {
	delete(page.Labels, websiteLabel)
	return page
}

func labelled(page *corev1.ConfigMap, website string) *corev1.ConfigMap {
	page.Labels[websiteLabel] = website
	return page
}

// of makes a page belong to another website.
func of(page *corev1.ConfigMap, website string) *corev1.ConfigMap {
	page.OwnerReferences[0].Name, page.OwnerReferences[0].UID = website, "bakery-1"
	return page
}
