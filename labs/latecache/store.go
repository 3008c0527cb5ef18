package latecache

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is what a [Store] holds, for example a *corev1.Pod.
type Object[T any] interface {
	comparable
	metav1.Object
	runtime.Object
	DeepCopy() T
}

// Store holds the objects of one resource in one namespace as an API server does: it gives them UIDs and resource
// versions, and refuses an update of something that has changed since it was read. What it returns is a copy.
//
// A Store is not safe for concurrent use.
type Store[T Object[T]] struct {
	resource schema.GroupResource
	objects  map[string]T
	log      []change[T]
}

// change is an object as it was created, changed or, when gone, last seen.
type change[T any] struct {
	obj  T
	gone bool
}

// firstVersion is that of an empty store. Like etcd's, it is not zero, which would not be a version.
const firstVersion = 1

// NewStore returns an empty store. Errors name the resource.
func NewStore[T Object[T]](resource schema.GroupResource) *Store[T] {
	return &Store[T]{resource: resource, objects: map[string]T{}}
}

// Create stores an object, unless there is one of that name.
func (s *Store[T]) Create(obj T) (T, error) {
	if _, exists := s.objects[obj.GetName()]; exists {
		return *new(T), apierrors.NewAlreadyExists(s.resource, obj.GetName())
	}
	obj = obj.DeepCopy()
	obj.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", obj.GetName(), firstVersion+len(s.log)+1)))
	return s.write(obj, false), nil
}

// Update replaces an object by the one that was made of it. An update that changes nothing gives no new resource
// version and no notification.
func (s *Store[T]) Update(obj T) (T, error) {
	there, err := s.Get(obj.GetName())
	switch {
	case err != nil:
		return *new(T), err
	case there.GetResourceVersion() != obj.GetResourceVersion() || there.GetUID() != obj.GetUID():
		return *new(T), apierrors.NewConflict(s.resource, obj.GetName(), errors.New("the object has been modified"))
	case equality.Semantic.DeepEqual(there, obj):
		return there, nil
	}
	return s.write(obj.DeepCopy(), false), nil
}

// Delete removes an object at once. A deletion that takes its time is an Update that sets the deletion timestamp, and
// this later.
func (s *Store[T]) Delete(name string) error {
	obj, err := s.Get(name)
	if err == nil {
		s.write(obj, true)
	}
	return err
}

// Get returns the object of that name.
func (s *Store[T]) Get(name string) (T, error) {
	obj, exists := s.objects[name]
	if !exists {
		return *new(T), apierrors.NewNotFound(s.resource, name)
	}
	return obj.DeepCopy(), nil
}

// List returns all objects, sorted by name.
func (s *Store[T]) List() []T {
	byName := func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) }
	list := slices.SortedFunc(maps.Values(s.objects), byName)
	for i, obj := range list {
		list[i] = obj.DeepCopy()
	}
	return list
}

// write logs a change, which gets its resource version. A deletion has one, too.
func (s *Store[T]) write(obj T, gone bool) T {
	s.log = append(s.log, change[T]{obj, gone})
	obj.SetResourceVersion(strconv.Itoa(firstVersion + len(s.log)))
	if delete(s.objects, obj.GetName()); !gone {
		s.objects[obj.GetName()] = obj
	}
	return obj.DeepCopy()
}
