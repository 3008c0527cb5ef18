package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestDecideStatus(t *testing.T) {
	t.Parallel()
	full, failed := errors.New("quota exceeded by shop-index-x7k2p"), errors.New("quota exceeded by shop-index-9m4zt")
	before := func(status WebsiteStatus) func(*Website) { return func(site *Website) { site.Status = status } }
	cases := []struct {
		name    string
		site    *Website
		pages   []*corev1.ConfigMap
		failure error
		want    string
	}{
		{"it speaks of the generation that was seen", shop(before(WebsiteStatus{ObservedGeneration: 2, Published: 2})),
			[]*corev1.ConfigMap{index(), about()}, nil, "generation 3: 2 published"},
		{"a page that is only planned is not published", shop(), []*corev1.ConfigMap{index()}, nil,
			"generation 3: 1 published"},
		{"a page with another text is not published", shop(),
			[]*corev1.ConfigMap{configMap("shop-index", "index", "Buy my pills!", 0), about()}, nil,
			"generation 3: 1 published"},
		{"a ConfigMap of no page is no page", shop(),
			[]*corev1.ConfigMap{index(), about(), configMap("shop-jobs", "jobs", "None.", 0)}, nil, "generation 3: 2 published"},
		{"two ConfigMaps for one page are one page", shop(),
			[]*corev1.ConfigMap{index(), configMap("draft", "index", "We sell shoes.", 5)}, nil, "generation 3: 1 published"},
		{"of two for one page the older one counts", shop(),
			[]*corev1.ConfigMap{configMap("old", "index", "We sell.", 0), configMap("draft", "index", "We sell shoes.", 5)}, nil,
			"generation 3: 0 published"},
		{"a website without pages has none published", shop(func(site *Website) { site.Spec.Pages = nil }), nil, nil,
			"generation 3: 0 published"},
		{"a failure is told", shop(), []*corev1.ConfigMap{about()}, full,
			"generation 3: 1 published, quota exceeded by shop-index-x7k2p"},
		{"while something fails, the text of the first failure stays",
			shop(before(WebsiteStatus{ObservedGeneration: 2, Problem: full.Error()})), []*corev1.ConfigMap{about()}, failed, "generation 3: 1 published, quota exceeded by shop-index-x7k2p"},
		{"a problem that is over is told no more", shop(before(WebsiteStatus{Published: 1, Problem: full.Error()})),
			[]*corev1.ConfigMap{index(), about()}, nil, "generation 3: 2 published"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status := decideStatus(observed{c.site, copies(c.pages), true}, c.failure)
			assert.Equal(t, c.want, said(status), "a website %s with %s; its status so far is %q", spec(c.site),
				list(c.pages), said(c.site.Status))
		})
	}
	t.Run("the cached website is not changed", func(t *testing.T) {
		t.Parallel()
		site := shop()
		decideStatus(observed{site, []*corev1.ConfigMap{index()}, true}, full)
		assert.Equal(t, "generation 0: 0 published", said(site.Status), "the cached status afterwards")
	})
}

// said is what a status says.
func said(status WebsiteStatus) string {
	text := fmt.Sprintf("generation %d: %d published", status.ObservedGeneration, status.Published)
	if status.Problem != "" {
		text += ", " + status.Problem
	}
	return text
}
