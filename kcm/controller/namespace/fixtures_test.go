package namespace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	orders     = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "orders"}
)

// object is one of that name that nobody has asked to go.
func object(name string, edits ...func(*metav1.PartialObjectMetadata)) metav1.PartialObjectMetadata {
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	for _, edit := range edits {
		edit(&object)
	}
	return object
}

func going(object *metav1.PartialObjectMetadata) {
	object.DeletionTimestamp = new(metav1.NewTime(time.Unix(1000, 0)))
	object.DeletionGracePeriodSeconds = new(int64(0))
}

// graceful is an object that is going and has so many seconds.
func graceful(seconds int64) func(*metav1.PartialObjectMetadata) {
	return func(object *metav1.PartialObjectMetadata) {
		going(object)
		object.DeletionGracePeriodSeconds = &seconds
	}
}

func heldBy(finalizers ...string) func(*metav1.PartialObjectMetadata) {
	return func(object *metav1.PartialObjectMetadata) { object.Finalizers = finalizers }
}

func names(objects []metav1.PartialObjectMetadata) string {
	var names []string
	for _, object := range objects {
		names = append(names, object.Name)
	}
	slices.Sort(names)
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// nothing is what is left of an empty namespace that began to go so long ago.
func nothing(elapsed time.Duration) remains {
	return remains{
		namespace: &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop"},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
		},
		now:     time.Unix(2000, 0),
		elapsed: elapsed,
		waited:  elapsed,
		objects: map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{},
	}
}

func (l remains) with(r schema.GroupVersionResource, objects ...metav1.PartialObjectMetadata) remains {
	l.objects[r] = objects
	return l
}

// inWords says what the conditions say, "ok" for all those that are False.
func inWords(conditions []corev1.NamespaceCondition) string {
	var lines []string
	for _, c := range conditions {
		if c.Status == corev1.ConditionTrue {
			lines = append(lines, fmt.Sprintf("%s (%s): %s", c.Type, c.Reason, c.Message))
		}
	}
	if lines == nil {
		return "ok"
	}
	return strings.Join(lines, "\n")
}
