package main

import (
	"cmp"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels that say which page of which website a ConfigMap is.
const (
	websiteLabel = "website"
	pageLabel    = "page"
)

// observed is what one sync knows. What it points to is the cache's and must
// not be changed.
type observed struct {
	// site is nil when it is gone.
	site *Website
	// pages are the ConfigMaps that belong to it, but for those that are being
	// deleted.
	pages []*corev1.ConfigMap
	// settled says that the cache shows all that was created and deleted.
	settled bool
}

// plan is what one sync does.
type plan struct {
	create, update, delete []*corev1.ConfigMap
}

// decide plans what brings the website's ConfigMaps to what its spec asks for:
// one for each page, with the page's content, and no other. It changes nothing
// that it was shown.
func decide(seen observed) plan {
	var p plan
	if !seen.settled || seen.site.DeletionTimestamp != nil {
		return p
	}
	kept := oldest(seen.pages)
	for _, page := range seen.pages {
		name := page.Labels[pageLabel]
		text, wanted := seen.site.Spec.Pages[name]
		switch {
		case !wanted || page != kept[name]:
			p.delete = append(p.delete, page)
		case !maps.Equal(page.Data, content(text)):
			changed := page.DeepCopy()
			changed.Data = content(text)
			p.update = append(p.update, changed)
		}
	}
	for name, text := range seen.site.Spec.Pages {
		if kept[name] == nil {
			p.create = append(p.create, newPage(seen.site, name, text))
		}
	}
	return p
}

// decideStatus returns what the website's user is told of what was seen, and of
// the failure to carry the plan out, if any. As long as one sync after the other
// fails, the text of the problem stays.
func decideStatus(seen observed, failure error) WebsiteStatus {
	status := WebsiteStatus{ObservedGeneration: seen.site.Generation}
	kept := oldest(seen.pages)
	for name, text := range seen.site.Spec.Pages {
		if page := kept[name]; page != nil && maps.Equal(page.Data, content(text)) {
			status.Published++
		}
	}
	if failure != nil {
		status.Problem = cmp.Or(seen.site.Status.Problem, failure.Error())
	}
	return status
}

// oldest returns the oldest ConfigMap of each page, by the page's name. Of two
// of the same second it is always the same one.
func oldest(pages []*corev1.ConfigMap) map[string]*corev1.ConfigMap {
	first := map[string]*corev1.ConfigMap{}
	for _, page := range pages {
		name := page.Labels[pageLabel]
		if other := first[name]; other == nil || cmp.Or(
			page.CreationTimestamp.Compare(other.CreationTimestamp.Time), strings.Compare(page.Name, other.Name)) < 0 {
			first[name] = page
		}
	}
	return first
}

// content is the data of a page's ConfigMap.
func content(text string) map[string]string { return map[string]string{"text": text} }

// newPage returns the ConfigMap of a page, for the API server to name.
func newPage(site *Website, name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    site.Name + "-" + name + "-",
			Labels:          map[string]string{websiteLabel: site.Name, pageLabel: name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(site, websiteKind)},
		},
		Data: content(text),
	}
}
