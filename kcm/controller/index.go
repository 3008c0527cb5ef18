package controller

import (
	"fmt"

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
	indexer := informer.GetIndexer()
	if _, exists := indexer.GetIndexers()[ownerIndex]; !exists {
		if err := informer.AddIndexers(cache.Indexers{ownerIndex: ownerKeys}); err != nil {
			// Only an informer that was stopped refuses an index.
			utilruntime.HandleError(fmt.Errorf("index %T by owner: %w", *new(T), err))
		}
	}
	return OwnerIndex[T]{indexer: indexer}
}

// keys are what is looked up, in one look at the cache.
type keys []string

// ownerKeys returns where an object is to be found: with its controller, or
// among the orphans of its namespace.
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
	return x.lookUp(keys{ownerKey(owner.GetNamespace(), owner.GetUID())})
}

// Claimable returns what a [Claimer] of the owner has to look at: the owner's
// objects and the orphans of its namespace. Both are as of one moment: between
// two looks an object that is adopted would be missed, and one that is
// released be there twice.
func (x OwnerIndex[T]) Claimable(owner metav1.Object) ([]T, error) {
	namespace := owner.GetNamespace()
	return x.lookUp(keys{ownerKey(namespace, owner.GetUID()), orphansKey(namespace)})
}

// Siblings returns the objects that have the same controller as obj, itself
// included. An orphan has none, not even itself.
func (x OwnerIndex[T]) Siblings(obj metav1.Object) ([]T, error) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return nil, nil
	}
	return x.lookUp(keys{ownerKey(obj.GetNamespace(), ref.UID)})
}

func (x OwnerIndex[T]) lookUp(wanted keys) ([]T, error) {
	found, err := x.indexer.Index(ownerIndex, wanted)
	if err != nil {
		return nil, fmt.Errorf("look up %T of %q: %w", *new(T), wanted, err)
	}
	objects := make([]T, 0, len(found))
	for _, obj := range found {
		objects = append(objects, obj.(T))
	}
	return objects, nil
}
