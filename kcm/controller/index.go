package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// ownerIndex is the name of the index behind [OwnerIndex].
const ownerIndex = "owner"

// OwnerIndex finds the objects of one controller without a look at all others.
// All loops share one index per informer, which the first of them adds.
type OwnerIndex[T metav1.Object] struct {
	indexer cache.Indexer
}

// NewOwnerIndex adds the index to the informer unless it is there already.
func NewOwnerIndex[T metav1.Object](informer cache.SharedIndexInformer) OwnerIndex[T] {
	AddIndex(informer, ownerIndex, ownerKeys)
	return OwnerIndex[T]{indexer: informer.GetIndexer()}
}

// AddIndex adds an index to the informer unless it has one of that name.
func AddIndex(informer cache.SharedIndexInformer, name string, keys cache.IndexFunc) {
	if _, exists := informer.GetIndexer().GetIndexers()[name]; exists {
		return
	}
	if err := informer.AddIndexers(cache.Indexers{name: keys}); err != nil {
		// Only an informer that was stopped refuses an index.
		utilruntime.HandleError(fmt.Errorf("add the index %s: %w", name, err))
	}
}

// keys are looked up together.
type keys []string

// ownerKeys returns the key of an object: that of its controller, or that of
// the orphans of its namespace. The cache asks it for what is to be looked up,
// too, which are keys already.
func ownerKeys(obj any) ([]string, error) {
	if wanted, ok := obj.(keys); ok {
		return wanted, nil
	}
	object := obj.(metav1.Object)
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return []string{ownerKey(object.GetNamespace(), ref.UID)}, nil
	}
	return []string{orphansKey(object.GetNamespace())}, nil
}

// ownerKey has the namespace in it, because an owner and what it owns are
// always in the same one. A pod elsewhere that claims to have this owner is
// not the owner's: anyone who may create pods there could write that.
func ownerKey(namespace string, owner types.UID) string { return namespace + "/" + string(owner) }

func orphansKey(namespace string) string { return ownerKey(namespace, "") }

// OwnedBy returns the objects whose controller reference names the owner,
// whether they match its selector or not. They are the cache's, as are those
// of the other methods: copy before changing.
func (x OwnerIndex[T]) OwnedBy(owner metav1.Object) ([]T, error) {
	return x.lookUp(ownerKey(owner.GetNamespace(), owner.GetUID()))
}

// Orphans returns the objects of a namespace that have no controller.
func (x OwnerIndex[T]) Orphans(namespace string) ([]T, error) {
	return x.lookUp(orphansKey(namespace))
}

// OwnedByOrOrphans returns the owner's objects and the orphans of its namespace
// as of one moment. Between two looks an object that is adopted would be
// missed. For an owner of thousands it takes twice as long as two looks.
func (x OwnerIndex[T]) OwnedByOrOrphans(owner metav1.Object) ([]T, error) {
	namespace := owner.GetNamespace()
	return x.lookUp(ownerKey(namespace, owner.GetUID()), orphansKey(namespace))
}

// Siblings returns the objects that have the same controller as obj, itself
// included. An orphan has none, not even itself.
func (x OwnerIndex[T]) Siblings(obj metav1.Object) ([]T, error) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return nil, nil
	}
	return x.lookUp(ownerKey(obj.GetNamespace(), ref.UID))
}

func (x OwnerIndex[T]) lookUp(wanted ...string) ([]T, error) {
	found, err := x.indexer.Index(ownerIndex, keys(wanted))
	if err != nil {
		return nil, fmt.Errorf("look up %T of %q: %w", *new(T), wanted, err)
	}
	objects := make([]T, 0, len(found))
	for _, obj := range found {
		objects = append(objects, obj.(T))
	}
	return objects, nil
}

// PodsOn returns what finds the pods that are bound to a node, without a look at all
// others. It adds the index to the informer of pods unless it is there already.
func PodsOn(pods cache.SharedIndexInformer) func(node string) []any {
	AddIndex(pods, "node", func(pod any) ([]string, error) { return []string{pod.(*corev1.Pod).Spec.NodeName}, nil })
	return func(node string) []any {
		there, _ := pods.GetIndexer().ByIndex("node", node) // an error says that there is no such index
		return there
	}
}
