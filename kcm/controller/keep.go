package controller

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Keep is what a loop reads of objects of one type whose cache it shares with other
// loops, and what therefore stays of them in the cache. See [Trim].
type Keep struct {
	// Of is the type of a pointer to such an object.
	Of   reflect.Type
	copy func(kept, whole any)
}

// KeepOf returns a Keep of the type T, an API type, for example a pod. To copy is to
// give an object, of which little is left, what a loop reads of the whole one. It
// may be done twice.
func KeepOf[T any](copy func(kept, whole *T)) *Keep {
	return &Keep{reflect.TypeFor[*T](), func(kept, whole any) { copy(kept.(*T), whole.(*T)) }}
}

// Trim returns what drops from an object what no loop reads, before it is cached:
// managed fields of all, what is to run in a pod and its status, the status of a
// node, the data of a Secret. What the given Keeps copy stays. They copy in their
// order; one that comes twice copies once.
//
// The object is still the informer's alone, so it is changed in place. It may come a
// second time, and then nothing changes.
func Trim(keeps ...*Keep) cache.TransformFunc {
	seen, of := map[*Keep]bool{}, map[reflect.Type][]*Keep{}
	for _, k := range keeps {
		if !seen[k] {
			seen[k], of[k.Of] = true, append(of[k.Of], k)
		}
	}
	return func(obj any) (any, error) {
		kept, ok := obj.(metav1.Object)
		if !ok {
			return obj, nil // a tombstone has what was trimmed before
		}
		whole := shallowCopy(obj)
		strip(kept)
		for _, k := range of[reflect.TypeOf(obj)] {
			k.copy(obj, whole)
		}
		return obj, nil
	}
}

func shallowCopy(obj any) any {
	same := reflect.New(reflect.TypeOf(obj).Elem())
	same.Elem().Set(reflect.ValueOf(obj).Elem())
	return same.Interface()
}

// strip leaves of an object what every loop finds in the cache.
func strip(obj metav1.Object) {
	obj.SetManagedFields(nil)
	switch obj := obj.(type) {
	case *corev1.Secret:
		obj.Data = nil
	case *corev1.Pod:
		obj.Spec, obj.Status = corev1.PodSpec{}, corev1.PodStatus{}
	case *corev1.Node:
		obj.Status = corev1.NodeStatus{}
	}
}
