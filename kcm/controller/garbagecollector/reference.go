package garbagecollector

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// object is all that the collector knows of one: its kind and its metadata,
// without labels and annotations.
type object = metav1.PartialObjectMetadata

// reference is where an object is to be found, and which one that has to be.
type reference struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

func referenceTo(obj *object) reference {
	return reference{obj.APIVersion, obj.Kind, obj.Namespace, obj.Name, obj.UID}
}

// claim is whom a dependent means by one of its owner references: an object in
// its own namespace, or one that is in none.
func claim(dependent *object, owner metav1.OwnerReference) reference {
	return reference{owner.APIVersion, owner.Kind, dependent.Namespace, owner.Name, owner.UID}
}

// means tells whether a claim is true of that object.
func (r reference) means(obj *object) bool { return r.agrees(referenceTo(obj)) }

// agrees tells whether a claim is a reference to the same object as another one,
// perhaps in another version. An object has one UID in all versions in which it can
// be read, and the one that a claim names may be served no more.
func (r reference) agrees(other reference) bool {
	group := func(apiVersion string) string { return apiVersion[:max(0, strings.IndexByte(apiVersion, '/'))] }
	r.apiVersion, other.apiVersion = group(r.apiVersion), group(other.apiVersion)
	return r == other || r.clusterScoped() == other
}

// clusterScoped is the same reference to an object that is in no namespace.
func (r reference) clusterScoped() reference {
	r.namespace = ""
	return r
}

// String is the form in which the original's events show it.
func (r reference) String() string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", r.apiVersion, r.kind, r.namespace, r.name, r.uid)
}

// key names what is to be looked at: an object, or an owner that no informer
// shows. Such an owner has a key for each namespace in which it is named, so that
// a namespace full of false references delays no other.
type key struct {
	namespace string
	uid       types.UID
}

func keyOf(obj *object) key { return key{obj.Namespace, obj.UID} }

func keysOf(nodes []*node) (keys []key) {
	for _, n := range nodes {
		keys = append(keys, keyOf(n.object))
	}
	return keys
}

// Parts has the keys of a namespace stand in a line of their own.
func (k key) Parts() (namespace, name string) { return k.namespace, string(k.uid) }

// phase is how far an object has come on its way out, as far as that concerns
// its dependents.
type phase int

const (
	// alive objects are not being deleted.
	alive phase = iota
	// leaving objects are being deleted, and wait for something else than their
	// dependents: a finalizer of somebody else, or the end of a grace period.
	leaving
	// orphaning objects wait for their dependents to be freed of them.
	orphaning
	// collecting objects wait for those dependents to go that block them: they
	// are deleted in the foreground.
	collecting
)

// phaseOf returns the phase of an object, or alive if it is nil.
func phaseOf(obj *object) phase {
	switch {
	case obj == nil || obj.DeletionTimestamp == nil:
		return alive
	case slices.Contains(obj.Finalizers, metav1.FinalizerOrphanDependents):
		return orphaning
	case slices.Contains(obj.Finalizers, metav1.FinalizerDeleteDependents):
		return collecting
	default:
		return leaving
	}
}
