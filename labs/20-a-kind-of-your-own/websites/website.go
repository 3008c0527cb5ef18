package main

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	websiteKind = schema.GroupVersionKind{Group: "kcm-book.io", Version: "v1", Kind: "Website"}
	websites    = websiteKind.GroupVersion().WithResource("websites")
)

// Website has each of its pages in a ConfigMap.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status"`
}

// WebsiteSpec is what a user asks for.
type WebsiteSpec struct {
	// Pages leads from the names of pages to their texts.
	Pages map[string]string `json:"pages"`
}

// WebsiteStatus is what the controller has seen. No field is left out when it
// is empty: the status is written as a patch, in which absent means unchanged.
type WebsiteStatus struct {
	// ObservedGeneration is that of the spec that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration"`
	// Published is how many of the pages had their text.
	Published int `json:"published"`
	// Problem is why a plan could not be carried out, or "".
	Problem string `json:"problem"`
}

// DeepCopyObject implements [runtime.Object].
func (w *Website) DeepCopyObject() runtime.Object {
	copied := *w
	copied.ObjectMeta = *w.ObjectMeta.DeepCopy()
	copied.Spec.Pages = maps.Clone(w.Spec.Pages)
	return &copied
}

// toWebsite makes a Website of what the dynamic client has read. An informer
// calls it before it caches an object, and maybe again.
func toWebsite(obj any) (any, error) {
	raw, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	website := &Website{}
	return website, runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, website)
}
