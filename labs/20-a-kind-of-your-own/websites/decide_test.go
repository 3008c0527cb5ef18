package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	both := []*corev1.ConfigMap{index(), about()}
	cases := []struct {
		name  string
		site  *Website
		pages []*corev1.ConfigMap
		want  string
	}{
		{"pages without a ConfigMap are created", shop(), nil,
			`create about {text="Since 1887."}; create index {text="We sell shoes."}`},
		{"only the page that is missing is created", shop(), both[:1], `create about {text="Since 1887."}`},
		{"pages with their text are left alone", shop(), both, "nothing"},
		{"a page with another text gets its own", shop(),
			[]*corev1.ConfigMap{configMap("shop-index", "index", "Buy my pills!", 0), about()},
			`write {text="We sell shoes."} to shop-index`},
		{"a page of no text at all is a page", shop(func(site *Website) { site.Spec.Pages = map[string]string{"index": ""} }),
			nil, `create index {text=""}`},
		{"what else is in a page's ConfigMap is taken out", shop(),
			[]*corev1.ConfigMap{with(index(), "pills", "Buy!"), about()},
			`write {text="We sell shoes."} to shop-index`},
		{"a ConfigMap of no page is deleted", shop(),
			append(both[:2:2], configMap("shop-jobs", "jobs", "None.", 0)), "delete shop-jobs"},
		{"all go when there are no pages any more", shop(func(site *Website) { site.Spec.Pages = nil }), both,
			"delete shop-about; delete shop-index"},
		{"of two for one page the older one stays, though listed first", shop(),
			append(both[:2:2], configMap("draft", "index", "We sell shoes.", 5)), "delete draft"},
		{"of two for one page the older one stays, though listed last", shop(),
			[]*corev1.ConfigMap{configMap("draft", "index", "We sell shoes.", 5), about(), index()}, "delete draft"},
		{"the older one stays also if its text is the wrong one", shop(),
			[]*corev1.ConfigMap{about(), configMap("draft", "index", "We sell shoes.", 5),
				configMap("old", "index", "We sell.", 1)},
			`delete draft; write {text="We sell shoes."} to old`},
		{"of three for one page two go", shop(),
			[]*corev1.ConfigMap{about(), configMap("b", "index", "We sell shoes.", 2), index(),
				configMap("c", "index", "We sell shoes.", 3)},
			"delete b; delete c"},
		{"nothing is done for a website that is being deleted", shop(beingDeleted),
			[]*corev1.ConfigMap{configMap("shop-index", "index", "Buy my pills!", 0)}, "nothing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, told(decide(observed{c.site, copies(c.pages), true})), "a website %s with %s",
				spec(c.site), list(c.pages))
		})
	}
	t.Run("nothing is done on a cache that is behind", func(t *testing.T) {
		t.Parallel()
		stale := []*corev1.ConfigMap{configMap("shop-index", "index", "Buy my pills!", 0)}
		assert.Equal(t, "nothing", told(decide(observed{shop(), stale, false})),
			"the cache shows one page of two, with another text, but more was asked for")
	})
	t.Run("of two of the same second the same one stays, however they are listed", func(t *testing.T) {
		t.Parallel()
		twins := []*corev1.ConfigMap{index(), configMap("twin", "index", "We sell shoes.", 0)}
		first := told(decide(observed{shop(), append(twins[:2:2], about()), true}))
		slices.Reverse(twins)
		assert.Equal(t, first, told(decide(observed{shop(), append(twins, about()), true})), "listed the other way round")
	})
	t.Run("a new page belongs to the website from the beginning", func(t *testing.T) {
		t.Parallel()
		for _, page := range decide(observed{shop(), copies(both[:1]), true}).create {
			assert.Equal(t, "owner Website/shop; labels page=about website=shop", whose(page))
		}
	})
	t.Run("what the cache holds is not changed", func(t *testing.T) {
		t.Parallel()
		stale := configMap("shop-index", "index", "Buy my pills!", 0)
		decide(observed{shop(), []*corev1.ConfigMap{stale, about()}, true})
		assert.Equal(t, `{text="Buy my pills!"}`, data(stale), "the cached ConfigMap afterwards")
	})
	t.Run("a plan that was carried out leaves nothing to be done", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			site, pages := shop(), drawPages(t)
			site.Spec.Pages = rapid.MapOf(rapid.SampledFrom(pageNames), rapid.SampledFrom(texts)).Draw(t, "spec")
			after := carriedOut(decide(observed{site, pages, true}), pages)
			assert.Equal(t, "nothing", told(decide(observed{site, after, true})),
				"a website %s with %s", spec(site), list(after))
		})
	})
}

var (
	pageNames = []string{"index", "about", "jobs"}
	texts     = []string{"", "a", "b"}
)

// drawPages returns any ConfigMaps that may belong to a website.
func drawPages(t *rapid.T) []*corev1.ConfigMap {
	var pages []*corev1.ConfigMap
	for i := range rapid.IntRange(0, 5).Draw(t, "ConfigMaps") {
		pages = append(pages, configMap(fmt.Sprintf("page-%d", i), rapid.SampledFrom(pageNames).Draw(t, "page"),
			rapid.SampledFrom(texts).Draw(t, "text"), rapid.IntRange(0, 3).Draw(t, "age")))
	}
	return pages
}

// carriedOut returns the pages after a plan.
func carriedOut(p plan, pages []*corev1.ConfigMap) []*corev1.ConfigMap {
	byName := map[string]*corev1.ConfigMap{}
	for _, page := range slices.Concat(pages, p.update) {
		byName[page.Name] = page
	}
	for _, page := range p.delete {
		delete(byName, page.Name)
	}
	for i, page := range p.create {
		page.Name = fmt.Sprintf("new-%d", i)
		byName[page.Name] = page
	}
	return slices.Collect(maps.Values(byName))
}

func with(page *corev1.ConfigMap, key, value string) *corev1.ConfigMap {
	page.Data[key] = value
	return page
}
