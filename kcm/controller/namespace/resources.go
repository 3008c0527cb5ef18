package namespace

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
)

// orderedNamespaceDeletion has the pods of a namespace go before everything
// else (https://kep.k8s.io/5080). It is locked to true since 1.34, so only
// --emulated-version can turn it off.
const orderedNamespaceDeletion featuregate.Feature = "OrderedNamespaceDeletion"

// lateCreations is for how long after a namespace began to go an API server
// that has not heard of it may still let objects be created in it.
const lateCreations = 5 * time.Second

// pods is the resource that goes first. The metrics API has pods, too.
var pods = corev1.SchemeGroupVersion.WithResource("pods")

// resource is a kind of objects that a namespace can hold, by its path in the
// API.
type resource struct {
	schema.GroupVersionResource
	// asOne says that all its objects in a namespace can be deleted with one
	// request.
	asOne bool
}

// emptiable returns the resources whose objects can be listed and deleted. The
// error is about lists that it cannot read; it returns what is in the others.
func emptiable(lists []*metav1.APIResourceList) ([]resource, error) {
	var all []resource
	var errs []error
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				all = append(all, resource{version.WithResource(r.Name), slices.Contains(r.Verbs, "deletecollection")})
			}
		}
	}
	return all, errors.Join(errs...)
}

// phases returns the resources that may be cleared now, in groups: a group's
// turn comes when nothing is left of the one before but pods that have ended.
// Elapsed is how long ago the deletion of the namespace was noticed, and podsFirst
// whether the gate [orderedNamespaceDeletion] is on.
func phases(all []resource, elapsed time.Duration, podsFirst bool) [][]resource {
	var first, rest []resource
	for _, r := range all {
		if podsFirst && r.GroupVersionResource == pods {
			first = append(first, r)
		} else {
			rest = append(rest, r)
		}
	}
	if elapsed < lateCreations {
		return [][]resource{first}
	}
	return [][]resource{first, rest}
}
