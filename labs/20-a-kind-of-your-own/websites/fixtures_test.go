package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shop returns a website of two pages, and what is done to it.
func shop(changes ...func(*Website)) *Website {
	site := &Website{
		TypeMeta: metav1.TypeMeta{APIVersion: websiteKind.GroupVersion().String(), Kind: websiteKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "shop", UID: "shop-1", Generation: 3, ResourceVersion: "30",
		},
		Spec: WebsiteSpec{Pages: map[string]string{"index": "We sell shoes.", "about": "Since 1887."}},
	}
	for _, change := range changes {
		change(site)
	}
	return site
}

// beingDeleted is of a website that something still holds.
func beingDeleted(site *Website) {
	site.DeletionTimestamp = &metav1.Time{Time: noon}
	site.Finalizers = []string{"example.com/hold"}
}

// noon is when the first of all ConfigMaps was created.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// configMap returns the ConfigMap of a page of the shop, some seconds after noon.
func configMap(name, page, text string, seconds int) *corev1.ConfigMap {
	configMap := newPage(shop(), page, text)
	configMap.Namespace, configMap.GenerateName = "default", ""
	configMap.Name, configMap.UID = name, types.UID("uid-"+name)
	configMap.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
	return configMap
}

func index() *corev1.ConfigMap { return configMap("shop-index", "index", "We sell shoes.", 0) }
func about() *corev1.ConfigMap { return configMap("shop-about", "about", "Since 1887.", 0) }

// told says what a plan does.
func told(p plan) string {
	var all []string
	for _, page := range p.create {
		all = append(all, fmt.Sprintf("create %s %s", page.Labels[pageLabel], data(page)))
	}
	for _, page := range p.update {
		all = append(all, fmt.Sprintf("write %s to %s", data(page), page.Name))
	}
	for _, page := range p.delete {
		all = append(all, "delete "+page.Name)
	}
	if len(all) == 0 {
		return "nothing"
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// data is what a ConfigMap holds.
func data(page *corev1.ConfigMap) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(page.Data)) {
		all = append(all, fmt.Sprintf("%s=%q", key, page.Data[key]))
	}
	return "{" + strings.Join(all, " ") + "}"
}

// spec says what a website asks for.
func spec(site *Website) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(site.Spec.Pages)) {
		all = append(all, fmt.Sprintf("%s=%q", name, site.Spec.Pages[name]))
	}
	return "of pages {" + strings.Join(all, " ") + "}"
}

// list says which ConfigMaps there are, in their order.
func list(pages []*corev1.ConfigMap) string {
	var all []string
	for _, page := range pages {
		all = append(all, fmt.Sprintf("%s (page %s, created %s) %s",
			page.Name, page.Labels[pageLabel], page.CreationTimestamp.UTC().Format("15:04:05"), data(page)))
	}
	if len(all) == 0 {
		return "no ConfigMaps"
	}
	return strings.Join(all, ", ")
}

// whose says to whom a ConfigMap belongs, and what its labels are.
func whose(page *corev1.ConfigMap) string {
	owner := "nobody"
	if ref := metav1.GetControllerOf(page); ref != nil {
		owner = ref.Kind + "/" + ref.Name
	}
	var all []string
	for _, label := range slices.Sorted(maps.Keys(page.Labels)) {
		all = append(all, label+"="+page.Labels[label])
	}
	return fmt.Sprintf("owner %s; labels %s", owner, strings.Join(all, " "))
}

// copies returns objects that a test may spoil.
func copies(pages []*corev1.ConfigMap) []*corev1.ConfigMap {
	var all []*corev1.ConfigMap
	for _, page := range pages {
		all = append(all, page.DeepCopy())
	}
	return all
}
